from dataclasses import replace

import msgspec
import numpy as np
import pytest

from collector.decide.policies.actions import Move, PowerOff, PowerOn, describe
from collector.decide.policies.interface import Request
from collector.snapshot.tables import TaskKind
from replay.contenders.consolidate.overload import (
    Overload,
    median_deviation,
    next_load,
    overloaded,
    quartile_range,
)
from replay.contenders.consolidate.policy import REFERENCE, place, rebalance
from tests.collector.decide.policies.clusters import CURVE, GIB, amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble

_FIXED = msgspec.structs.replace(REFERENCE, overload=Overload.FIXED)


def _node(name: str, **facts: object) -> NodeFacts:
    return NodeFacts(name=name, capacity=amount(10, 16), curve=CURVE, **facts)  # type: ignore[arg-type]


def _task(name: str, node: str, cores: float, gibibytes: float = 1.0) -> TaskFacts:
    return TaskFacts(id=name, node=node, used=amount(cores, gibibytes), observed_seconds=86_400.0)


def test_median_deviation_is_as_published() -> None:
    assert median_deviation(np.array([[1, 1, 2, 2, 4, 6, 9]], dtype=float)) == [1]


def test_quartile_range_is_as_published() -> None:
    loads = [105, 109, 107, 112, 102, 118, 115, 104, 110, 116, 108]
    assert quartile_range(np.array([loads], dtype=float)) == [10]


def test_slots_before_the_oldest_load_do_not_count() -> None:
    loads = np.array([[np.nan] * 5 + [1, 1, 2, 2, 4, 6, 9]])
    assert median_deviation(loads) == [1]


def test_a_linear_load_is_extrapolated() -> None:
    assert next_load(np.arange(20.0)[None]) == pytest.approx([20.0])


@pytest.mark.parametrize("rule", list(Overload))
def test_with_a_short_history_the_present_share_decides(rule: Overload) -> None:
    over = overloaded(np.array([0.75, 0.65]), np.full((2, 3), 0.1), rule=rule, safety=0.7, fallback=0.7)
    assert over.tolist() == [True, False]


def test_a_rising_load_is_overload_before_it_reaches_the_capacity() -> None:
    history = np.array([np.linspace(0.4, 0.8, 10), np.full(10, 0.8)])
    over = overloaded(history[:, -1], history, rule=Overload.REGRESSION, safety=1.2, fallback=0.7)
    assert over.tolist() == [True, False]


def test_the_smallest_container_leaves_an_overloaded_host_for_where_power_rises_least() -> None:
    tasks = [_task("big", "a", 5, 4), _task("small", "a", 4, 1), _task("there", "b", 3, 4)]
    plan = rebalance(assemble([_node("a"), _node("b")], tasks), _FIXED)
    (move,) = [action for action in plan.actions if isinstance(action, Move)]
    assert (move.task, move.node, move.target) == ("small", "a", "b")
    assert "a is overloaded: 90% CPU (detection thr 0.8)" in move.reasons


def test_the_least_used_host_is_emptied_and_switched_off() -> None:
    tasks = [_task("one", "a", 1), _task("two", "b", 3), _task("three", "b", 2)]
    plan = rebalance(assemble([_node("a"), _node("b")], tasks), _FIXED)
    assert [(each.task, each.target) for each in plan.actions if isinstance(each, Move)] == [("one", "b")]
    assert [describe(each) for each in plan.actions if isinstance(each, PowerOn | PowerOff)] == [
        "switch a off"
    ]


def test_daemons_keep_no_host_on_and_a_manager_stays_on() -> None:
    tasks = [_task("one", "a", 1), _task("two", "b", 3), _task("three", "b", 2)]
    daemons = [replace(_task(f"d-{node}", node, 0.1), kind=TaskKind.DAEMON, movable=False) for node in "ab"]
    plan = rebalance(assemble([_node("a"), _node("b")], [*tasks, *daemons]), _FIXED)
    assert [describe(each) for each in plan.actions if isinstance(each, PowerOn | PowerOff)] == [
        "switch a off"
    ]
    nodes = [_node(name, labels={"wattpack.power": "never"}) for name in "abc"]
    assert rebalance(assemble(nodes, tasks), _FIXED).actions == ()


def test_a_host_that_cannot_be_emptied_whole_keeps_everything() -> None:
    tasks = [_task("one", "a", 1), _task("large", "a", 2.9), _task("two", "b", 5.5)]
    plan = rebalance(assemble([_node("a"), _node("b")], tasks), _FIXED)
    assert plan.actions == ()


def test_an_empty_host_is_switched_on_for_a_container_without_another_place() -> None:
    tasks = [_task("one", "a", 5, 2), _task("two", "a", 4, 1), _task("three", "b", 7)]
    nodes = [_node("a"), _node("b"), _node("c", on=False)]
    plan = rebalance(assemble(nodes, tasks), _FIXED)
    assert PowerOn(node="c", reasons=("takes containers of overloaded nodes",)) in plan.actions
    assert [(each.task, each.target) for each in plan.actions if isinstance(each, Move)] == [("two", "c")]


def test_a_plan_keeps_to_its_budget() -> None:
    tasks = [_task("one", "a", 1), _task("more", "a", 1), _task("two", "b", 3)]
    settings = msgspec.structs.replace(_FIXED, moves=1)
    assert rebalance(assemble([_node("a"), _node("b")], tasks), settings).actions == ()


def test_a_request_goes_where_power_rises_least() -> None:
    nodes = [_node("a"), _node("b")]
    snapshot = assemble(nodes, [_task("there", "a", 6)])
    ranking = place(snapshot, Request(reserve=amount(2, 1)), _FIXED)
    # Above the middle of its range, the curve is flatter; the reported usage of `a` does not count yet.
    assert ranking.rows.size == 2
    assert ranking.scores[0] >= ranking.scores[1]
    assert ranking.explain(int(ranking.rows[0]))[0].startswith("adds ")


def test_request_that_fits_on_no_node_is_refused() -> None:
    snapshot = assemble([_node("a")], [_task("there", "a", 9)])
    ranking = place(snapshot, Request(reserve=amount(2, 1)), _FIXED)
    assert ranking.best is None


def test_memory_limits_too() -> None:
    snapshot = assemble([_node("a")], [_task("there", "a", 1, 15)])
    assert place(snapshot, Request(reserve=amount(1, 2)), _FIXED).best is None
    assert snapshot.nodes.capacity[0, 1] > 15 * GIB
