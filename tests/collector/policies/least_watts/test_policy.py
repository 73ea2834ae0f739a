from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.policies.actions import Move, PowerOff, PowerOn, describe
from collector.policies.interface import Request
from collector.policies.least_watts.cost import LeastWattsSettings
from collector.policies.least_watts.plan import rebalance
from collector.policies.least_watts.policy import place
from collector.policies.outlook import deviations, forecast, sway
from collector.snapshot.tables import Snapshot, TaskKind
from tests.collector.policies.clusters import CURVE, amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.messages import PowerCurve
from wire.resources import Quantities

_ANY = LeastWattsSettings()


def _node(name: str, *, curve: PowerCurve | None = CURVE, cores: float = 10, **facts: object) -> NodeFacts:
    return NodeFacts(name=name, capacity=amount(cores, 16), curve=curve, **facts)  # type: ignore[arg-type]


def _task(  # noqa: PLR0913 - a task's facts
    name: str,
    node: str,
    cores: float,
    *,
    deviation: float = 0.1,
    gibibytes: float = 0.1,
    service: str | None = None,
    history: Sequence[float] = (),
) -> TaskFacts:
    used = amount(cores, gibibytes)
    return TaskFacts(
        id=name,
        node=node,
        used=used,
        mean=used,
        envelope=used,
        variance=(deviation**2, 0.0, 0.0, 0.0),
        observed_seconds=86_400.0,
        service=service,
        windows=[(each, 0.0, 0.0, 0.0) for each in history],
    )


def _best(snapshot: Snapshot, request: Request, settings: LeastWattsSettings = _ANY) -> str | None:
    best = place(snapshot, request, settings).best
    return None if best is None else snapshot.nodes.names[best]


def _request(cores: float, gibibytes: float = 0.1, deviation: float = 0.0, **facts: object) -> Request:
    demand = amount(cores, gibibytes)
    variance = (deviation**2, 0.0, 0.0, 0.0)
    return Request(demand=demand, mean=demand, variance=variance, known=True, **facts)  # type: ignore[arg-type]


def _moves(snapshot: Snapshot, settings: LeastWattsSettings = _ANY) -> list[tuple[str, str]]:
    actions = rebalance(snapshot, settings).actions
    return [(each.task, each.target) for each in actions if isinstance(each, Move)]


def test_the_node_that_draws_less_for_it_comes_first() -> None:
    thrifty = msgspec.structs.replace(CURVE, cpu_watts=(0.0, 5.0, 10.0))
    tasks = [_task("one", "a", 2), _task("two", "b", 2)]
    snapshot = assemble([_node("a"), _node("b", curve=thrifty)], tasks)
    assert _best(snapshot, _request(1)) == "b"


def test_no_node_is_woken_while_one_that_is_on_has_room() -> None:
    snapshot = assemble([_node("a", on=False), _node("b")], [_task("one", "b", 5)])
    assert _best(snapshot, _request(2)) == "b"
    ranking = place(snapshot, _request(6), _ANY)
    assert ranking.best == 0
    assert ranking.needs(0) == (PowerOn(node="a", reasons=("no node that is on has room",)),)


def test_of_those_asleep_the_one_with_the_fewest_idle_watts_for_its_room_is_woken() -> None:
    small = msgspec.structs.replace(CURVE, idle_watts=15.0)
    snapshot = assemble([_node("a", curve=small, cores=5, on=False), _node("b", on=False)])
    assert _best(snapshot, _request(1)) == "b"


def test_the_more_certain_it_must_be_the_less_fits() -> None:
    snapshot = assemble([_node("a")], [_task("one", "a", 5, deviation=2.0)])
    assert _best(snapshot, _request(1), LeastWattsSettings(confidence=0.85)) == "a"
    assert _best(snapshot, _request(1), LeastWattsSettings(confidence=0.99)) is None


def test_the_more_tasks_stray_together_the_less_fits() -> None:
    snapshot = assemble([_node("a")], [_task(f"task-{each}", "a", 0.4, deviation=0.4) for each in range(9)])
    assert _best(snapshot, _request(1), LeastWattsSettings(correlation=0.0)) == "a"
    assert _best(snapshot, _request(1), LeastWattsSettings(correlation=0.5)) is None


@given(count=st.integers(1, 50), correlation=st.floats(0, 1))
def test_what_strays_together_lies_between_squares_and_plain_sums(count: int, correlation: float) -> None:
    deviation = float(np.sqrt(count * sway(np.array([count]), correlation))[0, 0])
    assert np.sqrt(count) * (1 - 1e-9) <= deviation <= count * (1 + 1e-9)


def test_a_task_as_large_as_a_node_has_one_for_itself() -> None:
    tasks = [_task("one", "a", 0.1)]
    assert _best(assemble([_node("a"), _node("b", on=False)], tasks), _request(10, 16)) == "b"


def test_confidence_is_that_of_a_bell_curve() -> None:
    assert deviations(0.975)[0] == pytest.approx(1.96, abs=0.001)


def test_memory_adds_up_in_full() -> None:
    tasks = [_task("one", "a", 0.1, gibibytes=8), _task("two", "a", 0.1, gibibytes=7)]
    assert _best(assemble([_node("a")], tasks), _request(0.1, 1)) is None


def test_what_others_leave_is_preferred() -> None:
    flat = msgspec.structs.replace(CURVE, cpu_watts=(0.0, 20.0, 40.0))
    tasks = [_task("cpu", "a", 6, gibibytes=1), _task("memory", "b", 6, gibibytes=12)]
    snapshot = assemble([_node("a", curve=flat), _node("b", curve=flat)], tasks)
    assert _best(snapshot, _request(0.5, 2)) == "a"
    assert _best(snapshot, _request(1, 0.1)) == "b"


def test_a_service_is_kept_apart_over_failure_domains() -> None:
    nodes = [_node("a", domain="left"), _node("b", domain="left"), _node("c", domain="right", on=False)]
    snapshot = assemble(nodes, [_task("one", "a", 1, service="web")])
    assert _best(snapshot, _request(1, service="web")) in {"a", "b"}
    assert _best(snapshot, _request(1, service="web", spread=True)) == "c"


def test_what_nobody_knows_counts_with_a_part_of_what_it_asks_for() -> None:
    asked = TaskFacts(id="new", node="a", requested=amount(7, 1))
    snapshot = assemble([_node("a")], [asked])
    request, all_of_it = Request(reserve=amount(7, 1)), (1.0, 1.0, 1.0, 1.0)
    assert _best(snapshot, request, LeastWattsSettings(overbooks=True)) == "a"
    assert _best(snapshot, request, LeastWattsSettings(overbooks=True, unknown_ratio=all_of_it)) is None


def test_promises_are_kept_unless_it_may_overbook() -> None:
    snapshot = assemble([_node("a")], [TaskFacts(id="one", node="a", requested=amount(9, 1))])
    request = Request(demand=amount(1, 1), reserve=amount(2, 1), known=True)
    assert _best(snapshot, request) is None
    assert _best(snapshot, request, LeastWattsSettings(overbooks=True)) == "a"


def test_reasons_tell_watts_room_and_confidence() -> None:
    snapshot = assemble([_node("a")], [_task("one", "a", 2, deviation=0.0)])
    reasons = place(snapshot, _request(1), _ANY).explain(0)
    assert reasons[0] == "adds 6.0 W there; 1 nodes have room"
    assert reasons[1] == "cpu would be at 30% of 10 cores with 99% confidence"


def test_a_node_that_told_no_curve_comes_last() -> None:
    tasks = [_task("one", "a", 2), _task("two", "b", 2)]
    assert _best(assemble([_node("a", curve=None), _node("b")], tasks), _request(1)) == "b"


def test_newest_windows_outweigh_the_day() -> None:
    snapshot = assemble([_node("a")], [_task("one", "a", 1, history=[3.0] * 30)])
    assert forecast(snapshot).expected[0, 0] == pytest.approx(0.9 * 3 + 0.1 * 1)


def test_a_few_windows_of_late_count_as_much_as_another_day() -> None:
    snapshot = assemble([_node("a")], [_task("one", "a", 1, history=[3.0] * 3)])
    assert forecast(snapshot).expected[0, 0] == pytest.approx(0.5 * 3 + 0.5 * 1)


def test_an_overload_that_lasts_is_relieved_by_the_smallest_that_suffices() -> None:
    tasks = [
        _task("large", "a", 6),
        _task("middle", "a", 3),
        _task("small", "a", 1.5),
        _task("there", "b", 4),
    ]
    assert ("small", "b") in _moves(assemble([_node("a"), _node("b")], tasks))


def test_an_overload_that_passes_is_left_alone() -> None:
    burst = msgspec.structs.replace(amount(1, 0.1), cpu_cores=5.5)
    passing = TaskFacts(
        id="burst",
        node="a",
        used=burst,
        mean=amount(1, 0.1),
        envelope=burst,
        observed_seconds=86_400.0,
        variance=(1.0, 0, 0, 0),
    )
    assert _moves(assemble([_node("a"), _node("b")], [passing, _task("steady", "a", 5)])) == []


def test_a_node_that_stays_full_is_relieved_although_no_more_can_be_seen_of_it() -> None:
    tasks = [
        replace(_task(name, "a", 4.9), mean=amount(1, 0.1), envelope=amount(1, 0.1))
        for name in ("one", "two")
    ]
    full = (0.98, 0.0, 0.0, 0.0)
    passes = _node("a", history=[(0.2, 0.0, 0.0, 0.0), full])
    assert _moves(assemble([passes, _node("b")], tasks)) == []
    lasts = _node("a", history=[full, full])
    assert len(_moves(assemble([lasts, _node("b")], tasks))) == 1


def test_a_node_is_emptied_where_others_have_room_and_then_switched_off() -> None:
    tasks = [_task("one", "a", 1), _task("two", "b", 2), _task("three", "b", 2)]
    plan = rebalance(assemble([_node("a"), _node("b")], tasks), LeastWattsSettings(moves_per_day=1))
    assert [(each.task, each.target) for each in plan.actions if isinstance(each, Move)] == [("one", "b")]
    assert [describe(each) for each in plan.actions if isinstance(each, PowerOn | PowerOff)] == [
        "switch a off"
    ]
    assert plan.watts_before is not None
    assert plan.watts_after is not None
    assert plan.watts_after < plan.watts_before


def test_what_runs_on_every_node_keeps_none_awake() -> None:
    tasks = [_task("one", "a", 1), _task("two", "b", 2), _task("three", "b", 2)]
    daemons = [
        replace(_task(f"daemon-{node}", node, 0.1, service="agent"), kind=TaskKind.DAEMON, movable=False)
        for node in "ab"
    ]
    plan = rebalance(
        assemble([_node("a"), _node("b")], [*tasks, *daemons]), LeastWattsSettings(moves_per_day=1)
    )
    assert [(each.task, each.target) for each in plan.actions if isinstance(each, Move)] == [("one", "b")]
    assert [describe(each) for each in plan.actions if isinstance(each, PowerOn | PowerOff)] == [
        "switch a off"
    ]


def test_a_node_that_must_stay_on_is_neither_emptied_nor_switched_off() -> None:
    manager = {"wattpack.power": "never"}
    tasks = [_task("one", "a", 1), _task("two", "b", 2), _task("three", "b", 2)]
    nodes = [_node("a", labels=manager), _node("b", labels=manager), _node("c", labels=manager)]
    assert rebalance(assemble(nodes, tasks), LeastWattsSettings(moves_per_day=1)).actions == ()


def test_nothing_is_emptied_that_does_not_pay() -> None:
    tasks = [_task("one", "a", 1), _task("two", "b", 2), _task("three", "b", 2)]
    snapshot = assemble([_node("a"), _node("b")], tasks)
    assert _moves(snapshot, LeastWattsSettings(moves_per_day=1, disturbance_joules=1e6)) == []


def test_nothing_is_emptied_once_the_day_has_had_its_moves() -> None:
    tasks = [_task("one", "a", 1), _task("two", "b", 2), _task("three", "b", 2)]
    assert _moves(assemble([_node("a"), _node("b")], tasks), LeastWattsSettings(moves_per_day=0.1)) == []


def test_load_that_came_together_of_late_is_not_put_together() -> None:
    wave = [1.0, 9.0] * 15
    tasks = [_task("one", "a", 5, history=wave), _task("two", "b", 5, history=wave)]
    together = [msgspec.structs.replace(LeastWattsSettings(), moves_per_day=1.0)]
    snapshot = assemble([_node("a", cores=20), _node("b", cores=15)], tasks)
    assert _moves(snapshot, together[0]) == [("two", "a")]
    snapshot = assemble([_node("a", cores=18), _node("b", cores=15)], tasks)
    assert _moves(snapshot, together[0]) == []


def test_instances_of_a_service_are_not_brought_together() -> None:
    tasks = [_task("one", "a", 1, service="web"), _task("two", "b", 2, service="web"), _task("three", "b", 2)]
    snapshot = assemble([_node("a"), _node("b")], tasks)
    assert _moves(snapshot, LeastWattsSettings(moves_per_day=1)) == []


def test_unknown_capacities_do_not_stand_in_the_way() -> None:
    nodes = [NodeFacts(name="a", capacity=Quantities(10.0, 1 << 34), curve=CURVE)]
    ranking = place(assemble(nodes, [_task("one", "a", 1)]), _request(1), _ANY)
    assert ranking.best == 0
    assert np.isfinite(ranking.scores).all()
