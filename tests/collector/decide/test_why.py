"""Why a plan leaves a node or container: what is named as the only obstacle is the only obstacle."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from collector.common.errors import QuestionError
from collector.common.labels import ACT_LABEL, ALLOWED, NEVER, POWER_LABEL
from collector.common.liveness import Liveness
from collector.decide.answers import WhyNot
from collector.decide.obstacles import Case
from collector.decide.policies.resolve import PolicyChoice, resolve
from collector.decide.policies.table import POLICIES
from collector.decide.why import explain, find_case
from collector.snapshot.tables import NOWHERE
from tests.collector.decide.policies.clusters import CURVE, Cluster, amount, random_cluster
from tests.collector.snapshot.builders import NodeFacts, TaskFacts

_LONG = 90_000.0


def cases(cluster: Cluster, chosen: PolicyChoice) -> list[Case]:
    snapshot = cluster.snapshot()
    nodes = [Case(snapshot, chosen, row) for row in range(len(snapshot.nodes.names))]
    home = snapshot.tasks.node.tolist()
    return [*nodes, *(Case(snapshot, chosen, node, row) for row, node in enumerate(home) if node != NOWHERE)]


def removed(cluster: Cluster, chosen: PolicyChoice, answer: WhyNot) -> tuple[Cluster, PolicyChoice]:
    """Return the cluster without the only obstacle of an answer, changed as an operator or time would."""
    (obstacle,) = answer.obstacles
    labels = dict(next(each.labels for each in cluster.nodes if each.name == answer.node))
    of_tasks: dict[str, dict[str, Any]] = {
        "stays": {"movable": True},
        "cool_down": {"settled_seconds": 600.0},
        "no_return": {"came_from": None},
    }
    of_node: dict[str, dict[str, Any]] = {
        "silent": {"report_age_seconds": 0.0, "liveness": Liveness.UP},
        "closed": {"accepts": True},
        "alert": {"bottleneck": (False,) * 4},
        "power": {"labels": labels | {POWER_LABEL: ALLOWED}},
        "label": {"labels": {name: each for name, each in labels.items() if name != ACT_LABEL}},
    }
    of_settings: dict[str, dict[str, Any]] = {
        "budget": {"moves": 1000, "moves_per_day": 1e6},
        "gain": {"payback_seconds": 366 * 86_400.0},
        "risk": {"short_ratio": 0.5},
        "reservations": {"overbooks": True},
    }
    kind, names = obstacle.kind, obstacle.containers
    assert kind in of_tasks | of_node | of_settings
    tasks = [
        replace(each, **of_tasks.get(kind, {})) if (each.name or each.id) in names else each
        for each in cluster.tasks
    ]
    nodes = [
        replace(each, **of_node.get(kind, {})) if each.name == answer.node else each for each in cluster.nodes
    ]
    known = msgspec.to_builtins(chosen.settings)
    more = {name: each for name, each in of_settings.get(kind, {}).items() if name in known}
    return replace(cluster, nodes=nodes, tasks=tasks), resolve(chosen.policy.name, known | more)


_HYPOTHETICAL = {"order", "room", "policy", "off", "last", "no_alert"}
"""Obstacles that no single change of the same cluster removes."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [each.name for each in POLICIES.values() if each.rebalance and not each.keeps_promises]
)
def test_the_only_obstacle_is_the_only_one_and_nothing_is_left_without_a_reason(name: str) -> None:
    for seed in range(5):
        cluster = random_cluster(seed, calm=False)
        chosen = resolve(name, {})
        for case in cases(cluster, chosen):
            plan, answer = explain(case)
            assert bool(answer.planned) != bool(answer.obstacles)
            assert all(each in plan.actions for each in answer.planned)
            if len(answer.obstacles) == 1 and answer.obstacles[0].kind not in _HYPOTHETICAL:
                without, settings = removed(cluster, chosen, answer)
                assert explain(replace(case, snapshot=without.snapshot(), chosen=settings))[1].planned, answer


def _pair(node: dict[str, Any], task: dict[str, Any]) -> Cluster:
    """Return two nodes, of which the first can be emptied; with some facts of it and its container."""
    half, one = amount(0.5, 1), amount(1, 1)
    nodes: list[dict[str, Any]] = [{"name": "a", "used": half} | node, {"name": "b", "used": one}]
    tasks: list[dict[str, Any]] = [
        {"id": "1", "name": "web", "node": "a", "used": half, "mean": half, "envelope": half} | task,
        {"id": "2", "name": "db", "node": "b", "used": one, "mean": one, "envelope": one},
    ]
    known: dict[str, Any] = {
        "requested": one,
        "observed_seconds": _LONG,
        "settled_seconds": _LONG,
        "age_seconds": _LONG,
    }
    return Cluster(
        [NodeFacts(**{"capacity": amount(4, 8), "curve": CURVE} | each) for each in nodes],
        [TaskFacts(**known | each) for each in tasks],
    )


_LARGE = {"used": amount(3.5, 1), "mean": amount(3.5, 1), "envelope": amount(3.5, 1)}


@pytest.mark.parametrize("name", ["a", "web"])
@pytest.mark.parametrize(
    ("kind", "node", "task", "settings"),
    [
        ("stays", {}, {"movable": False}, {}),
        ("cool_down", {}, {"settled_seconds": 500.0}, {}),
        ("no_return", {}, {"came_from": "b", "settled_seconds": 700.0}, {}),
        ("silent", {"report_age_seconds": 500.0}, {}, {}),
        ("closed", {"accepts": False}, {}, {}),
        ("alert", {"bottleneck": (True, False, False, False)}, {}, {}),
        ("power", {"labels": {POWER_LABEL: NEVER}}, {}, {}),
        ("power", {"used": amount(0.95, 1)}, {}, {}),
        ("label", {"labels": {ACT_LABEL: NEVER}}, {}, {}),
        ("budget", {}, {}, {"moves": 0}),
        ("gain", {}, {}, {"caution": 1000.0, "payback_seconds": 2.0}),
        ("reservations", {}, {"requested": amount(3.5, 1)}, {}),
        ("room", {"used": amount(3.5, 1)}, _LARGE, {}),
    ],
)
def test_each_obstacle_is_named_with_what_would_change_it(
    kind: str, node: dict[str, Any], task: dict[str, Any], settings: dict[str, Any], name: str
) -> None:
    assert ask(_pair({}, {}), name, {}).planned
    answer = ask(_pair(node, task), name, settings)
    assert [each.kind for each in answer.obstacles] == [kind]
    (obstacle,) = answer.obstacles
    assert obstacle.change
    assert obstacle.containers == (("web",) if kind in {"stays", "cool_down", "no_return"} else ())


def ask(cluster: Cluster, name: str, settings: dict[str, Any]) -> WhyNot:
    chosen = resolve("least-watts", {"moves_per_day": 10.0} | settings)
    return explain(find_case(cluster.snapshot(), chosen, name))[1]


def test_the_missing_watts_are_stated() -> None:
    answer = ask(_pair({}, {}), "a", {"caution": 1000.0, "payback_seconds": 2.0})
    assert answer.obstacles[0].why == "emptying it gains 28.5 W for 73 J; it must gain more than 36507 W"


def test_what_is_planned_is_said_to_be() -> None:
    assert [each.kind for each in ask(_pair({}, {}), "web", {}).planned] == ["move"]
    assert [each.kind for each in ask(_pair({}, {}), "a", {}).planned] == ["move", "power-off"]


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(QuestionError, match="there is no node or container 'wep': did you mean 'web'"):
        ask(_pair({}, {}), "wep", {})
