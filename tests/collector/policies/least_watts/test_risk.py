from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.policies.actions import Move
from collector.policies.least_watts.cost import LeastWattsSettings
from collector.policies.least_watts.plan import rebalance
from collector.policies.least_watts.risk import bounds, overload_risk, overloaded_ratio
from collector.snapshot.tables import Snapshot
from tests.collector.policies.clusters import CURVE, amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble

_ANY = LeastWattsSettings()
_LIMIT = np.array([10.0])
_AMOUNTS = st.floats(0, 20)
_CALM, _OVER = 0.5, 1.2


def _node(name: str, *history: float) -> NodeFacts:
    past = [(each, 0.0, 0.0, 0.0) for each in history]
    return NodeFacts(name=name, capacity=amount(10, 16), curve=CURVE, history=past)


def _task(name: str, node: str, cores: float, history: Sequence[float] = ()) -> TaskFacts:
    used = amount(cores, 0.1)
    return TaskFacts(
        id=name,
        node=node,
        used=used,
        mean=used,
        envelope=used,
        variance=(0.01, 0.0, 0.0, 0.0),
        observed_seconds=86_400.0,
        windows=[(each, 0.0, 0.0, 0.0) for each in history],
    )


def _risk(expected: float, variance: float, windows: Sequence[float], **how: bool) -> float:
    return float(
        overload_risk(np.array([expected]), np.array([variance]), _LIMIT, np.array([windows]), **how)[0]
    )


def _moves(snapshot: Snapshot, settings: LeastWattsSettings = _ANY) -> list[tuple[str, str]]:
    actions = rebalance(snapshot, settings).actions
    return [(each.task, each.target) for each in actions if isinstance(each, Move)]


def _moved(count: int, of: int, seconds_ago: float = 60.0) -> list[TaskFacts]:
    tasks = [_task(f"task-{each:03}", "a", 0.01) for each in range(of)]
    return [replace(each, came_from="b", settled_seconds=seconds_ago) for each in tasks[:count]] + tasks[
        count:
    ]


@given(expected=_AMOUNTS, variance=st.floats(0, 25), windows=st.lists(_AMOUNTS, max_size=30))
def test_a_risk_is_a_part_of_the_time(expected: float, variance: float, windows: list[float]) -> None:
    assert 0 <= _risk(expected, variance, windows) <= 1


@given(
    expected=_AMOUNTS, more=_AMOUNTS, variance=st.floats(0.01, 25), windows=st.lists(_AMOUNTS, max_size=30)
)
def test_more_load_is_never_less_risk(
    expected: float, more: float, variance: float, windows: list[float]
) -> None:
    with_more = [each + more for each in windows]
    assert _risk(expected + more, variance, with_more) >= _risk(expected, variance, windows)


def test_without_windows_it_is_the_tail_of_a_bell_curve() -> None:
    assert _risk(10.0, 1.0, []) == pytest.approx(0.5)
    assert _risk(8.04, 1.0, []) == pytest.approx(0.025, abs=0.001)


def test_what_was_seen_outweighs_what_is_reckoned_the_longer_it_was() -> None:
    assert _risk(5.0, 1.0, [11.0] * 15) == pytest.approx(0.5, abs=0.001)
    assert _risk(5.0, 1.0, [11.0] * 30) == pytest.approx(2 / 3, abs=0.001)


def test_the_present_overload_does_not_tell_of_the_next() -> None:
    assert _risk(5.0, 1.0, [5.0] * 29 + [11.0], without_newest=True) == pytest.approx(0.0, abs=0.001)


def test_only_nodes_in_use_count_for_how_much_is_overloaded() -> None:
    nodes = [_node("a", _CALM, _OVER), _node("b", _CALM, _CALM), _node("c", 0.0, 0.0)]
    assert overloaded_ratio(assemble(nodes), 1.0) == pytest.approx(1 / 4)


def test_a_cluster_of_which_nothing_is_known_was_not_overloaded() -> None:
    assert overloaded_ratio(assemble([_node("a")]), 1.0) == 0.0


def test_the_more_was_moved_the_worse_it_must_be() -> None:
    few, many = (
        bounds(assemble([_node("a"), _node("b")], _moved(count, 100)), _ANY).relieved_above
        for count in (3, 30)
    )
    assert few < many


def test_moves_of_long_ago_are_forgotten() -> None:
    long_ago = assemble([_node("a"), _node("b")], _moved(30, 100, seconds_ago=80_000.0))
    never = assemble([_node("a"), _node("b")], _moved(0, 100))
    assert bounds(long_ago, _ANY) == bounds(never, _ANY)


def test_the_more_was_overloaded_the_sooner_it_is_relieved_and_the_less_is_packed() -> None:
    calm, busy, strained = (
        bounds(assemble([_node("a", *[_OVER] * over, *[_CALM] * (30 - over))]), _ANY) for over in (1, 2, 10)
    )
    assert calm.relieved_above > busy.relieved_above > strained.relieved_above
    assert (calm.may_empty, busy.may_empty, strained.may_empty) == (True, False, False)
    assert calm.in_need == busy.in_need == 1.0
    assert strained.in_need < 1.0


def test_no_node_is_emptied_while_too_much_is_overloaded() -> None:
    tasks = [_task("one", "a", 1), _task("two", "b", 2), _task("three", "b", 2)]
    settings = LeastWattsSettings(moves_per_day=1)
    assert _moves(assemble([_node("a", _CALM), _node("b", _CALM)], tasks), settings) == [("one", "b")]
    assert _moves(assemble([_node("a", _CALM), _node("b", _OVER)], tasks), settings) == []


def test_relief_goes_where_overload_is_least_likely() -> None:
    tasks = [
        _task("large", "a", 8.5),
        _task("small", "a", 1.5),
        _task("fuller", "b", 6),
        _task("emptier", "c", 4),
    ]
    assert _moves(assemble([_node("a"), _node("b"), _node("c")], tasks)) == [("small", "c")]


def test_whoever_overloaded_the_node_before_leaves_it() -> None:
    tasks = [
        _task("bursts", "a", 3, history=[1.0, 9.0] * 14 + [1.0, 3.0]),
        _task("steady", "a", 2.5, history=[2.5] * 30),
        _task("base", "a", 5, history=[5.0] * 30),
        _task("there", "b", 0.5, history=[0.5] * 30),
    ]
    assert [task for task, _ in _moves(assemble([_node("a"), _node("b")], tasks))] == ["bursts"]
