"""Whether a node may be switched off."""

import numpy as np

from collector.act.guards.context import GuardContext, Refusal
from collector.act.records import Step
from collector.common.labels import NEVER, POWER_LABEL
from collector.common.orchestrator import Mode
from collector.common.text import counted
from collector.decide.policies.actions import Kill, Move, PowerOff
from collector.decide.policies.interface import Stability
from collector.decide.policies.stability import keep_one_on, keeps_awake, reason_to_stay_on
from collector.snapshot.tables import NOWHERE


def may_switch_off(step: Step, context: GuardContext) -> Refusal:
    """Refuse to switch off a node that must stay on, or the last one that accepts containers."""
    if not isinstance(step.action, PowerOff):
        return None
    name, snapshot = step.action.node, context.snapshot
    row = snapshot.nodes.index.get(name)
    if row is None:
        return None
    node = context.view.node(name)
    if node is not None and node.labels.get(POWER_LABEL) == NEVER:
        return f"{name} has the label {POWER_LABEL}={NEVER}"
    # The load of a node that was just emptied includes its containers until its next window.
    if (reason := reason_to_stay_on(snapshot, row, load_counts=not _just_left(name, context))) is not None:
        return reason
    rules = Stability(stale_seconds=context.settings.stale_seconds)
    if not keep_one_on(snapshot, rules, np.array([row])).size:
        return f"{name} is the last node that accepts containers"
    return None


def _just_left(node: str, context: GuardContext) -> bool:
    """Whether containers left a node so recently that its load does not show it yet."""
    since = context.now - context.settings.settle_seconds
    return any(
        isinstance(each.action, Move | Kill)
        and each.action.node == node
        and (each.ended_at is None or each.ended_at >= since)
        for each in context.started
    )


def node_is_empty(step: Step, context: GuardContext) -> Refusal:
    """Refuse to switch off a node with containers other than daemons."""
    if not isinstance(step.action, PowerOff):
        return None
    row = context.snapshot.nodes.index.get(step.action.node)
    if row is None:
        return None
    everywhere = {each.name for each in context.view.services if each.mode is Mode.GLOBAL}
    tasks, services = context.snapshot.tasks, context.snapshot.services
    counts = keeps_awake(context.snapshot)
    left = [
        tasks.names[task]
        for task in context.snapshot.tasks_on(row)
        if counts[task]
        and (tasks.service[task] == NOWHERE or services.names[tasks.service[task]] not in everywhere)
    ]
    if not left:
        return None
    example = left[0] if len(left) == 1 else f"such as {left[0]}"
    return f"{step.action.node} still runs {counted(len(left), 'container')}: {example}"
