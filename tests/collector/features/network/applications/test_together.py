from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.decide.policies.actions import Move
from collector.decide.policies.interface import Plan
from collector.features.network.applications.table import applications_in
from collector.features.network.mesh.delays import Delays
from collector.snapshot.tables import Snapshot
from replay.contenders.table import POLICIES
from tests.collector.decide.policies.clusters import CURVE, amount, random_cluster
from tests.collector.decide.policies.test_no_harm import guarded_cluster, offences
from tests.collector.features.network.applications.clusters import (
    delays_in,
    delays_of,
    in_applications,
    random_applications,
)
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble

net = pytest.mark.parametrize("name", ["net-aware", "net-optimal"])
REGIONS = ("us", "us", "eu-north", "eu-north")


def scattered(*tasks: TaskFacts, regions: tuple[str, ...] = REGIONS, bound: float = 0.085) -> Snapshot:
    nodes = [NodeFacts(name=f"n{row}", capacity=amount(4.0, 8.0), curve=CURVE) for row in range(len(regions))]
    services = sorted({each.service for each in tasks if each.service})
    return in_applications(assemble(nodes, tasks), {"shop": services}, regions, bound=bound)


def task(id_: str, node: str, service: str = "web", cores: float = 1.0, **more: object) -> TaskFacts:
    need = amount(cores, 1.0)
    facts = TaskFacts(id=id_, node=node, service=service, requested=need, used=need, mean=need, envelope=need)
    return replace(facts, **more)  # type: ignore[arg-type]


def plan_of(name: str, snapshot: Snapshot, **settings_: object) -> Plan:
    policy = POLICIES[name]
    assert policy.rebalance is not None
    return policy.rebalance(snapshot, policy.settings(**settings_))


@net
def test_an_application_that_is_apart_is_brought_together_with_the_fewest_moves(name: str) -> None:
    snapshot = scattered(task("1", "n0"), task("2", "n1"), task("3", "n2", "db"))
    plan = plan_of(name, snapshot)
    (move,) = plan.actions
    assert isinstance(move, Move)
    assert (move.task, move.node) == ("3", "n2")
    assert move.target in {"n0", "n1"}
    assert move.cost_joules > 0
    assert move.reasons[:2] == (
        "the round-trip time between n2 and n0 is 135 ms; the bound of application shop is 85 ms",
        "brings application shop together with 1 move: its longest round-trip time falls from 135 ms to 1 ms",
    )
    assert move.reasons[2].startswith("gains 2.98 s/s of container time for 8.59 s; it must gain more than")
    assert plan.watts_before is not None


@net
def test_those_that_may_not_move_decide_where_the_others_go(name: str) -> None:
    snapshot = scattered(task("1", "n0"), task("2", "n1"), task("3", "n2", "db", movable=False))
    moved = {each.task: each.target for each in plan_of(name, snapshot).actions if isinstance(each, Move)}
    assert moved.keys() == {"1", "2"}
    assert {*moved.values()} <= {"n2", "n3"}


@net
def test_an_application_that_is_within_its_bound_stays(name: str) -> None:
    snapshot = scattered(task("1", "n0"), task("2", "n1"))
    assert plan_of(name, snapshot) == replace(plan_of(name, snapshot), actions=(), left=(), reasons=())
    wide = scattered(task("1", "n0"), task("2", "n2"), bound=0.2)
    assert plan_of(name, wide).actions == ()


@net
def test_nothing_moves_if_not_all_members_can_be_near(name: str) -> None:
    full = [task(f"other-{row}", f"n{row}", "other", 3.0) for row in range(2)]
    snapshot = scattered(task("1", "n0"), task("2", "n2", cores=2.0), *full, task("3", "n3", movable=False))
    snapshot = snapshot.with_part(delays_of(("us", "us", "eu-north", "nowhere")))
    plan = plan_of(name, snapshot)
    assert plan.actions == ()
    assert any("no nodes within the bound have room" in each for each in plan.left)


@net
def test_an_application_needs_all_its_moves(name: str) -> None:
    snapshot = scattered(task("1", "n0"), task("2", "n0"), task("3", "n2"), task("4", "n2"))
    assert plan_of(name, snapshot, moves=1).actions == ()
    (left,) = plan_of(name, snapshot, moves=1).left
    assert left.startswith(
        "the round-trip time between n0 and n2 is 135 ms; the bound of application shop is"
    )
    assert left.endswith("it needs 2 moves, and the plan may have 1 more move")
    assert len(plan_of(name, snapshot, moves=2).actions) == 2


@net
def test_without_round_trip_times_nothing_moves(name: str) -> None:
    snapshot = scattered(task("1", "n0"), task("2", "n2")).without_part(Delays)
    plan = plan_of(name, snapshot)
    assert (plan.actions, plan.left) == ((), ("round-trip times are not measured: set mesh.enabled",))


@net
@given(seed=st.integers(0, 999))
@settings(max_examples=60)
def test_every_application_that_moves_ends_within_its_bound(name: str, seed: int) -> None:
    cluster = random_cluster(seed)
    snapshot = random_applications(cluster, seed)
    applications, delays, tasks = applications_in(snapshot), delays_in(snapshot), snapshot.tasks
    moves = [each for each in plan_of(name, snapshot).actions if isinstance(each, Move)]
    home = tasks.node.copy()
    for move in moves:
        home[tasks.index[move.task]] = snapshot.nodes.index[move.target]
    after = cluster.after(moves).snapshot().nodes
    assert (after.allocated[:, :2] <= after.capacity[:, :2] * (1 + 1e-6)).all()
    for move in moves:
        service = int(tasks.service[tasks.index[move.task]])
        bound = applications.delay_max[applications.application_of(service)]
        for one in applications.services_of(applications.application_of(service)).tolist():
            here = np.unique(home[tasks.service == one])
            there = np.unique(home[np.isin(tasks.service, applications.peers_of(one))])
            for row in here.tolist():
                assert (delays.from_node(row)[there] <= bound + 1e-9).all()


@pytest.mark.slow
@net
def test_bringing_applications_together_does_no_harm(name: str) -> None:
    found, moves = {}, 0
    for seed in range(200):
        cluster, snapshot = guarded_cluster(seed)
        drawn = random_applications(cluster, seed)
        snapshot = replace(snapshot, parts={**snapshot.parts, **drawn.parts})
        actions = plan_of(name, snapshot).actions
        moves += len(actions)
        if broken := list(offences(cluster, snapshot, actions)):
            found[seed] = broken
    assert not found
    assert moves > 10
