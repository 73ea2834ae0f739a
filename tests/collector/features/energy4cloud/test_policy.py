"""The thesis' own examples, and the rules that hold whatever the cluster looks like."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.decide.policies.actions import Cut, Kill, Start
from collector.decide.policies.interface import Rejection, Request
from collector.decide.policies.overbooking import lenders
from collector.features.energy4cloud.policies import Energy4CloudSettings, place, rebalance
from collector.snapshot.overbooking import TOLERANCES
from collector.snapshot.pending import with_pending
from collector.snapshot.tables import OVERBOOKING_LIMITS, Snapshot, TaskKind
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities

GB = 10**9
SETTINGS = Energy4CloudSettings()


def promise(cores: float, gigabytes: float) -> Quantities:
    return Quantities(cpu_cores=cores, memory_bytes=round(gigabytes * GB))


def node(name: str, use: float = 0.0, cores: float = 8.0, gigabytes: float = 8.0) -> NodeFacts:
    return NodeFacts(
        name=name,
        capacity=promise(cores, gigabytes),
        used=promise(use * cores, use * gigabytes),
    )


def task(  # noqa: PLR0913, PLR0917 - a row of a table
    name: str,
    on: str | None,
    cores: float,
    gigabytes: float,
    task_class: int,
    kind: TaskKind = TaskKind.SERVICE,
) -> TaskFacts:
    return TaskFacts(id=name, node=on, requested=promise(cores, gigabytes), task_class=task_class, kind=kind)


def request(cores: float, gigabytes: float, task_class: int, kind: TaskKind = TaskKind.SERVICE) -> Request:
    return Request(reserve=promise(cores, gigabytes), task_class=task_class, kind=kind)


def order(snapshot: Snapshot, wanted: Request) -> list[str]:
    return [snapshot.nodes.names[row] for row in place(snapshot, wanted, SETTINGS).rows]


def test_candidates_come_by_region_then_class_then_use() -> None:
    """The thesis: two class-1 and one class-2 node in LEE, three class-1 and one class-4 in DEE: 1121114."""
    nodes = [
        node("dee-4", 0.6),
        *(node(f"dee-1{letter}", use) for letter, use in (("a", 0.55), ("b", 0.8), ("c", 0.7))),
        node("lee-2", 0.4),
        node("lee-1a", 0.1),
        node("lee-1b", 0.3),
    ]
    tasks = [task(f"on-{each.name}", each.name, 0.1, 0.1, int(each.name[4])) for each in nodes]
    found = order(assemble(nodes, tasks), request(0.1, 0.1, 4))
    assert found == ["lee-1b", "lee-1a", "lee-2", "dee-1b", "dee-1c", "dee-1a", "dee-4"]


def test_a_strict_request_does_not_join_laxer_tasks_where_it_fits_with_its_own() -> None:
    nodes = [node("lax", 0.4), node("strict", 0.1)]
    tasks = [task("a", "lax", 1, 1, 4), task("b", "strict", 1, 1, 1)]
    assert order(assemble(nodes, tasks), request(1, 1, 1)) == ["strict"]


def test_a_node_without_tasks_takes_any_class_and_comes_last() -> None:
    nodes = [node("empty"), node("used", 0.2)]
    snapshot = assemble(nodes, [task("a", "used", 1, 1, 2)])
    for task_class in (2, 3, 4):
        assert order(snapshot, request(1, 1, task_class)) == ["used", "empty"]
    assert order(snapshot, request(1, 1, 1)) == ["empty"]


def test_degraded_nodes_receive_nothing() -> None:
    snapshot = assemble([node("hot", 0.9)], [task("a", "hot", 1, 1, 4, TaskKind.JOB)])
    ranking = place(snapshot, request(1, 1, 4), SETTINGS)
    assert ranking.rows.size == 0
    assert ranking.refused[0] == Rejection.OVERBOOKED


def crowded(beyond: float, gigabytes: float = 1.0) -> tuple[NodeFacts, TaskFacts]:
    """A node with 95 % of its CPU in use, of which a task takes so many cores beyond its promise."""
    hot = NodeFacts(name="hot", capacity=promise(8, 8), used=promise(7.6, gigabytes))
    busy = task("busy", "hot", 1, 1, 3, TaskKind.JOB)
    return hot, replace(busy, used=promise(1 + beyond, 1))


@pytest.mark.parametrize(
    ("beyond", "gigabytes", "found"),
    [(4.0, 1.0, ["hot"]), (0.5, 1.0, []), (4.0, 7.0, [])],
    ids=["borrowed", "promised", "no memory"],
)
def test_a_node_where_only_borrowed_cpu_is_short_stays_open(
    beyond: float, gigabytes: float, found: list[str]
) -> None:
    hot, busy = crowded(beyond, gigabytes)
    assert order(assemble([hot], [busy]), request(1, 1, 4)) == found


def test_a_pending_task_on_a_node_with_borrowed_cpu_counts_at_once() -> None:
    """The pending task makes the node degraded, but only by borrowed CPU."""
    hot, busy = crowded(4.0)
    seen = assemble([replace(hot, used=promise(6.0, 1.0))], [busy])
    assert lenders(seen).tolist() == [False]
    one = request(1, 1, 4)
    fuller = with_pending(seen, [one.pending_on("hot")], 1)
    assert lenders(fuller).tolist() == [True]
    assert order(fuller, one) == ["hot"]


def test_nodes_with_borrowed_cpu_are_used_last_and_never_with_the_rules_of_the_thesis() -> None:
    hot, busy = crowded(4.0)
    room = assemble([hot, node("calm", 0.7)], [busy, task("other", "calm", 1, 1, 3)])
    assert order(room, request(1, 1, 3)) == ["calm"]
    full = assemble([hot, node("calm", 0.7)], [busy, task("other", "calm", 8, 8, 1)])
    assert order(full, request(1, 1, 3)) == ["hot"]
    as_written = place(full, request(1, 1, 3), Energy4CloudSettings(borrowed_counts=True))
    assert as_written.rows.size == 0


def test_overbooking_goes_as_far_as_the_strictest_task_allows() -> None:
    full = [task("a", "n", 8, 8, 2)]
    assert order(assemble([node("n", 0.2)], full), request(1.6, 1.6, 4)) == ["n"]
    ranking = place(assemble([node("n", 0.2)], full), request(1.7, 1.7, 2), SETTINGS)
    assert ranking.rows.size == 0


def test_a_request_is_cut_to_fit_next_to_a_stricter_task() -> None:
    """The thesis: 2 GB left on a class-1 node, a class-4 request for 3 GB: cut, it fits."""
    snapshot = assemble([node("n", 0.3)], [task("a", "n", 1, 6, 1)])
    ranking = place(snapshot, request(1, 3, 4), SETTINGS)
    assert [snapshot.nodes.names[row] for row in ranking.rows] == ["n"]
    assert ranking.gets(0) == promise(0.5, 1.5)
    assert ranking.needs(0) == ()
    assert "cut by 50%" in " ".join(ranking.explain(0))


@pytest.mark.parametrize(
    ("host_class", "task_class", "share"),
    [(1, 2, 1 / 6), (1, 3, 1 / 3), (2, 3, 1 / 6), (1, 4, 1 / 2), (2, 4, 1 / 3), (3, 4, 1 / 6)],
)
def test_a_request_loses_only_what_overbooking_leaves_of_its_tolerance(
    host_class: int, task_class: int, share: float
) -> None:
    limit = OVERBOOKING_LIMITS[host_class]
    room = (1 - share) * 2.0
    snapshot = assemble([node("n", 0.3)], [task("a", "n", 8 * limit - room, 1, host_class)])
    ranking = place(snapshot, request(2.0, 1, task_class), SETTINGS)
    gets = ranking.gets(0)
    assert gets is not None
    assert gets.cpu_cores == pytest.approx(room)
    assert place(snapshot, request(2.1, 1, task_class), SETTINGS).best is None


def test_ranking_has_the_reservation_on_each_node() -> None:
    """Of two stricter nodes, one leaves it less than the other; on a node of its class it loses nothing."""
    tasks = [task("a", "one", 7, 1, 1), task("b", "two", 7.8, 1, 2), task("c", "four", 15.5, 1, 4)]
    snapshot = assemble([node(name, 0.3) for name in ("four", "one", "two")], tasks)
    ranking = place(snapshot, request(2, 1, 4), SETTINGS)
    promised = {snapshot.nodes.names[row]: ranking.gets(row) for row in ranking.rows.tolist()}
    assert promised == {"one": promise(1, 0.5), "two": promise(2 * 2 / 3, 2 / 3)}


def test_laxer_tasks_are_cut_one_after_the_other_until_a_stricter_request_fits() -> None:
    tasks = [
        task("c2", "n", 1.3, 1.3, 2),
        task("c4-busy", "n", 4, 4, 4),
        task("c4-idle", "n", 4, 4, 4),
        task("c3", "n", 2, 2, 3),
    ]
    snapshot = assemble([node("n", 0.6)], tasks)
    ranking = place(snapshot, request(1, 1, 2), SETTINGS)
    cuts = ranking.needs(0)
    # 12.3 cores would be promised of 9.6 that class 2 allows: a third of each class-4 task is not enough.
    assert [cut.task for cut in cuts if isinstance(cut, Cut)] == ["c4-busy", "c4-idle", "c3"]
    first = cuts[0]
    assert isinstance(first, Cut)
    assert first.allocated.cpu_cores == pytest.approx(4 * (1 - 1 / 3))


def test_the_least_used_task_is_cut_first() -> None:
    busy = TaskFacts(id="a-busy", node="n", requested=promise(4, 4), used=promise(3, 3), task_class=4)
    idle = TaskFacts(id="b-idle", node="n", requested=promise(4, 4), used=promise(1, 1), task_class=4)
    snapshot = assemble([node("n", 0.6)], [busy, idle])
    cuts = place(snapshot, request(1, 1, 1), SETTINGS).needs(0)
    assert [cut.task for cut in cuts if isinstance(cut, Cut)] == ["b-idle"]


def test_a_task_is_killed_only_where_it_has_another_place() -> None:
    running = [task("victim", "hot", 8, 8, 4)]
    alone = assemble([node("hot", 0.9)], running)
    assert place(alone, request(8, 8, 1), SETTINGS).rows.size == 0
    # A third node makes the place: it takes class 4, but is too small for the request.
    other = assemble([node("hot", 0.9), node("other", 0.6)], [*running, task("b", "other", 1, 1, 4)])
    ranking = place(other, request(8, 8, 1), SETTINGS)
    assert [other.nodes.names[row] for row in ranking.rows] == ["hot"]
    (kill,) = ranking.needs(int(ranking.rows[0]))
    assert isinstance(kill, Kill)
    assert (kill.task, kill.node, kill.target) == ("victim", "hot", "other")


def test_a_killed_task_may_go_where_the_request_may_not() -> None:
    running = [task("victim", "hot", 8, 8, 4), task("b", "other", 1, 1, 4)]
    snapshot = assemble([node("hot", 0.9), node("other", 0.6)], running)
    wanted = replace(request(8, 8, 1), exclude=frozenset({"other"}))
    ranking = place(snapshot, wanted, SETTINGS)
    assert [snapshot.nodes.names[row] for row in ranking.rows] == ["hot"]
    (kill,) = ranking.needs(int(ranking.rows[0]))
    assert isinstance(kill, Kill)
    assert kill.target == "other"


def test_a_killed_task_without_another_place_may_wait() -> None:
    snapshot = assemble([node("hot", 0.9)], [task("victim", "hot", 8, 8, 4)])
    ranking = place(snapshot, request(8, 8, 1), Energy4CloudSettings(may_wait=True))
    (kill,) = ranking.needs(0)
    assert isinstance(kill, Kill)
    assert kill.target is None


def test_of_the_laxest_class_only_services_are_killed_and_only_for_jobs() -> None:
    tasks = [task("job", "hot", 8, 8, 4, TaskKind.JOB), task("service", "hot", 8, 8, 4)]
    snapshot = assemble([node("hot", 0.9), node("spare", 0.2)], [*tasks, task("b", "spare", 8, 8, 3)])
    assert place(snapshot, request(4, 4, 4), SETTINGS).rows.size == 1  # on the spare one, without a kill
    crowded = assemble([node("hot", 0.9), node("spare", 0.86)], [*tasks, task("b", "spare", 7, 7, 4)])
    assert place(crowded, request(8, 8, 4), SETTINGS).rows.size == 0
    by_job = place(crowded, request(8, 8, 4, TaskKind.JOB), Energy4CloudSettings(may_wait=True))
    kills = [each.task for each in by_job.needs(int(by_job.rows[0])) if isinstance(each, Kill)]
    assert kills == ["b"]


def test_waiting_tasks_start_and_cuts_are_undone_when_there_is_room() -> None:
    cut = TaskFacts(id="cut", node="n", requested=promise(4, 4), allocated=promise(2, 2), task_class=4)
    waiting = task("waits", None, 1, 1, 2)
    too_large = task("waits-long", None, 9, 9, 1)
    plan = rebalance(assemble([node("n", 0.2)], [cut, waiting, too_large]), SETTINGS)
    started, restored = plan.actions
    assert isinstance(started, Start)
    assert (started.task, started.target) == ("waits", "n")
    assert isinstance(restored, Cut)
    assert restored.allocated == promise(4, 4)
    assert plan.left == ("waits-long waits: no node has room",)


# --- Whatever the cluster looks like ----------------------------------------------------------------

_classes = st.integers(1, 4)
_nodes = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Nodes that the policy itself has filled, so that their reservations follow its rules."""
    facts = [node(f"n{number}", use) for number, use in enumerate(draw(_nodes))]
    tasks: list[TaskFacts] = []
    for number in range(draw(st.integers(0, 25))):
        snapshot = assemble(facts, tasks)
        wanted = _some_request(draw)
        ranking = place(snapshot, wanted, Energy4CloudSettings(may_kill=False))
        if ranking.best is not None:
            tasks = after(snapshot, tasks, wanted, f"t{number:02}")
    return assemble(facts, tasks)


def _some_request(draw: st.DrawFn) -> Request:
    cores, gigabytes = draw(st.floats(0.1, 6)), draw(st.floats(0.1, 6))
    return request(cores, gigabytes, draw(_classes), draw(st.sampled_from(TaskKind)))


def after(snapshot: Snapshot, tasks: list[TaskFacts], wanted: Request, name: str) -> list[TaskFacts]:
    """The tasks after a placement on the best node, and the actions that must come first."""
    ranking = place(snapshot, wanted, SETTINGS)
    assert ranking.best is not None
    by_id = {each.id: each for each in tasks}
    for action in ranking.needs(ranking.best):
        old = by_id[action.task] if isinstance(action, Cut | Kill) else None
        assert old is not None
        if isinstance(action, Cut):
            by_id[old.id] = _with(old, allocated=action.allocated)
        elif isinstance(action, Kill):
            assert action.target is not None
            by_id[old.id] = _with(old, node=action.target, allocated=None)
    by_id[name] = TaskFacts(
        id=name,
        node=snapshot.nodes.names[ranking.best],
        requested=wanted.reserve,
        allocated=ranking.gets(ranking.best),
        task_class=wanted.task_class,
        kind=wanted.kind,
    )
    return list(by_id.values())


def test_no_kill_makes_room_beside_a_pending_container_that_tolerates_nothing() -> None:
    nodes = [node("a", 0.6, cores=4.0), node("b", 0.1, cores=4.0)]
    tasks = [task("victim", "a", 2, 1, 4), task("other", "b", 2, 1, 1)]
    wanted = request(3.5, 1, 3)
    alone = place(assemble(nodes, tasks), wanted, SETTINGS)
    assert alone.best is not None
    pending = with_pending(assemble(nodes, tasks), [request(2, 1, 1).pending_on("a")], 1)
    assert place(pending, wanted, SETTINGS).best is None


def test_a_pending_container_that_is_cut_tolerates_no_more_than_a_stricter_class() -> None:
    """Also once the strict container is gone because of which it was cut."""
    classes = [
        request(3, 3, 4).pending_on("a", promise(3 * kept, 3 * kept)).task_class for kept in (1.0, 0.8, 0.5)
    ]
    assert classes == [4, 2, 1]


def _with(facts: TaskFacts, **changes: object) -> TaskFacts:
    return replace(facts, **changes)  # type: ignore[arg-type]


def lost_share(snapshot: Snapshot) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Per task, the share of its reservation that its cut and its node's overbooking take at worst."""
    tasks, nodes = snapshot.tasks, snapshot.nodes
    cut = 1 - (tasks.allocated[:, :2] / tasks.requested[:, :2]).min(axis=1)
    over = np.maximum(nodes.overbooking[tasks.node], 1.0)
    lost: np.ndarray[tuple[int], np.dtype[np.float64]] = cut + (1 - 1 / over)
    return lost


@given(clusters())
def test_no_task_ever_loses_more_than_its_class_tolerates(snapshot: Snapshot) -> None:
    if snapshot.tasks.ids:
        assert (lost_share(snapshot) <= TOLERANCES[snapshot.tasks.task_class] + 1e-6).all()


@given(clusters(), st.data())
def test_a_kill_always_has_a_place_and_keeps_the_books_right(snapshot: Snapshot, data: st.DataObject) -> None:
    wanted = request(data.draw(st.floats(0.1, 8)), data.draw(st.floats(0.1, 8)), data.draw(_classes))
    ranking = place(snapshot, wanted, SETTINGS)
    if ranking.best is None:
        return
    for action in ranking.needs(ranking.best):
        if isinstance(action, Kill):
            assert action.target not in (None, action.node)
            victim = snapshot.tasks.index[action.task]
            assert snapshot.tasks.task_class[victim] > wanted.task_class
    facts = _facts(snapshot)
    left = assemble(_nodes_of(snapshot), after(snapshot, facts, wanted, "new"))
    assert len(left.tasks.ids) == len(snapshot.tasks.ids) + 1
    assert (lost_share(left) <= TOLERANCES[left.tasks.task_class] + 1e-6).all()


def _nodes_of(snapshot: Snapshot) -> list[NodeFacts]:
    return [
        node(name, float(snapshot.nodes.utilisation[row])) for row, name in enumerate(snapshot.nodes.names)
    ]


def _facts(snapshot: Snapshot) -> list[TaskFacts]:
    tasks = snapshot.tasks
    return [
        TaskFacts(
            id=name,
            node=snapshot.nodes.names[tasks.node[row]],
            requested=_quantities(tasks.requested[row]),
            allocated=_quantities(tasks.allocated[row]),
            task_class=int(tasks.task_class[row]),
            kind=TaskKind(tasks.kind[row]),
        )
        for row, name in enumerate(tasks.ids)
    ]


def _quantities(row: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Quantities:
    return Quantities(cpu_cores=float(row[0]), memory_bytes=round(row[1]))
