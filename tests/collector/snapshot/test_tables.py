"""Properties and lookups of a snapshot's tables."""

import numpy as np
import pytest

from collector.snapshot.tables import Region, Snapshot, region_of
from tests.collector.snapshot.builders import NodeFacts, ServiceFacts, TaskFacts, assemble
from wire.messages import PowerCurve, PowerSource
from wire.resources import Quantities

CURVE = PowerCurve(
    source=PowerSource.MODEL, error_ratio=0.1, idle_watts=10.0, cpu_ratios=(0.0, 1.0), cpu_watts=(0.0, 100.0)
)


def one(used: Quantities, **facts: bool) -> Snapshot:
    return assemble(
        [
            NodeFacts(
                name="a",
                capacity=Quantities(4.0, 100, None, 0.0),
                used=used,
                curve=CURVE,
                on=facts.get("on", True),
            )
        ]
    )


def test_ratios_need_a_capacity_that_is_known_and_above_zero() -> None:
    ratios = one(Quantities(1.0, 25, 5.0, 5.0)).nodes.used_ratio[0]
    assert ratios[:2].tolist() == [0.25, 0.25]
    assert np.isnan(ratios[2:]).all()


def test_utilisation_is_the_most_used_of_cpu_and_memory() -> None:
    assert one(Quantities(1.0, 90)).nodes.utilisation.tolist() == [0.9]
    assert one(Quantities()).nodes.utilisation.tolist() == [0.0]


@pytest.mark.parametrize(
    ("utilisation", "region"),
    [(0.0, Region.LEE), (0.499, Region.LEE), (0.5, Region.DEE), (0.85, Region.DEE), (0.851, Region.EED)],
)
def test_regions_begin_where_the_thesis_has_them(utilisation: float, region: Region) -> None:
    assert region_of(np.array([utilisation])).tolist() == [region]


def test_overbooking_is_the_higher_ratio_of_reserved_cpu_and_memory() -> None:
    tasks = [TaskFacts(id="1", node="a", requested=Quantities(2.0, 120))]
    snapshot = assemble([NodeFacts(name="a", capacity=Quantities(4.0, 100))], tasks)
    assert snapshot.nodes.overbooking.tolist() == [1.2]


def test_a_node_without_power_draws_nothing() -> None:
    assert one(Quantities(2.0)).nodes.watts == pytest.approx([60.0])
    assert one(Quantities(2.0), on=False).nodes.watts.tolist() == [0.0]


def test_a_profiled_service_is_found_by_its_image() -> None:
    services = [
        ServiceFacts(name="a", image="web:1", profiled=False),
        ServiceFacts(name="b", image="web:1", profiled=True),
        ServiceFacts(name="c", profiled=True),
    ]
    assert assemble([], services=services).services.by_image == {"web:1": 1}


def test_cached_values_belong_to_their_snapshot() -> None:
    snapshot, other = assemble([]), assemble([])
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    assert [snapshot.cached("key", make), snapshot.cached("key", make)] == [1, 1]
    assert snapshot.cached("another key", make) == 2
    assert other.cached("key", make) == 3


def test_rows_are_found_by_name_and_id() -> None:
    snapshot = assemble(
        [NodeFacts(name=name, capacity=Quantities()) for name in "ba"], [TaskFacts(id="x", node="b")]
    )
    assert snapshot.nodes.index == {"a": 0, "b": 1}
    assert snapshot.tasks.index == {"x": 0}


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, 70_000], ids=["few", "more than 16 bits can number"])
def test_tasks_are_found_by_node_and_service(count: int) -> None:
    services = ("db", "web")
    nodes = [NodeFacts(name=f"n{row:05}", capacity=Quantities(1.0, 1)) for row in range(count)]
    places = {"t0": "n00002", "t1": None, "t2": "n00000", "t3": "n00002", "t4": f"n{count - 1:05}"}
    tasks = [
        TaskFacts(id=name, node=node, service=services[place % 2])
        for place, (name, node) in enumerate(places.items())
    ]
    snapshot = assemble(nodes, tasks, [ServiceFacts(name=each) for each in services])
    snapshot.build_indexes()
    assert [snapshot.tasks_on(row).tolist() for row in (0, 1, 2, count - 1)] == [[2], [], [0, 3], [4]]
    assert snapshot.tasks_on_any(np.array([0, 1, 2])).tolist() == [2, 0, 3]
    assert snapshot.tasks_on_any(np.array([], dtype=np.intp)).tolist() == []
    assert [snapshot.tasks_of(row).tolist() for row in (0, 1)] == [[0, 2, 4], [1, 3]]
    assert snapshot.tasks_of(2).tolist() == [], "a service that was added with a pending task has none"
    assert np.flatnonzero(snapshot.instances(0)).tolist() == [0, 2, count - 1]
