"""Whether this collector may act, and whether the cluster is as the plan assumes."""

import numpy as np

from collector.act.guards.context import GuardContext, Refusal
from collector.act.records import Step
from collector.act.verification import same_limit
from collector.common.labels import ACT_LABEL, ALLOWED, MOVE_LABEL, NEVER, POWER_LABEL
from collector.common.liveness import Liveness
from collector.common.orchestrator import Mode
from collector.common.text import counted
from collector.decide.policies.actions import (
    Action,
    Cut,
    Kill,
    Move,
    PowerOff,
    PowerOn,
    Relocation,
    Scale,
    ServiceAction,
    affected_nodes,
    describe_cores,
)
from collector.decide.policies.interface import Stability
from collector.decide.policies.stability import keep_one_on, keeps_awake, reason_to_stay_on
from collector.snapshot.columns import four
from collector.snapshot.matching import constraints_of, nodes_matching
from collector.snapshot.tables import NOWHERE, TaskKind

_ROUNDING = 1e-9


def not_paused(_step: object, context: GuardContext) -> Refusal:
    """Refuse while actions are paused."""
    pause = context.pause
    if pause is None:
        return None
    why = f" ({pause.why})" if pause.why else ""
    left = f" for another {pause.until - context.now:.0f} s" if pause.until is not None else ""
    return f"actions are paused{left}{why}: run wattpack control resume to continue"


def has_lease(_step: object, context: GuardContext) -> Refusal:
    """Refuse while another collector holds the lease."""
    return f"another collector holds the lease: {context.holder}" if context.holder is not None else None


def driver_answers(_step: object, context: GuardContext) -> Refusal:
    """Refuse while the orchestrator does not answer."""
    return context.trouble


def within_schedule(_step: object, context: GuardContext) -> Refusal:
    """Refuse outside the allowed times and in forbidden ones."""
    return context.schedule.reason_against(context.now)


def is_fresh(step: Step, context: GuardContext) -> Refusal:
    """Refuse if the last report of source or target is too old, unless the node is to be switched on."""
    nodes = context.snapshot.nodes
    for name in sorted(affected_nodes(step.action)):
        row = nodes.index.get(name)
        if row is None:
            return f"node {name} is unknown"
        if not nodes.on[row] and isinstance(step.action, PowerOn):
            continue
        age, limit = float(nodes.report_age_seconds[row]), context.settings.stale_seconds
        if nodes.liveness[row] == Liveness.DOWN:
            return f"{name} is down: its last report is {age:.0f} s old"
        if age > limit:
            return f"the last report of {name} is {age:.0f} s old, limit {limit:g} s"
    return None


def is_as_planned(step: Step, context: GuardContext) -> Refusal:
    """Refuse if the container has left the source, the service changed, or the target is closed."""
    action = step.action
    return (
        _container_has_left(action, context)
        or _service_has_changed(action, context)
        or _node_is_closed(action, context)
    )


def _container_has_left(action: Action, context: GuardContext) -> Refusal:
    if not isinstance(action, Move | Kill | Cut):
        return None
    tasks, nodes = context.snapshot.tasks, context.snapshot.nodes
    row = tasks.index.get(action.task)
    if row is None or nodes.names[tasks.node[row]] != action.node:
        return f"{action.title} no longer runs on {action.node}"
    return None


def _node_is_closed(action: Action, context: GuardContext) -> Refusal:
    """Return which node accepts no containers, or is not ready: the orchestrator restarts its containers."""
    if not isinstance(action, Relocation | Scale):
        return None
    nodes, listed = context.snapshot.nodes, {each.name for each in context.view.nodes}
    targets = action.nodes if isinstance(action, Scale) else (action.target,) if action.target else ()
    for target in targets:
        if listed and target not in listed:
            return f"{target} is not a node of the orchestrator"
        row = nodes.index.get(target)
        if row is not None and not nodes.accepts[row]:
            return f"{target} accepts no containers: it is drained, paused or opted out"
    for each in context.view.nodes:
        if each.name in affected_nodes(action) and not each.ready:
            return f"{each.name} is not ready in the orchestrator"
    return None


def _service_has_changed(action: Action, context: GuardContext) -> Refusal:
    """Return why a service is not as the plan assumes; None without an orchestrator, which would know it."""
    if not isinstance(action, ServiceAction) or not context.view.nodes:
        return None
    service = context.view.service(action.service)
    if service is None:
        return f"the orchestrator has no service {action.service}"
    if isinstance(action, Scale):
        if service.mode is not Mode.REPLICATED:
            is_standalone = service.mode is Mode.STANDALONE
            reason = "no orchestrator manages it" if is_standalone else "it runs on every node"
            return f"{action.service} has no replicas to change: {reason}"
        is_unchanged = service.replicas in {action.replicas_before, action.replicas}
        return None if is_unchanged else f"{action.service} now has {counted(service.replicas, 'replica')}"
    before, now = action.cpu_limit_cores_before, service.limit.cpu_cores
    if same_limit(now, before) or same_limit(now, action.cpu_limit_cores):
        return None
    limit = "no CPU limit" if now is None else f"a CPU limit of {describe_cores(now)}"
    return f"{action.service} now has {limit}"


def is_listed(step: Step, context: GuardContext) -> Refusal:
    """Refuse if the orchestrator does not run the container there: a node can report any container."""
    action = step.action
    if not context.view.nodes or not isinstance(action, Move | Kill | Cut):
        return None
    if any(each.container == action.task and each.node == action.node for each in context.view.tasks):
        return None
    return f"the orchestrator does not list {action.title} on {action.node}"


def labels_allow(step: Step, context: GuardContext) -> Refusal:
    """Refuse if the service or a node has opted out, or the service has not opted in as required."""
    labels = {each.name: each.labels for each in context.view.nodes}
    nodes = context.snapshot.nodes
    for name in sorted(affected_nodes(step.action)):
        row = nodes.index.get(name)
        merged = {**labels.get(name, {}), **(nodes.labels[row] if row is not None else {})}
        if merged.get(ACT_LABEL) == NEVER:
            return f"{name} has opted out with the label {ACT_LABEL}={NEVER}"
    if isinstance(step.action, PowerOn | PowerOff):
        return None
    service = context.service(step)
    label = None if service is None else service.labels.get(ACT_LABEL)
    who = step.service or step.action.title
    if label == NEVER:
        return f"{who} has opted out with the label {ACT_LABEL}={NEVER}"
    if context.settings.opt_in and label != ALLOWED:
        return f"{who} has not opted in: control.opt_in requires the label {ACT_LABEL}={ALLOWED}"
    return None


def may_move(step: Step, context: GuardContext) -> Refusal:
    """Refuse if the orchestrator or a label keeps the container where it is."""
    if not isinstance(step.action, Move | Kill):
        return None
    row = context.snapshot.tasks.index.get(step.action.task)
    if row is not None and context.snapshot.tasks.kind[row] == TaskKind.DAEMON:
        return f"{step.action.title} is a daemon: it runs as long as its node"
    if not isinstance(step.action, Move):
        return None
    service = context.service(step)
    if service is not None and service.stays is not None:
        return f"{step.service or step.action.title} cannot move: {service.stays}"
    if row is not None and not context.snapshot.tasks.movable[row]:
        return f"{step.action.title} has opted out with the label {MOVE_LABEL}={NEVER}"
    return None


def may_be_cut(step: Step, context: GuardContext) -> Refusal:
    """Refuse a cut that frees nothing that the orchestrator counts; giving limits back is always allowed."""
    service = context.service(step)
    if not isinstance(step.action, Cut) or service is None or service.uncut is None:
        return None
    row = context.snapshot.tasks.index.get(step.action.task)
    if row is None:
        return None
    is_less = np.array(four(step.action.allocated)) < context.snapshot.tasks.allocated[row]
    return f"cutting {step.action.title} frees nothing: {service.uncut}" if is_less.any() else None


def can_wait(step: Step, context: GuardContext) -> Refusal:
    """Refuse to stop a container until there is room if only a policy that keeps promises restarts it."""
    is_stop = isinstance(step.action, Kill) and step.action.target is None
    if not is_stop or step.keeps_promises or not context.has_queue:
        return None
    return f"{step.service or 'it'} cannot wait: the orchestrator would restart it at once"


def within_bounds(step: Step, context: GuardContext) -> Refusal:
    """Refuse more or fewer replicas, or another CPU limit, than the target of a service allows."""
    action = step.action
    if not isinstance(action, ServiceAction):
        return None
    target = context.bounds.get(action.service)
    if isinstance(action, Scale):
        service = context.service(step)
        if service is not None and service.stopped_replicas and not action.sheds:
            return f"{action.service} is optional, and is stopped while resources are short"
        if target is None or action.sheds or target.replicas_min <= action.replicas <= target.replicas_max:
            return None
        replicas = counted(action.replicas, "replica")
        return f"{action.service} must not have {replicas}: {target.replicas_min} to {target.replicas_max}"
    low, high = (0.0, None) if target is None else (target.cpu_min_cores, target.cpu_max_cores)
    cores = action.cpu_limit_cores
    if cores > 0 and cores >= low - _ROUNDING and (high is None or cores <= high + _ROUNDING):
        return None
    allowed = "it must be above 0" if high is None else f"{low:g} to {describe_cores(high)}"
    return f"{action.service} must not be limited to {describe_cores(cores)}: {allowed}"


def meets_constraints(step: Step, context: GuardContext) -> Refusal:
    """Refuse to bring a container to a node that its orchestrator would not run it on."""
    snapshot, action = context.snapshot, step.action
    if not isinstance(action, Relocation) or action.target is None:
        return None
    task, target = snapshot.tasks.index.get(action.task), snapshot.nodes.index.get(action.target)
    if task is None or target is None:
        return None
    for each in constraints_of(snapshot, task):
        if not nodes_matching(snapshot.nodes, each)[target]:
            return (
                f"{action.title} must not move to {action.target}: its constraint {each} does not hold there"
            )
    return None


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


def not_spent(step: Step, context: GuardContext) -> Refusal:
    """Refuse to answer an alert again in a way that did not end it."""
    return context.spent.reason(step)
