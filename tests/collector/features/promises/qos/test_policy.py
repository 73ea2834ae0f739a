"""Plans and rankings on small clusters, of `qos-driven` and of `priority`, which has the same queue."""

from dataclasses import replace
from typing import Any

import pytest

from collector.common.liveness import Liveness
from collector.decide.policies.actions import Kill, Start
from collector.decide.policies.interface import Plan, Policy, Ranking, Rejection, Request
from collector.features.promises.ledger.promises import Promise
from collector.features.promises.qos.policy import QOS_DRIVEN
from collector.features.promises.settings import SLO_LABEL
from collector.snapshot.constraints import Constraint, Operator, PlacementRules
from collector.snapshot.tables import Snapshot, TaskKind
from tests.collector.decide.policies.clusters import amount
from tests.collector.snapshot.builders import NodeFacts, SloFacts, TaskFacts, assemble

GOLD = Promise(name="gold", availability=1.0, importance=1)
SILVER = Promise(name="silver", availability=0.9, importance=2)
BRONZE = Promise(name="bronze", availability=0.5, importance=3)


def node(name: str, cores: float = 4, **facts: Any) -> NodeFacts:
    return NodeFacts(**{"name": name, "capacity": amount(cores, cores), **facts})


def task(name: str, on: str | None, promise: Promise | None, slack: float = 0.0, **facts: Any) -> TaskFacts:
    slo = None if promise is None else SloFacts(promise=promise, slack_seconds=slack)
    size = facts.pop("size", 4)
    return TaskFacts(**{"id": name, "node": on, "slo": slo, "requested": amount(size, size), **facts})


def plan(policy: Policy, snapshot: Snapshot, **settings: Any) -> Plan:
    assert policy.rebalance is not None
    return policy.rebalance(snapshot, policy.settings(**settings))


def rank(policy: Policy, snapshot: Snapshot, request: Request) -> Ranking:
    assert policy.place is not None
    return policy.place(snapshot, request, policy.settings())


def brief(found: Plan) -> list[str]:
    return [
        f"{action.kind} {action.task} {action.node if isinstance(action, Kill) else action.target}"
        for action in found.actions
        if isinstance(action, Kill | Start)
    ]


def test_waiting_tasks_start_where_there_is_room_the_most_urgent_first() -> None:
    waiting = [task("later", None, SILVER, 50.0), task("soon", None, BRONZE, -5.0)]
    snapshot = assemble([node("a")], waiting)
    found = plan(QOS_DRIVEN, snapshot)
    assert brief(found) == ["start soon a"]
    assert found.left == ("no node has room for 1 waiting container",)
    assert found.actions[0].reasons == ("it is 5 s behind its promise (bronze, 0.5)", "a has room for it")


@pytest.mark.parametrize("policy", [QOS_DRIVEN], ids=lambda policy: policy.name)
def test_without_nodes_nothing_starts(policy: Policy) -> None:
    snapshot = assemble([], [task("waiting", None, GOLD)])
    assert not rank(policy, snapshot, Request(reserve=amount(1, 1), labels={SLO_LABEL: "gold"})).rows.size
    assert not plan(policy, snapshot).actions


@pytest.mark.parametrize("policy", [QOS_DRIVEN], ids=lambda policy: policy.name)
def test_a_node_without_cpu_is_not_ranked(policy: Policy) -> None:
    nodes = [node("a", capacity=amount(0, 4)), node("b")]
    snapshot = assemble(nodes, [task("there", "a", None), task("other", "b", BRONZE, 500.0)])
    found = rank(policy, snapshot, Request(labels={SLO_LABEL: "gold"}))
    assert [nodes[row].name for row in found.rows] == ["b"]
    assert all(found.explain(row) and not found.needs(row) for row in found.rows.tolist())


def test_a_victim_is_stopped_before_the_one_that_takes_its_place_starts() -> None:
    snapshot = assemble([node("a")], [task("rich", "a", SILVER, 500.0), task("poor", None, SILVER, -20.0)])
    found = plan(QOS_DRIVEN, snapshot)
    assert brief(found) == ["kill rich a", "start poor a"]
    stop, start = found.actions
    assert stop.reasons[0] == (
        "rule 1: it can wait 500 s before its promise breaks, longer than the margin;"
        " poor is 20 s behind its promise"
    )
    assert start.reasons[1] == "1 container on a is stopped for it"


@pytest.mark.parametrize(
    ("running", "waiting", "rule"),
    [
        ((SILVER, 30.0), (BRONZE, 20.0), "rule 1"),
        ((SILVER, 20.0), (BRONZE, 30.0), None),
        ((SILVER, 10.0), (SILVER, 5.0), "rule 1"),
        ((SILVER, 9.0), (BRONZE, -50.0), None),
        ((BRONZE, 9.0), (SILVER, 9.5), "rule 2"),
        ((BRONZE, -90.0), (SILVER, 9.5), "rule 2"),
        ((BRONZE, -90.0), (SILVER, 10.0), None),
        ((SILVER, -5.0), (SILVER, -6.0), "rule 3"),
        ((SILVER, -5.0), (SILVER, -5.0), None),
        ((GOLD, -5.0), (GOLD, -500.0), None),
        ((GOLD, -5.0), (BRONZE, -500.0), None),
        ((BRONZE, -5.0), (GOLD, -1.0), "rule 2"),
    ],
)
def test_the_rules_of_the_study(
    running: tuple[Promise, float], waiting: tuple[Promise, float], rule: str | None
) -> None:
    snapshot = assemble([node("a")], [task("runs", "a", *running), task("waits", None, *waiting)])
    found = plan(QOS_DRIVEN, snapshot, exact=True)
    assert brief(found) == ([] if rule is None else ["kill runs a", "start waits a"])
    if rule is not None:
        assert found.actions[0].reasons[0].startswith(rule)


def test_the_margin_can_be_set() -> None:
    snapshot = assemble([node("a")], [task("runs", "a", SILVER, 30.0), task("waits", None, BRONZE, -5.0)])
    assert brief(plan(QOS_DRIVEN, snapshot, margin_seconds=30.0))
    assert not brief(plan(QOS_DRIVEN, snapshot, margin_seconds=31.0))


@pytest.mark.parametrize(
    ("ratio", "waits", "stopped"), [(0.09, SILVER, True), (0.1, SILVER, False), (0.1, GOLD, True)]
)
def test_a_task_that_spent_its_share_on_starts_stops_only_for_more_important_ones(
    ratio: float, waits: Promise, *, stopped: bool
) -> None:
    runs = task("runs", "a", SILVER, 500.0)
    assert runs.slo is not None
    runs = replace(runs, slo=replace(runs.slo, preemption_ratio=ratio))
    snapshot = assemble([node("a")], [runs, task("waits", None, waits, -5.0)])
    assert bool(brief(plan(QOS_DRIVEN, snapshot))) == stopped
    assert brief(plan(QOS_DRIVEN, snapshot, limits_overhead=False))


@pytest.mark.parametrize("policy", [QOS_DRIVEN], ids=lambda policy: policy.name)
@pytest.mark.parametrize(
    ("node_facts", "task_facts"),
    [
        ({"report_age_seconds": 121.0}, {}),
        ({"liveness": Liveness.DOWN}, {}),
        ({"on": False}, {}),
        ({"accepts": False}, {}),
        ({"labels": {"wattpack.act": "never"}}, {}),
        ({"bottleneck": (True, False, False, False)}, {}),
        ({}, {"kind": TaskKind.DAEMON}),
        ({}, {"movable": False}),
        ({}, {"slo": None}),
    ],
)
def test_tasks_that_are_never_stopped(
    policy: Policy, node_facts: dict[str, Any], task_facts: dict[str, Any]
) -> None:
    tasks = [task("runs", "a", BRONZE, 500.0, **task_facts), task("waits", None, GOLD, -5.0)]
    assert not brief(plan(policy, assemble([node("a", **node_facts)], tasks)))
    tasks = [task("runs", "a", BRONZE, 500.0), task("waits", None, GOLD, -5.0)]
    assert brief(plan(policy, assemble([node("a")], tasks)))


def test_a_task_without_a_promise_does_not_start() -> None:
    snapshot = assemble([node("a")], [task("other", "a", GOLD, size=1), task("waits", None, None, size=1)])
    assert not brief(plan(QOS_DRIVEN, snapshot))


def test_the_rules_of_a_waiting_task_hold() -> None:
    nodes = [node("a", labels={"disk": "hdd"}), node("b", labels={"disk": "ssd"})]
    fast = PlacementRules(constraints=(Constraint("disk", Operator.IS, "ssd"),))
    waits = task("waits", None, SILVER, size=1, rules=fast)
    assert brief(plan(QOS_DRIVEN, assemble(nodes, [waits, task("x", "b", GOLD, size=2)]))) == [
        "start waits b"
    ]
    apart = [
        task(
            name, on, SILVER, size=1, service="web", rules=PlacementRules(spread=True) if on is None else None
        )
        for name, on in (("1", "a"), ("2", None), ("3", None))
    ]
    assert brief(plan(QOS_DRIVEN, assemble(nodes, apart))) == ["start 2 b"]


def test_the_host_whose_victims_are_best_off_is_chosen() -> None:
    tasks = [
        task("a1", "a", SILVER, 400.0),
        task("b1", "b", SILVER, 900.0),
        task("c1", "c", BRONZE, -5.0),
        task("waits", None, SILVER, -5.0),
    ]
    for exact in (True, False):
        found = plan(QOS_DRIVEN, assemble([node("a"), node("b"), node("c")], tasks), exact=exact)
        assert brief(found) == ["kill b1 b", "start waits b"]


def test_a_broken_promise_of_a_more_important_class_costs_more() -> None:
    tasks = [
        task("a1", "a", SILVER, 5.0),
        task("b1", "b", BRONZE, -500.0),
        task("waits", None, GOLD, -5.0),
    ]
    for exact in (True, False):
        found = plan(QOS_DRIVEN, assemble([node("a"), node("b")], tasks), exact=exact)
        assert brief(found) == ["kill b1 b", "start waits b"]


def test_a_task_that_runs_without_effect_is_stopped_first() -> None:
    spare = task("spare", "b", SILVER, 100.0)
    assert spare.slo is not None
    spare = replace(spare, slo=replace(spare.slo, is_spare=True))
    tasks = [task("a1", "a", SILVER, 900.0), spare, task("waits", None, SILVER, -5.0)]
    found = plan(QOS_DRIVEN, assemble([node("a"), node("b")], tasks))
    assert brief(found) == ["kill spare b", "start waits b"]


def test_a_new_request_goes_where_there_is_room_and_else_where_others_can_wait() -> None:
    tasks = [
        task("a1", "a", SILVER, size=1),
        task("b1", "b", BRONZE, 900.0),
        task("c1", "c", GOLD, -5.0),
        task("d1", "d", None),
    ]
    snapshot = assemble([node(name) for name in "abcd"], tasks)
    request = Request(reserve=amount(2, 2), service="web", labels={SLO_LABEL: "silver"})
    ranking = rank(QOS_DRIVEN, snapshot, request)
    assert ranking.rows.tolist() == [0, 1]
    assert ranking.refused.tolist()[2:] == [Rejection.CPU, Rejection.CPU]
    assert ranking.needs(0) == ()
    [stop] = ranking.needs(1)
    assert isinstance(stop, Kill)
    assert (stop.task, stop.target) == ("b1", None)
    assert "1 container must be stopped first" in ranking.explain(1)


@pytest.mark.parametrize("slo", [None, "unknown"])
def test_a_new_request_without_a_promise_stops_no_other(slo: str | None) -> None:
    snapshot = assemble([node("a"), node("b")], [task("b1", "b", BRONZE, 900.0)])
    request = Request(reserve=amount(2, 2), labels={} if slo is None else {SLO_LABEL: slo})
    assert rank(QOS_DRIVEN, snapshot, request).rows.tolist() == [0]


def test_without_promises_nothing_is_planned() -> None:
    assert plan(QOS_DRIVEN, assemble([node("a")], [task("waits", None, None)])) == Plan()
    assert plan(QOS_DRIVEN, assemble([node("a")])) == Plan()
