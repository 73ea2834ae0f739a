"""Conditions for every action. A guard is pure, and returns the reason of a refusal or None."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from collector.common.labels import ACT_LABEL, ALLOWED, MOVE_LABEL, NEVER, POWER_LABEL
from collector.common.liveness import Liveness
from collector.common.text import counted
from collector.config import ControlConfig
from collector.config.schedule import Schedule
from collector.control.records import IN_MOTION, Pause, Step, StepState
from collector.drivers.interface import Mode, OrchestratorState, ServiceView
from collector.policies.actions import (
    Cut,
    Kill,
    Move,
    PowerOff,
    PowerOn,
    Relocation,
    affected_nodes,
    megabytes,
)
from collector.policies.interface import Stability
from collector.policies.stability import keep_one_on, keeps_awake, reason_to_stay_on
from collector.snapshot.tables import NOWHERE, Snapshot, TaskKind

_HOUR_SECONDS = 3600.0
_FAILED = (StepState.FAILED, StepState.UNDONE, StepState.UNCLEAR)
_MAX_FAILED = 5
"""Failed moves of a node within an hour: more are not its bad luck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardContext:
    """The input of the guards."""

    now: float
    settings: ControlConfig
    schedule: Schedule
    snapshot: Snapshot
    view: OrchestratorState
    pause: Pause | None = None
    """The current pause."""
    holder: str | None = None
    """The collector that holds the lease; None if this one does."""
    taken_over_at: float | None = None
    """When this collector took over the lease from another; None if it never did."""
    trouble: str | None = None
    """Why the orchestrator does not answer; None if it does."""
    driver_back_at: float | None = None
    """When it answered again after an outage; None if there was none."""
    earlier: Sequence[Step] = ()
    """Recently started steps of other decisions."""
    own: Sequence[Step] = ()
    """Started steps of the same decision."""

    @property
    def started(self) -> list[Step]:
        return [*self.earlier, *self.own]

    @property
    def in_motion(self) -> list[Step]:
        return [step for step in self.started if step.state in IN_MOTION]

    def service(self, step: Step) -> ServiceView | None:
        """The orchestrator's view of the service of a step.

        Agents may use another name for it, so it is found by the container if possible.
        """
        container = getattr(step.action, "task", None)
        service = next(
            (each.service for each in self.view.tasks if each.container == container), step.service
        )
        return next((each for each in self.view.services if each.name == service), None)


Refusal = str | None
Guard = Callable[[Step, GuardContext], Refusal]


def not_paused(_step: Step, context: GuardContext) -> Refusal:
    """Refuse while actions are paused."""
    pause = context.pause
    if pause is None:
        return None
    why = f" ({pause.why})" if pause.why else ""
    left = f" for another {pause.until - context.now:.0f} s" if pause.until is not None else ""
    return f"actions are paused{left}{why}: run wattpack resume to continue"


def has_lease(_step: Step, context: GuardContext) -> Refusal:
    """Refuse while another collector holds the lease."""
    return f"another collector holds the lease: {context.holder}" if context.holder is not None else None


def driver_answers(_step: Step, context: GuardContext) -> Refusal:
    """Refuse while the orchestrator does not answer."""
    return context.trouble


def within_schedule(_step: Step, context: GuardContext) -> Refusal:
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
    """Refuse if the container no longer runs on the source, or the target accepts none.

    Containers of a node that is not ready are restarted by the orchestrator itself.
    """
    action, tasks, nodes = step.action, context.snapshot.tasks, context.snapshot.nodes
    if isinstance(action, Move | Kill | Cut):
        row = tasks.index.get(action.task)
        if row is None or nodes.names[tasks.node[row]] != action.node:
            return f"{action.title} no longer runs on {action.node}"
    if isinstance(action, Relocation):
        listed = {each.name for each in context.view.nodes}
        if listed and action.target is not None and action.target not in listed:
            return f"{action.target} is not a node of the orchestrator"
        row = nodes.index.get(action.target or "")
        if row is not None and not nodes.accepts[row]:
            return f"{action.target} accepts no containers: it is drained, paused or opted out"
        for each in context.view.nodes:
            if each.name in affected_nodes(action) and not each.ready:
                return f"{each.name} is not ready in the orchestrator"
    return None


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


def not_too_many_at_once(step: Step, context: GuardContext) -> Refusal:
    """Limit the containers that move at the same time."""
    if not isinstance(step.action, Relocation):
        return None
    under_way = sum(isinstance(each.action, Relocation) for each in context.in_motion)
    most = context.settings.concurrent_moves(len(context.snapshot.tasks.ids))
    return f"{counted(under_way, 'container')} already moving, limit {most}" if under_way >= most else None


def not_too_many_per_hour(step: Step, context: GuardContext) -> Refusal:
    """Limit the moves within an hour."""
    if not isinstance(step.action, Relocation):
        return None
    since = context.now - _HOUR_SECONDS
    moved = sum(
        isinstance(each.action, Relocation)
        and (each.started_at or 0.0) > since
        and each.state is not StepState.FAILED
        for each in context.started
    )
    most = context.settings.hourly_moves(len(context.snapshot.tasks.ids))
    return f"{counted(moved, 'move')} in the last hour, limit {most}" if moved >= most else None


def not_too_many_for_one_node(step: Step, context: GuardContext) -> Refusal:
    """Limit what one node can cause: moves that answer its alerts, and moves from or to it that failed."""
    action, since = step.action, context.now - _HOUR_SECONDS
    if not isinstance(action, Relocation):
        return None
    recent = [each for each in context.started if (each.started_at or 0.0) > since]
    for node in sorted(affected_nodes(action)):
        failed = sum(each.state in _FAILED and node in affected_nodes(each.action) for each in recent)
        if failed >= _MAX_FAILED:
            return f"{counted(failed, 'move')} from or to {node} failed in the last hour, limit {_MAX_FAILED}"
    source = getattr(action, "node", None)
    moved = sum(
        each.answers_alert
        and each.state not in _FAILED
        and isinstance(each.action, Relocation)
        and getattr(each.action, "node", None) == source
        for each in recent
    )
    most = max(1, context.settings.hourly_moves(len(context.snapshot.tasks.ids)) // 2)
    if step.answers_alert and source is not None and moved >= most:
        return f"{counted(moved, 'move')} answered alerts of {source} in the last hour, limit {most}"
    return None


def _subject(step: Step) -> str | None:
    """Return what moves: a service, or a container without one, whose name stays when it moves."""
    return step.service or getattr(step.action, "title", None)


def has_cooled_down(step: Step, context: GuardContext) -> Refusal:
    """Refuse to move a service again within its cool-down; after a failed move, within a shorter one."""
    if not isinstance(step.action, Move | Kill):
        return None
    settings, who = context.settings, _subject(step)
    for each in context.earlier:
        if _subject(each) != who or not isinstance(each.action, Relocation) or each.started_at is None:
            continue
        has_failed = each.state is StepState.FAILED
        ago = context.now - each.started_at
        rest = (settings.settle_seconds if has_failed else settings.cool_down_seconds) - ago
        if rest > 0:
            what = "failed to move" if has_failed else "moved"
            return f"{who} {what} {ago:.0f} s ago: wait another {rest:.0f} s"
    return None


def has_settled(step: Step, context: GuardContext) -> Refusal:
    """Refuse until the effect of an earlier move on the same nodes shows in the data.

    The same holds after another collector acted, whose journal is unknown here, and after an outage of the
    orchestrator, which then restarts what it misses.
    """
    if not isinstance(step.action, Move):
        return None
    back = None if context.driver_back_at is None else context.now - context.driver_back_at
    if back is not None and back < context.settings.settle_seconds:
        return f"the orchestrator came back {back:.0f} s ago: wait until its own changes show"
    since = None if context.taken_over_at is None else context.now - context.taken_over_at
    if since is not None and since < context.settings.settle_seconds:
        return f"another collector acted until {since:.0f} s ago: wait until its changes show"
    for each in context.earlier:
        # An undone or failed move has no effect to wait for.
        if each.state is not StepState.VERIFIED or not isinstance(each.action, Move) or each.ended_at is None:
            continue
        shared = affected_nodes(each.action) & affected_nodes(step.action)
        ago = context.now - each.ended_at
        if shared and ago < context.settings.settle_seconds:
            return f"{min(shared)} was part of a move {ago:.0f} s ago: wait until its effect shows"
    return None


def within_risk_limits(step: Step, context: GuardContext) -> Refusal:
    """Limit the replicas of a service and the memory that move at the same time."""
    if not isinstance(step.action, Relocation):
        return None
    moving = [each for each in context.in_motion if isinstance(each.action, Relocation)]
    service = context.service(step)
    if service is not None:
        same = 1 + sum(_subject(each) == _subject(step) for each in moving)
        most = max(1, int(context.settings.max_moving_ratio * service.replicas))
        if same > most:
            replicas = counted(service.replicas, "replica")
            return f"{same} of {replicas} of {_subject(step)} would move at the same time, limit {most}"
    memory = step.memory_bytes + sum(each.memory_bytes for each in moving)
    if moving and memory > context.settings.max_moving_memory_bytes:
        most_bytes = context.settings.max_moving_memory_bytes
        return f"{megabytes(memory)} of memory would move at the same time, limit {megabytes(most_bytes)}"
    return None


def may_switch_off(step: Step, context: GuardContext) -> Refusal:
    """Refuse to switch off a node that has to stay on, or the last one that accepts containers."""
    if not isinstance(step.action, PowerOff):
        return None
    name, snapshot = step.action.node, context.snapshot
    row = snapshot.nodes.index.get(name)
    if row is None:
        return None
    labels = next((each.labels for each in context.view.nodes if each.name == name), {})
    if labels.get(POWER_LABEL) == NEVER:
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
    return f"{step.action.node} still runs {counted(len(left), 'container')}: {left[0]}" if left else None


GUARDS: tuple[tuple[str, Guard], ...] = (
    ("pause", not_paused),
    ("lease", has_lease),
    ("driver", driver_answers),
    ("window", within_schedule),
    ("fresh", is_fresh),
    ("plan", is_as_planned),
    ("labels", labels_allow),
    ("stays", may_move),
    ("listed", is_listed),
    ("at_once", not_too_many_at_once),
    ("per_hour", not_too_many_per_hour),
    ("per_node", not_too_many_for_one_node),
    ("cool_down", has_cooled_down),
    ("settle", has_settled),
    ("risk", within_risk_limits),
    ("power", may_switch_off),
    ("empty", node_is_empty),
)


def first_refusal(step: Step, context: GuardContext) -> tuple[str, str] | None:
    """Return the name and reason of the first guard that refuses; None if none does."""
    for name, guard in GUARDS:
        if (reason := guard(step, context)) is not None:
            return name, reason
    return None
