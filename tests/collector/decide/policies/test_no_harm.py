"""A thousand random clusters through every policy: no action against a label, constraint, class, daemon,
promise or the rule that one node stays on. The rules are written out here, not taken from the code.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from collector.common.labels import ACT_LABEL, ALLOWED, NEVER, POWER_LABEL
from collector.common.liveness import Liveness
from collector.decide.policies.actions import (
    Action,
    Cut,
    Kill,
    Move,
    PowerOff,
    PowerOn,
    Start,
    affected_nodes,
    describe,
)
from collector.decide.policies.interface import Policy, Stability
from collector.snapshot.constraints import Constraint, Operator
from collector.snapshot.pending import PendingTask, with_pending
from collector.snapshot.tables import Snapshot, TaskKind
from tests.collector.decide.policies.clusters import Cluster, amount, random_cluster, random_request
from tests.collector.decide.policies.every import POLICIES
from tests.collector.snapshot.builders import NodeFacts, TaskFacts
from wire.resources import Quantities

DISK, SSD = "disk", "ssd"
CLUSTERS = 30 if os.environ.get("WATTPACK_TESTS") == "fast" else 1000
LIMITS = {1: 1.0, 2: 1.2, 3: 1.5, 4: 2.0}
_ROUNDING = 1e-6
placing = pytest.mark.parametrize(
    "policy", [each for each in POLICIES.values() if each.place], ids=lambda policy: policy.name
)
moving = pytest.mark.parametrize(
    "policy", [each for each in POLICIES.values() if each.rebalance], ids=lambda policy: policy.name
)


@cache
def guarded_cluster(seed: int) -> tuple[Cluster, Snapshot]:
    """A cluster with labels, daemons, work outside containers, cuts, and placements that have not started.

    Every third service wants an SSD.
    """
    draw = np.random.default_rng([seed, 1])
    cluster = random_cluster(seed, classes=4, calm=bool(draw.random() < 0.3), queue=True)
    tasks = [_guarded_task(each, draw) for each in cluster.tasks]
    explained: dict[str | None, float] = {}
    for task in tasks:
        explained[task.node] = explained.get(task.node, 0.0) + (task.used.cpu_cores or 0.0)
    nodes = [_guarded_node(each, explained.get(each.name, 0.0), draw) for each in cluster.nodes]
    nodes = [replace(each, domain=None) for each in nodes]
    cluster = Cluster(nodes, tasks, cluster.services, cluster.turn)
    snapshot = cluster.snapshot()
    wants_ssd = (Constraint(DISK, Operator.IS, SSD),)
    snapshot = replace(
        snapshot,
        constraints={row: wants_ssd for name, row in snapshot.services.index.items() if _is_picky(name)},
    )
    some = (0.1, 1e8, 0.0, 0.0)
    pending = [
        PendingTask(
            node=each.name,
            service=None,
            allocated=some,
            envelope=some,
            mean=some,
            variance=(0.0,) * 4,
            task_class=1,
        )
        for each in nodes
        if each.on and draw.random() < 0.1
    ]
    return cluster, with_pending(snapshot, pending, cluster.turn)


def _is_picky(service: str | None) -> bool:
    return service is not None and sum(service.encode()) % 3 == 0


def _guarded_task(task: TaskFacts, draw: np.random.Generator) -> TaskFacts:
    """What it uses is less than what it was promised."""
    share = float(draw.uniform(0.1, 1.0))
    requested = task.requested
    need = amount(share * (requested.cpu_cores or 0.0), share * (requested.memory_bytes or 0) / (1 << 30))
    kind = TaskKind(int(draw.choice([TaskKind.SERVICE, TaskKind.JOB, TaskKind.DAEMON], p=[0.6, 0.2, 0.2])))
    left = 1.0 if draw.random() < 0.8 else 1 - (1 - 1 / LIMITS[task.task_class]) * float(draw.random())
    allocated = Quantities((requested.cpu_cores or 0.0) * left, round((requested.memory_bytes or 0) * left))
    return replace(task, used=need, mean=need, envelope=need, kind=kind, allocated=allocated)


def _guarded_node(node: NodeFacts, explained: float, draw: np.random.Generator) -> NodeFacts:
    labels = dict(node.labels)
    for label, values in ((POWER_LABEL, (NEVER, ALLOWED)), (ACT_LABEL, (NEVER,))):
        if draw.random() < 0.2:
            labels[label] = str(draw.choice(values))
    labels[DISK] = SSD if sum(node.name.encode()) % 2 else "hdd"
    outside = float(draw.choice([0.0, 0.05, 0.5], p=[0.6, 0.2, 0.2])) * (node.capacity.cpu_cores or 0.0)
    used = Quantities(explained + outside, node.used.memory_bytes, 0.0, 0.0)
    return replace(node, used=used, labels=labels)


def offences(cluster: Cluster, snapshot: Snapshot, actions: Iterable[Action]) -> Iterator[str]:
    """Return what a sequence of actions breaks."""
    actions = tuple(actions)
    nodes = {each.name: each for each in cluster.nodes}
    tasks = {each.id: each for each in cluster.tasks}
    woken = {action.node for action in actions if isinstance(action, PowerOn)}
    after = cluster.after(actions)
    for action in actions:
        against = [_against_node(nodes[name]) for name in affected_nodes(action)]
        if isinstance(action, Move | Kill):
            against.append(_against_leaving(tasks[action.task]))
        if isinstance(action, Move | Kill | Start) and action.target is not None:
            against.append(_against_target(nodes[action.target], woken))
            against.append(_against_constraint(tasks[action.task], nodes[action.target]))
        if isinstance(action, Cut):
            against.append(_against_cut(action, tasks[action.task]))
        if isinstance(action, PowerOff):
            against.append(_against_switching_off(nodes[action.node], after, snapshot))
        yield from (f"{describe(action)}: {each}" for some in against for each in some)
    yield from _broken_promises(cluster, after)


def _against_node(node: NodeFacts) -> Iterator[str]:
    if node.labels.get(ACT_LABEL) == NEVER:
        yield "the node has opted out"


def _against_leaving(task: TaskFacts) -> Iterator[str]:
    if task.kind is TaskKind.DAEMON:
        yield "it is a daemon"
    if not task.movable:
        yield "it may not be moved"


def _against_target(node: NodeFacts, woken: set[str]) -> Iterator[str]:
    if not node.accepts:
        yield "the node accepts no containers"
    if not node.on and node.name not in woken:
        yield "the node is off"


def _against_constraint(task: TaskFacts, target: NodeFacts) -> Iterator[str]:
    if _is_picky(task.service) and target.labels[DISK] != SSD:
        yield "it wants an SSD"


def _against_cut(cut: Cut, task: TaskFacts) -> Iterator[str]:
    least = 1 / LIMITS[task.task_class] - _ROUNDING
    for now, first in zip(cut.allocated.values[:2], task.requested.values[:2], strict=True):
        if (now or 0.0) < least * (first or 0.0):
            yield f"class {task.task_class} does not tolerate it"


def _against_switching_off(node: NodeFacts, after: Cluster, snapshot: Snapshot) -> Iterator[str]:
    if node.labels.get(POWER_LABEL) == NEVER:
        yield "it is labelled never"
    if any(each.node == node.name and each.kind is not TaskKind.DAEMON for each in after.tasks):
        yield "a container runs there"
    if snapshot.nodes.index[node.name] in snapshot.pending.nodes:
        yield "it is reserved"
    explained = sum(each.used.cpu_cores or 0.0 for each in after.tasks if each.node == node.name)
    explained = max(explained, float(snapshot.nodes.mean[snapshot.nodes.index[node.name], 0]))
    outside = (node.used.cpu_cores or 0.0) - explained
    if outside > 0.1 * (node.capacity.cpu_cores or 0.0) and node.labels.get(POWER_LABEL) != ALLOWED:
        yield "something outside containers runs there"
    if not any(
        each.on
        and each.accepts
        and each.liveness is Liveness.UP
        and each.report_age_seconds <= Stability().stale_seconds
        and each.labels.get(ACT_LABEL) != NEVER
        for each in after.nodes
    ):
        yield "no node is left"


def _broken_promises(cluster: Cluster, after: Cluster) -> Iterator[str]:
    """A node promises no more than its strictest container allows, unless it did so before."""
    before_plan, after_plan = cluster.snapshot(), after.snapshot()
    for row, name in enumerate(after_plan.nodes.names):
        strictest = int(after_plan.nodes.strictest_class[row]) or 4
        promised, before = after_plan.nodes.allocated[row, :2], before_plan.nodes.allocated[row, :2]
        most = np.maximum(after_plan.nodes.capacity[row, :2] * LIMITS[strictest], before)
        if (promised > most * (1 + _ROUNDING)).any():
            yield f"{name} promises more than class {strictest} tolerates"


@moving
def test_no_plan_does_harm(policy: Policy) -> None:
    assert policy.rebalance is not None
    found = {}
    for seed in range(CLUSTERS):
        cluster, snapshot = guarded_cluster(seed)
        actions = policy.rebalance(snapshot, policy.settings()).actions
        if broken := list(offences(cluster, snapshot, actions)):
            found[seed] = broken
    assert not found


@placing
def test_no_placement_does_harm(policy: Policy) -> None:
    assert policy.place is not None
    found = {}
    for seed in range(CLUSTERS):
        cluster, snapshot = guarded_cluster(seed)
        request = random_request(seed, task_class=1 + seed % 4)
        ranking = policy.place(snapshot, request, policy.settings())
        broken: list[str] = []
        for row in ranking.rows[:2].tolist():
            node = snapshot.nodes.names[row]
            broken += _against_node(next(each for each in cluster.nodes if each.name == node))
            broken += offences(cluster, snapshot, ranking.needs(row))
            placed = TaskFacts(
                id="new",
                node=node,
                requested=ranking.gets(row) or request.reserve,
                task_class=request.task_class,
            )
            after = cluster.after(ranking.needs(row))
            broken += _broken_promises(cluster, replace(after, tasks=[*after.tasks, placed]))
        if broken:
            found[seed] = broken
    assert not found
