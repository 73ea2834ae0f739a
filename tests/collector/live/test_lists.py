from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.config import CollectorConfig, PlacementConfig
from collector.live.board import LiveTables
from collector.live.changes import Allocation
from collector.live.registry import Registry
from collector.policies.energy4cloud.policy import ENERGY4CLOUD
from collector.policies.interface import Request
from collector.snapshot.tables import Region, Snapshot
from tests.collector.builders import START, container, report, said, state
from tests.collector.speaking import clusters, deliveries, patient
from wire.messages import ContainerState, Report
from wire.resources import Quantities

EAGER = CollectorConfig(placement=PlacementConfig(snapshot_seconds=0.0))
GIB = 1 << 30
GROWING = (Region.LEE, Region.DEE, Region.EED)


def busy(cores: float, memory_bytes: int = 0) -> dict[str, Any]:
    return {"used": Quantities(cores, memory_bytes), "capacity": Quantities(10.0, 10 * GIB)}


def of_class(name: str, task_class: int, *, cores: float = 0.1) -> ContainerState:
    return container(
        name,
        labels={"wattpack.class": str(task_class)},
        used=Quantities(cores, 0),
        limit=Quantities(1.0, GIB),
    )


def sorted_anew(snapshot: Snapshot, regions: tuple[Region, ...], classes: tuple[int, ...]) -> list[str]:
    """The same order, from the columns of a snapshot."""
    nodes = snapshot.nodes
    use = np.where(nodes.region == Region.EED, nodes.utilisation, -nodes.utilisation)
    of = np.where(nodes.strictest_class == 0, 4, nodes.strictest_class)
    keys = [
        (regions.index(Region(nodes.region[row])), classes.index(of[row]), use[row], name)
        for row, name in enumerate(nodes.names)
        if nodes.region[row] in regions and of[row] in classes
    ]
    return [key[-1] for key in sorted(keys)]


def in_order(board: LiveTables, now: float) -> bool:
    snapshot = board.snapshot(now)
    return all(
        board.hosts(regions, classes) == sorted_anew(snapshot, regions, classes)
        for regions in (GROWING, (Region.EED, Region.DEE))
        for classes in ((1, 2, 3, 4), (3, 4, 2, 1), (1,))
    )


@patient
@given(clusters(), st.data())
def test_after_any_reports_hosts_stand_as_if_they_were_sorted_anew(
    spoken: list[Report], data: st.DataObject
) -> None:
    known, now = Registry(EAGER), START
    for request in data.draw(deliveries(spoken)):
        for each in request:
            known.apply(each, now)
        now += data.draw(st.sampled_from([1.0, 4000.0]))
        known.tidy(now)
        assert in_order(known.tables, now)


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 12), st.integers(0, 4)), min_size=1, max_size=40))
def test_a_host_that_moves_between_lists_stands_in_one(moves: list[tuple[int, float, int]]) -> None:
    known = Registry(EAGER)
    for sequence, (host, cores, task_class) in enumerate(moves, start=1):
        runs = [of_class("web", task_class)] if task_class else []
        known.apply(report(f"n{host}", sequence=sequence, containers=runs, **busy(cores)), START)
    assert in_order(known.tables, START)
    assert sorted(known.tables.hosts(GROWING)) == sorted({f"n{host}" for host, _, _ in moves})


def test_the_fullest_first_but_the_emptiest_where_work_suffers() -> None:
    known = Registry(EAGER)
    for name, cores in {"a": 1, "b": 4, "c": 5, "d": 8.5, "e": 8.6, "f": 9.9}.items():
        known.apply(report(name, containers=[of_class("web", 2)], **busy(cores)), START)
    known.apply(report("strict", containers=[of_class("x", 1), of_class("y", 4)], **busy(0.5)), START)
    known.apply(report("empty", **busy(0.1)), START)
    assert known.tables.hosts([Region.LEE]) == ["strict", "b", "a", "empty"]
    assert known.tables.hosts([Region.DEE]) == ["d", "c"]
    assert known.tables.hosts([Region.EED]) == ["e", "f"]
    known.apply(said("strict", sequence=2, gone=("id-of-x",)), START)
    assert known.tables.hosts([Region.LEE]) == ["b", "a", "strict", "empty"]
    known.apply(said("a", sequence=2, state=state(**busy(0.0, 6 * GIB))), START)
    assert known.tables.hosts([Region.DEE]) == ["d", "a", "c"]


def test_the_policy_asks_hosts_in_the_same_order() -> None:
    known = Registry(EAGER)
    for number in range(40):
        runs = [of_class("web", 1 + number % 4)] if number % 5 else []
        known.apply(report(f"n{number}", containers=runs, **busy(number * 7 % 40 / 4.7)), START)
    ranking = ENERGY4CLOUD.place
    assert ranking is not None
    snapshot = known.tables.snapshot(START)
    wanted = Request(reserve=Quantities(0.1, GIB), task_class=4)
    rows = ranking(snapshot, wanted, ENERGY4CLOUD.settings()).rows
    names = [snapshot.nodes.names[row] for row in rows]
    assert names == known.tables.hosts((Region.LEE, Region.DEE))[: len(names)]
    assert len(names) > 20


def test_the_least_used_task_first_and_a_new_one_at_the_end() -> None:
    known = Registry(EAGER)
    first = [of_class("a", 3, cores=0.9), of_class("b", 3, cores=0.2), of_class("c", 1)]
    known.apply(report(containers=first), START)
    known.apply(report(sequence=2, containers=[*first, of_class("d", 3, cores=0.0)]), START)
    assert known.tables.least_used("alpha", 3) == ["id-of-b", "id-of-a", "id-of-d"]
    known.apply(said(sequence=3, containers=(of_class("d", 3, cores=0.1),)), START)
    assert known.tables.least_used("alpha", 3) == ["id-of-d", "id-of-b", "id-of-a"]
    cut = Allocation(node="alpha", container="id-of-d", requested=(1.0,) * 4, allocated=(0.1, GIB, 1.0, 1.0))
    known.tables.put_allocations([cut])
    assert known.tables.least_used("alpha", 3) == ["id-of-b", "id-of-a", "id-of-d"]
    known.tables.forget("alpha")
    assert known.tables.least_used("alpha", 3) == []
