from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.config import CollectorConfig, PlacementConfig
from collector.decide.policies.interface import Request
from collector.features.energy4cloud.policies import ENERGY4CLOUD
from collector.observe.live_tables import LiveTables
from collector.observe.registry import Registry
from collector.snapshot.tables import Region, Snapshot
from tests.collector.builders import START, container, partial_report, report, state
from tests.collector.report_strategies import clusters, deliveries, patient
from wire.messages import ContainerState, Report
from wire.resources import Quantities

EAGER = CollectorConfig(placement=PlacementConfig(snapshot_seconds=0.0))
GIB = 1 << 30


def busy(cores: float, memory_bytes: int = 0) -> dict[str, Any]:
    return {"used": Quantities(cores, memory_bytes), "capacity": Quantities(10.0, 10 * GIB)}


def of_class(name: str, task_class: int, *, cores: float = 0.1) -> ContainerState:
    return container(
        name,
        labels={"wattpack.class": str(task_class)},
        used=Quantities(cores, 0),
        limit=Quantities(1.0, GIB),
    )


def order_of(snapshot: Snapshot) -> list[str]:
    """The same order, sorted in Python from the columns of a snapshot."""
    nodes = snapshot.nodes
    use = np.where(nodes.region == Region.EED, nodes.utilisation, -nodes.utilisation)
    of = np.where(nodes.strictest_class == 0, 4, nodes.strictest_class)
    keys = [(nodes.region[row], of[row], use[row], name) for row, name in enumerate(nodes.names)]
    return [key[-1] for key in sorted(keys)]


def assert_in_order(tables: LiveTables, now: float) -> None:
    assert tables.nodes_by_region() == order_of(tables.snapshot(now))


@patient
@given(clusters(), st.data())
def test_nodes_are_in_order_after_any_reports(reports: list[Report], data: st.DataObject) -> None:
    registry, now = Registry(EAGER), START
    for request in data.draw(deliveries(reports)):
        for each in request:
            registry.apply(each, now)
        now += data.draw(st.sampled_from([1.0, 4000.0]))
        registry.drop_old(now)
        assert_in_order(registry.tables, now)


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 12), st.integers(0, 4)), min_size=1, max_size=40))
def test_each_node_is_listed_once_however_its_load_changes(moves: list[tuple[int, float, int]]) -> None:
    registry = Registry(EAGER)
    for sequence, (node, cores, task_class) in enumerate(moves, start=1):
        runs = [of_class("web", task_class)] if task_class else []
        registry.apply(report(f"n{node}", sequence=sequence, containers=runs, **busy(cores)), START)
    assert_in_order(registry.tables, START)
    assert sorted(registry.tables.nodes_by_region()) == sorted({f"n{node}" for node, _, _ in moves})


def test_full_nodes_come_first_except_in_the_degraded_region() -> None:
    registry = Registry(EAGER)
    for name, cores in {"a": 1, "b": 4, "c": 5, "d": 8.5, "e": 8.6, "f": 9.9}.items():
        registry.apply(report(name, containers=[of_class("web", 2)], **busy(cores)), START)
    registry.apply(report("strict", containers=[of_class("x", 1), of_class("y", 4)], **busy(0.5)), START)
    registry.apply(report("empty", **busy(0.1)), START)
    assert registry.tables.nodes_by_region() == ["strict", "b", "a", "empty", "d", "c", "e", "f"]
    registry.apply(partial_report("strict", sequence=2, gone=("id-of-x",)), START)
    assert registry.tables.nodes_by_region() == ["b", "a", "strict", "empty", "d", "c", "e", "f"]
    registry.apply(partial_report("a", sequence=2, state=state(**busy(0.0, 6 * GIB))), START)
    assert registry.tables.nodes_by_region() == ["b", "strict", "empty", "d", "a", "c", "e", "f"]


def test_the_policy_energy4cloud_ranks_nodes_in_the_same_order() -> None:
    registry = Registry(EAGER)
    for number in range(40):
        runs = [of_class("web", 1 + number % 4)] if number % 5 else []
        registry.apply(report(f"n{number}", containers=runs, **busy(number * 7 % 40 / 4.7)), START)
    ranking = ENERGY4CLOUD.place
    assert ranking is not None
    snapshot = registry.tables.snapshot(START)
    wanted = Request(reserve=Quantities(0.1, GIB), task_class=4)
    rows = ranking(snapshot, wanted, ENERGY4CLOUD.settings()).rows
    names = [snapshot.nodes.names[row] for row in rows]
    assert names == registry.tables.nodes_by_region()[: len(names)]
    assert len(names) > 20
