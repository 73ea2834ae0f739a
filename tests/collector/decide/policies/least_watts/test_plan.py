from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.decide.policies.actions import PowerOff, PowerOn, describe
from collector.decide.policies.interface import Plan
from collector.decide.policies.least_watts.cluster import LeastWattsCluster
from collector.decide.policies.least_watts.plan import rebalance
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.snapshot.tables import TaskKind
from tests.collector.decide.policies.clusters import Cluster, amount
from tests.collector.decide.policies.least_watts.builders import (
    DEFAULTS,
    make_node,
    make_task,
    moves_of,
    plan_moves,
)
from tests.collector.snapshot.builders import TaskFacts, assemble

_MANY_MOVES = LeastWattsSettings(moves_per_day=1000)
_NO_EMPTYING = LeastWattsSettings(moves_per_day=0)
_ALERT = (True, False, False, False)
_HALF_A_DAY, _TWO_DAYS = 43_200.0, 172_800.0
_BURSTS = [1.0, 9.0] * 15


def _spread_out() -> list[TaskFacts]:
    return [make_task("one", "a", 1), make_task("two", "b", 2), make_task("three", "b", 2)]


def _short(bursts: Sequence[float] = _BURSTS, now: float = 9.0) -> list[TaskFacts]:
    """Node a runs a container with bursts and steady ones; node b has room."""
    return [
        make_task("base", "a", 2.5, windows=[2.5] * 30),
        replace(
            make_task("bursts", "a", 5, deviation=float(np.std(bursts)), windows=bursts),
            used=amount(now, 0.1),
        ),
        make_task("steady", "a", 0.5, windows=[0.5] * 30),
        make_task("there", "b", 0.5, windows=[0.5] * 30),
    ]


def _switched(plan: Plan) -> list[str]:
    return [describe(each) for each in plan.actions if isinstance(each, PowerOn | PowerOff)]


# --- Relief -----------------------------------------------------------------------------------


def test_the_container_that_makes_a_node_short_leaves_it() -> None:
    plan = rebalance(assemble([make_node("a"), make_node("b")], _short()), DEFAULTS)
    assert moves_of(plan) == [("bursts", "b")]
    assert plan.actions[0].reasons[0].startswith("a is short and is expected to be short ")


def test_a_node_that_is_not_short_now_keeps_its_containers() -> None:
    tasks = _short(now=1.0)
    assert plan_moves(assemble([make_node("a"), make_node("b")], tasks), _NO_EMPTYING) == []


def test_a_node_that_is_seldom_short_is_left_unless_it_stays_short() -> None:
    tasks = _short(bursts=[1.0, 1.1] * 15)
    full, half = (1.0, 0.0, 0.0, 0.0), (0.5, 0.0, 0.0, 0.0)
    once = [make_node("a", history=[half, half, full]), make_node("b")]
    assert plan_moves(assemble(once, tasks), _NO_EMPTYING) == []
    again = [make_node("a", history=[half, full, full]), make_node("b")]
    assert len(plan_moves(assemble(again, tasks), _NO_EMPTYING)) == 1


def test_without_a_budget_of_moves_nodes_are_still_relieved() -> None:
    assert plan_moves(assemble([make_node("a"), make_node("b")], _short()), _NO_EMPTYING) == [("bursts", "b")]


def test_relief_goes_to_the_node_that_is_least_likely_to_be_short() -> None:
    tasks = [
        make_task("large", "a", 8, deviation=1.0, windows=[7.0, 9.0] * 15),
        make_task("small", "a", 2, deviation=0.5, windows=[1.5, 2.5] * 15),
        make_task("fuller", "b", 6, deviation=1.0, windows=[5.0, 7.0] * 15),
        make_task("emptier", "c", 4, deviation=1.0, windows=[3.0, 5.0] * 15),
    ]
    tasks[0] = replace(tasks[0], movable=False)
    snapshot = assemble([make_node("a"), make_node("b"), make_node("c")], tasks)
    assert plan_moves(snapshot, _NO_EMPTYING) == [("small", "c")]


def test_a_node_that_no_move_helps_is_named() -> None:
    tasks = [make_task(f"full-{node}", node, 9.95, deviation=1.0) for node in "ab"]
    plan = rebalance(assemble([make_node("a"), make_node("b")], tasks), DEFAULTS)
    assert plan.actions == ()
    assert [each.split()[0] for each in plan.left] == ["a", "b"]


def _crowded() -> list[TaskFacts]:
    """Node a is short; node b has room now, and is short as often as not."""
    return [
        make_task("one", "a", 5, deviation=2.0),
        make_task("two", "a", 5, deviation=2.0),
        replace(make_task("there", "b", 4, deviation=6.0), used=amount(1, 0.1)),
    ]


def test_a_node_is_switched_on_when_relief_would_exceed_the_budget_of_moves() -> None:
    nodes = [make_node("a"), make_node("b"), make_node("c", on=False)]
    plan = rebalance(assemble(nodes, _crowded()), DEFAULTS)
    assert _switched(plan) == ["switch c on"]
    assert [target for _, target in moves_of(plan)] == ["c"]


def test_within_the_budget_of_moves_relief_prefers_nodes_in_use() -> None:
    nodes = [make_node("a"), make_node("b"), make_node("c", on=False)]
    plan = rebalance(assemble(nodes, _crowded()), _MANY_MOVES)
    assert _switched(plan) == []
    assert [target for _, target in moves_of(plan)] == ["b"]


def test_nothing_is_emptied_while_relief_would_exceed_the_budget_of_moves() -> None:
    tasks = [
        make_task("one", "a", 8, deviation=8.0),
        make_task("two", "b", 0.1),
        make_task("three", "c", 0.1),
    ]
    nodes = [make_node(name) for name in "abc"]
    plan = rebalance(assemble(nodes, tasks), LeastWattsSettings(moves_per_day=1))
    assert moves_of(plan) == []
    assert plan.reasons[-1].startswith("no node is emptied: ")
    assert plan.reasons[-1].endswith(" a day, and the budget is 3 moves a day")
    plan = rebalance(assemble(nodes, tasks), _MANY_MOVES)
    assert moves_of(plan) != []
    assert not any("no node is emptied" in each for each in plan.reasons)


# --- Emptying ---------------------------------------------------------------------------------


def test_a_node_is_emptied_where_others_have_room_and_then_switched_off() -> None:
    plan = rebalance(assemble([make_node("a"), make_node("b")], _spread_out()), DEFAULTS)
    assert moves_of(plan) == [("one", "b")]
    assert _switched(plan) == ["switch a off"]
    assert plan.watts_before is not None
    assert plan.watts_after is not None
    assert plan.watts_after < plan.watts_before


def test_the_containers_of_an_emptied_node_go_where_they_leave_the_lowest_risk() -> None:
    tasks = [
        make_task("one", "a", 1),
        make_task("two", "b", 2, deviation=1.5),
        make_task("three", "b", 2),
        make_task("four", "c", 2),
        make_task("five", "c", 2),
    ]
    plan = rebalance(assemble([make_node("a"), make_node("b"), make_node("c")], tasks), DEFAULTS)
    assert moves_of(plan)[0] == ("one", "c")
    assert plan.actions[0].reasons[1].endswith("W there, the lowest risk of 2 nodes with room")


def test_no_container_goes_to_a_node_that_is_emptied_next() -> None:
    tasks = [
        make_task("one", "a", 1),
        *(make_task(f"two-{each}", "b", 0.5) for each in range(2)),
        *(make_task(f"three-{each}", "c", 1) for each in range(4)),
    ]
    plan = rebalance(assemble([make_node("a"), make_node("b"), make_node("c")], tasks), _MANY_MOVES)
    assert moves_of(plan) == [("one", "c"), ("two-0", "c"), ("two-1", "c")]
    assert _switched(plan) == ["switch a off", "switch b off"]


def test_daemons_keep_no_node_on() -> None:
    daemons = [
        replace(make_task(f"daemon-{node}", node, 0.1, service="agent"), kind=TaskKind.DAEMON, movable=False)
        for node in "ab"
    ]
    plan = rebalance(assemble([make_node("a"), make_node("b")], [*_spread_out(), *daemons]), DEFAULTS)
    assert moves_of(plan) == [("one", "b")]
    assert _switched(plan) == ["switch a off"]


def test_a_node_that_must_stay_on_is_neither_emptied_nor_switched_off() -> None:
    labels = {"wattpack.power": "never"}
    nodes = [make_node(name, labels=labels) for name in "abc"]
    assert rebalance(assemble(nodes, _spread_out()), _MANY_MOVES).actions == ()


def test_nothing_is_emptied_that_does_not_pay() -> None:
    snapshot = assemble([make_node("a"), make_node("b")], _spread_out())
    assert plan_moves(snapshot, LeastWattsSettings(payback_seconds=0)) == []


def test_a_node_is_emptied_only_if_all_its_containers_may_leave() -> None:
    fixed = replace(make_task("fixed", "a", 0.1), movable=False)
    fixed_b = replace(make_task("fixed-b", "b", 0.1), movable=False)
    snapshot = assemble([make_node("a"), make_node("b")], [*_spread_out(), fixed, fixed_b])
    assert plan_moves(snapshot, _MANY_MOVES) == []


def test_containers_that_vary_together_are_kept_apart() -> None:
    wave = [1.0, 9.0] * 15
    nodes = [make_node("a", cores=20), make_node("b", cores=15)]
    one = make_task("one", "a", 5, windows=wave)
    apart = [one, make_task("two", "b", 5, windows=wave[::-1])]
    assert len(plan_moves(assemble(nodes, apart), _MANY_MOVES)) == 1
    together = [one, make_task("two", "b", 5, windows=wave)]
    assert plan_moves(assemble(nodes, together), _MANY_MOVES) == []


def test_a_node_is_emptied_only_within_the_accepted_risk() -> None:
    tasks = [
        make_task("one", "a", 3, deviation=1.0),
        make_task("two", "b", 3, deviation=1.0),
    ]
    snapshot = assemble([make_node("a"), make_node("b")], tasks)
    assert len(plan_moves(snapshot, LeastWattsSettings(short_ratio=0.1))) == 1
    assert plan_moves(snapshot, LeastWattsSettings(short_ratio=0.001)) == []


def _random_cluster(seed: int) -> Cluster:
    """Tasks whose windows vary, each alone and all together."""
    generator = np.random.default_rng(seed)
    names = [f"node-{each}" for each in range(generator.integers(2, 7))]
    common = 1.0 + generator.uniform(0, 0.8) * np.sin(np.arange(30) / 4)
    tasks = []
    for number in range(generator.integers(2, 25)):
        size = generator.uniform(0.1, 2.0)
        windows = size * common * generator.lognormal(0.0, generator.uniform(0.05, 0.8), 30)
        tasks.append(
            make_task(
                f"task-{number:02}",
                str(generator.choice(names)),
                float(windows.mean()),
                deviation=float(windows.std()),
                windows=windows,
            )
        )
    nodes = [
        make_node(
            name,
            cores=float(generator.choice([8, 16])),
            used=amount(sum(each.used.cpu_cores or 0.0 for each in tasks if each.node == name), 1.0),
        )
        for name in names
    ]
    return Cluster(nodes, tasks)


@given(seed=st.integers(0, 10_000), ratio=st.sampled_from([0.001, 0.01, 0.1]))
@settings(max_examples=60)
def test_no_node_takes_more_than_the_accepted_risk_when_others_are_emptied(seed: int, ratio: float) -> None:
    """Moves that empty a node: a relief may choose the lesser of two evils."""
    cluster, limits = _random_cluster(seed), LeastWattsSettings(short_ratio=ratio, moves_per_day=1000)
    plan = rebalance(cluster.snapshot(), limits)
    moves = [each for each in plan.actions if not isinstance(each, PowerOn | PowerOff)]
    if not all(each.reasons[0].startswith("empty") for each in moves):
        return
    after = LeastWattsCluster(cluster.after(plan.actions).snapshot(), limits)
    targets = sorted({after.snapshot.nodes.index[target] for _, target in moves_of(plan)})
    assert (after.risk(np.array(targets, dtype=np.intp)) <= 2 * ratio + 1e-9).all()


@given(seed=st.integers(0, 10_000))
@settings(max_examples=60)
def test_the_watts_of_a_plan_never_rise_without_a_relief(seed: int) -> None:
    plan = rebalance(_random_cluster(seed).snapshot(), _MANY_MOVES)
    assert plan.watts_before is not None
    assert plan.watts_after is not None
    if all("is short" not in reason for each in plan.actions for reason in each.reasons):
        assert plan.watts_after <= plan.watts_before + 1e-9


def test_nothing_is_emptied_once_the_moves_of_the_day_are_spent() -> None:
    nodes, tasks = [make_node("a"), make_node("b")], _spread_out()
    assert plan_moves(assemble(nodes, tasks), LeastWattsSettings(moves_per_day=0.1)) == []
    assert plan_moves(assemble(nodes, tasks), LeastWattsSettings(moves_per_day=0.5)) == [("one", "b")]
    tasks[1] = replace(tasks[1], came_from="a", settled_seconds=_HALF_A_DAY)
    assert plan_moves(assemble(nodes, tasks), LeastWattsSettings(moves_per_day=0.5)) == []
    tasks[1] = replace(tasks[1], settled_seconds=_TWO_DAYS)
    assert plan_moves(assemble(nodes, tasks), LeastWattsSettings(moves_per_day=0.5)) == [("one", "b")]


def test_instances_of_a_service_are_not_brought_together() -> None:
    one, two, three = _spread_out()
    tasks = [replace(one, service="web"), replace(two, service="web"), three]
    assert plan_moves(assemble([make_node("a"), make_node("b")], tasks), _MANY_MOVES) == []


def test_a_node_with_an_open_alert_receives_nothing() -> None:
    nodes = [make_node("a"), make_node("b", bottleneck=_ALERT)]
    assert plan_moves(assemble(nodes, _spread_out()), _MANY_MOVES) == []
    there = make_task("there", "c", 3)
    moves = plan_moves(assemble([*nodes, make_node("c")], [*_spread_out(), there]), _MANY_MOVES)
    assert moves
    assert all(target != "b" for _, target in moves)


def test_relief_does_not_go_to_a_node_with_an_open_alert() -> None:
    nodes = [make_node("a"), make_node("b", bottleneck=_ALERT)]
    assert plan_moves(assemble(nodes, _short()), DEFAULTS) == []


def test_a_node_without_a_capacity_of_a_resource_is_not_short_of_it() -> None:
    nodes = [replace(make_node(name), capacity=amount(10, 16, disk=0.0, network=0.0)) for name in "ab"]
    assert plan_moves(assemble(nodes, _spread_out()), DEFAULTS) == [("one", "b")]


def test_the_last_node_is_never_emptied() -> None:
    tasks = [make_task(f"task-{name}", name, 0.1) for name in "abc"]
    plan = rebalance(assemble([make_node(name) for name in "abc"], tasks), _MANY_MOVES)
    assert len(_switched(plan)) == 2
    assert len({target for _, target in moves_of(plan)} - {each.split()[1] for each in _switched(plan)}) == 1
    assert rebalance(assemble([make_node("a")], tasks[:1]), _MANY_MOVES).actions == ()


def test_the_reasons_of_a_plan_state_the_margin_and_the_share_of_reservations() -> None:
    assumed = rebalance(assemble([make_node("a"), make_node("b")], _spread_out()), DEFAULTS).reasons
    assert assumed[0].startswith("CPU margin ")
    assert "assumed until" in assumed[0]
    assert assumed[1].startswith("an unobserved container counts with 25% of its CPU reservation: assumed")
    learned = rebalance(assemble([make_node("a"), make_node("b")], _short()), DEFAULTS).reasons
    assert "learned from" in learned[0]


# --- Spare nodes ------------------------------------------------------------------------------


@pytest.mark.parametrize(("spare_nodes", "off"), [(0, ["b", "c"]), (1, ["c"]), (2, [])])
def test_spare_nodes_stay_on(spare_nodes: int, off: list[str]) -> None:
    snapshot = assemble([make_node(name) for name in "abc"], [make_task("one", "a", 1)])
    plan = rebalance(snapshot, LeastWattsSettings(spare_nodes=spare_nodes))
    assert _switched(plan) == [f"switch {name} off" for name in off]


def test_spare_nodes_are_switched_on() -> None:
    nodes = [make_node("a"), make_node("b", on=False), make_node("c", on=False)]
    plan = rebalance(assemble(nodes, [make_task("one", "a", 1)]), LeastWattsSettings(spare_nodes=1))
    assert _switched(plan) == ["switch b on"]
