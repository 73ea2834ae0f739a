"""Rules for every policy, also of replay, on random clusters; a new one is covered without a change here."""

import gc
import re
import weakref
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.decide.policies.actions import Cut, Kill, Move, PowerOff, PowerOn, Start
from collector.decide.policies.admission.record import ShortageRecord
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.policies.interface import Plan, Policy, Rejection, Stability
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.policies.table import POLICIES as LIVE_POLICIES
from collector.decide.ranking import rank
from collector.snapshot.tables import OVERBOOKING_LIMITS, Snapshot
from tests.collector.decide.policies.clusters import random_cluster, random_request
from tests.collector.decide.policies.every import POLICIES

SEEDS = st.integers(0, 999)
"""Few enough that the policies share the clusters: making one takes longer than deciding on it."""
PLACING = [policy for policy in POLICIES.values() if policy.place is not None]
MOVING = [policy for policy in POLICIES.values() if policy.rebalance is not None]
placing = pytest.mark.parametrize("policy", PLACING, ids=lambda policy: policy.name)
moving = pytest.mark.parametrize("policy", MOVING, ids=lambda policy: policy.name)
fifty = settings(max_examples=50)
_ROUNDING = 1e-6
_WORTH = re.compile(r"^gains ([\d.]+) .* for .*; it must gain more than ([\d.]+) ")


def plan_of(policy: Policy, snapshot: Snapshot) -> Plan:
    assert policy.rebalance is not None
    return policy.rebalance(snapshot, policy.settings())


@placing
@given(seed=SEEDS)
@fifty
def test_every_node_is_ranked_or_refused_with_a_reason(policy: Policy, seed: int) -> None:
    assert policy.place is not None
    snapshot = random_cluster(seed, calm=False).snapshot()
    ranking = policy.place(snapshot, random_request(seed), policy.settings())
    assert sorted(ranking.rows) == np.flatnonzero(ranking.refused == Rejection.NOT).tolist()
    assert (np.diff(ranking.scores) <= 0).all()
    assert ranking.scores.size == ranking.rows.size
    assert ranking.score_is
    assert all(ranking.explain(row) and all(ranking.explain(row)) for row in ranking.rows)
    assert all(Rejection(code).text for code in ranking.refused if code != Rejection.NOT)


@placing
def test_a_snapshot_is_freed_as_soon_as_it_is_replaced(policy: Policy) -> None:
    assert policy.place is not None
    snapshot = replace(random_cluster(1, calm=False).snapshot())  # the tests share that one
    rule = AdmissionRule(0.05, ShortageRecord())
    rank(snapshot, random_request(1), PolicyChoice(policy, policy.settings()), admission=rule)
    replaced = weakref.ref(snapshot)
    gc.disable()
    try:
        del snapshot
        assert replaced() is None
    finally:
        gc.enable()


@placing
@given(seed=SEEDS)
@fifty
def test_closed_silent_and_excluded_nodes_are_never_ranked(policy: Policy, seed: int) -> None:
    assert policy.place is not None
    snapshot = random_cluster(seed, calm=False).snapshot()
    request = random_request(seed)
    ranking = policy.place(snapshot, request, policy.settings())
    nodes = snapshot.nodes
    for row in ranking.rows:
        assert nodes.accepts[row]
        assert nodes.names[row] not in request.exclude
        woken = [action for action in ranking.needs(row) if isinstance(action, PowerOn)]
        assert nodes.report_age_seconds[row] <= Stability().stale_seconds or woken
        assert nodes.on[row] or [action.node for action in woken] == [nodes.names[row]]
        for service in request.avoid:
            assert snapshot.instances(snapshot.services.index[service])[row] == 0


@placing
@given(seed=SEEDS, other=SEEDS)
@fifty
def test_the_order_of_the_input_does_not_matter_to_a_placement(policy: Policy, seed: int, other: int) -> None:
    assert policy.place is not None
    cluster, request = (
        random_cluster(seed, classes=4, calm=False, queue=True),
        random_request(seed, task_class=2),
    )
    one, two = cluster.snapshot(), cluster.shuffled(other).snapshot()
    before = policy.place(one, request, policy.settings())
    after = policy.place(two, request, policy.settings())
    assert before.rows.tolist() == after.rows.tolist()
    assert before.scores.tolist() == after.scores.tolist()
    assert before.refused.tolist() == after.refused.tolist()
    assert [before.explain(row) for row in before.rows] == [after.explain(row) for row in after.rows]
    assert [before.needs(row) for row in before.rows] == [after.needs(row) for row in after.rows]


@placing
@given(seed=SEEDS, task_class=st.integers(1, 4))
@fifty
def test_no_placement_takes_more_than_the_strictest_class_allows(
    policy: Policy, seed: int, task_class: int
) -> None:
    """Reservations on a node never exceed its capacity times the tolerance of its strictest container."""
    assert policy.place is not None
    cluster, request = (
        random_cluster(seed, classes=4, queue=True),
        random_request(seed, task_class=task_class),
    )
    ranking = policy.place(cluster.snapshot(), request, policy.settings())
    for row in ranking.rows[:1]:
        gets = ranking.gets(int(row)) or request.reserve
        assert gets.cpu_cores is not None
        assert gets.memory_bytes is not None
        after = cluster.after(ranking.needs(int(row))).snapshot()
        strictest = min([task_class, *after.tasks.task_class[after.tasks_on(int(row))]])
        promised = after.nodes.allocated[row, :2] + [gets.cpu_cores, gets.memory_bytes]
        assert (
            promised <= after.nodes.capacity[row, :2] * OVERBOOKING_LIMITS[strictest] * (1 + _ROUNDING)
        ).all()


@moving
@given(seed=SEEDS, other=SEEDS)
@fifty
def test_the_order_of_the_input_does_not_matter_to_a_plan(policy: Policy, seed: int, other: int) -> None:
    cluster = random_cluster(seed, classes=4, calm=False, queue=True)
    assert plan_of(policy, cluster.snapshot()) == plan_of(policy, cluster.shuffled(other).snapshot())


@moving
@given(seed=SEEDS)
@fifty
def test_plan_loses_no_container_and_has_reasons(policy: Policy, seed: int) -> None:
    cluster = random_cluster(seed, classes=4, calm=False, queue=True)
    snapshot = cluster.snapshot()
    plan = plan_of(policy, snapshot)
    touched = Counter(action.task for action in plan.actions if isinstance(action, Move | Kill | Start))
    assert all(times == 1 for times in touched.values())
    on = dict(zip(snapshot.nodes.names, snapshot.nodes.on.tolist(), strict=True))
    for action in plan.actions:
        assert action.reasons
        match action:
            case PowerOn() | PowerOff():
                assert on[action.node] != isinstance(action, PowerOn)
                on[action.node] = isinstance(action, PowerOn)
            case Move() | Kill():
                row = snapshot.tasks.index[action.task]
                assert snapshot.nodes.names[snapshot.tasks.node[row]] == action.node
                assert action.target is None or on[action.target]
            case Start():
                assert on[action.target]
            case Cut():
                assert action.task in snapshot.tasks.index
    after = cluster.after(plan.actions).snapshot()
    assert after.tasks.ids == snapshot.tasks.ids
    assert not after.nodes.tasks[~after.nodes.on].any()


@moving
@given(seed=SEEDS)
@fifty
def test_a_plan_fills_no_node_beyond_what_its_class_allows(policy: Policy, seed: int) -> None:
    cluster = random_cluster(seed, classes=4, queue=True)
    before = cluster.snapshot()
    after = cluster.after(plan_of(policy, before).actions).snapshot()
    classes = np.where(after.nodes.strictest_class == 0, 1, after.nodes.strictest_class)
    limits = np.array([OVERBOOKING_LIMITS[int(each)] for each in classes])
    allowed = np.maximum(before.nodes.allocated, after.nodes.capacity * limits[:, np.newaxis])
    assert (after.nodes.allocated <= allowed * (1 + _ROUNDING)).all()


@pytest.mark.slow
@moving
def test_a_plan_keeps_the_rules_of_stability(policy: Policy) -> None:
    """Over the same clusters each time: few of them tempt a policy to break a rule."""
    rules = policy.settings()
    if not isinstance(rules, Stability):
        return
    for seed in range(500):
        snapshot = random_cluster(seed, calm=False).snapshot()
        nodes, tasks = snapshot.nodes, snapshot.tasks
        moves = [action for action in plan_of(policy, snapshot).actions if isinstance(action, Move)]
        assert len(moves) <= rules.moves, seed
        for move in moves:
            task = tasks.index[move.task]
            source, target = nodes.index[move.node], nodes.index[move.target]
            settled = tasks.settled_seconds[task]
            assert tasks.movable[task], seed
            assert settled >= rules.cool_down_seconds, seed
            assert nodes.report_age_seconds[source] <= rules.stale_seconds, seed
            assert nodes.accepts[target], seed
            assert nodes.report_age_seconds[target] <= rules.stale_seconds or not nodes.on[target], seed
            assert target != tasks.came_from[task] or settled >= rules.no_return_seconds, seed


@pytest.mark.slow
@moving
def test_a_moved_container_is_not_sent_back(policy: Policy) -> None:
    """Plan after plan, as soon as the cool-down lets one: no container returns while it must not."""
    rules = policy.settings()
    if not isinstance(rules, Stability):
        return
    for seed in range(200):
        cluster = random_cluster(seed, calm=False)
        for _ in range(3):
            plan = plan_of(policy, cluster.snapshot())
            left = {each.id: each.came_from for each in cluster.tasks}
            recent = {each.id for each in cluster.tasks if each.settled_seconds < rules.no_return_seconds}
            for action in plan.actions:
                if isinstance(action, Move) and action.task in recent:
                    assert action.target != left[action.task], seed
            cluster = cluster.after(plan.actions, settled_seconds=rules.cool_down_seconds)


@moving
def test_a_plan_has_no_more_moves_than_it_may(policy: Policy) -> None:
    assert policy.rebalance is not None
    if not issubclass(policy.settings, Stability):
        return
    for seed in range(100):
        plan = policy.rebalance(random_cluster(seed, calm=False).snapshot(), policy.settings(moves=1))
        assert sum(isinstance(action, Move) for action in plan.actions) <= 1


def test_each_policy_has_a_name_of_its_own_and_a_summary() -> None:
    assert all(POLICIES[policy.name] is policy and policy.summary for policy in [*PLACING, *MOVING])


@pytest.mark.parametrize(
    "policy", [each for each in LIVE_POLICIES.values() if each.rebalance], ids=lambda policy: policy.name
)
@given(seed=SEEDS)
@fifty
def test_every_move_and_every_switch_states_a_gain_that_is_worth_its_cost(policy: Policy, seed: int) -> None:
    snapshot = random_cluster(seed, calm=False).snapshot()
    for action in plan_of(policy, snapshot).actions:
        if not isinstance(action, Move | PowerOff):
            continue
        found = [each for reason in action.reasons for each in _WORTH.findall(reason)]
        has_curve = not np.isnan(snapshot.nodes.power.idle_watts[snapshot.nodes.index[action.node]])
        assert len(found) == 1 or (not found and not has_curve)
        assert all(float(gain) >= float(needed) for gain, needed in found)
