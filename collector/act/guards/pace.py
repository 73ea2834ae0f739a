"""Limits of the number of moves at a time and per hour, and minimum times between two moves.

They apply to moves that improve something. Stops and starts that keep promises are exempt, and do not count:
at a limit, promises would break. The policy that plans them limits them itself, and no instance is stopped
twice within a minute.
"""

from collections.abc import Sequence

from collector.act.guards.context import GuardContext, Refusal
from collector.act.records import Step, StepState
from collector.common.text import counted
from collector.decide.policies.actions import (
    Kill,
    Move,
    Relocation,
    Scale,
    ServiceAction,
    Start,
    affected_nodes,
    megabytes,
)

_HOUR_SECONDS = 3600.0
_FAILED = (StepState.FAILED, StepState.UNDONE, StepState.UNCLEAR)
_REST_SECONDS = 60.0
_MAX_FAILED = 5
"""Maximum number of failed moves from or to a node within an hour: more are not a coincidence."""


def _counts(step: Step) -> bool:
    """Whether a step counts as a move."""
    return isinstance(step.action, Relocation) and not step.keeps_promises and not _sheds(step)


def _sheds(step: Step) -> bool:
    """Whether a step stops or starts something optional: brownout limits these itself."""
    return isinstance(step.action, Kill | Start | Scale) and step.action.sheds


def not_too_many_at_once(step: Step, context: GuardContext) -> Refusal:
    """Limit the containers that move at the same time."""
    if not _counts(step):
        return None
    under_way = sum(_counts(each) for each in context.in_motion)
    most = context.settings.concurrent_moves(len(context.snapshot.tasks.ids))
    return f"{counted(under_way, 'container')} already moving, limit {most}" if under_way >= most else None


def not_too_many_per_hour(step: Step, context: GuardContext) -> Refusal:
    """Limit the moves within an hour."""
    if not _counts(step):
        return None
    since = context.now - _HOUR_SECONDS
    moved = sum(
        _counts(each) and (each.started_at or 0.0) > since and each.state is not StepState.FAILED
        for each in context.started
    )
    most = context.settings.hourly_moves(len(context.snapshot.tasks.ids))
    return f"{counted(moved, 'move')} in the last hour, limit {most}" if moved >= most else None


def not_too_many_for_one_node(step: Step, context: GuardContext) -> Refusal:
    """Limit the moves that one node can cause: those that answer its alerts, and those that failed."""
    if not isinstance(step.action, Relocation):
        return None
    since = context.now - _HOUR_SECONDS
    recent = [each for each in context.started if (each.started_at or 0.0) > since]
    return _too_many_failed(step, recent) or _too_many_answers(step, recent, context)


def _too_many_failed(step: Step, recent: Sequence[Step]) -> Refusal:
    for node in sorted(affected_nodes(step.action)):
        there = [each for each in recent if node in affected_nodes(each.action)]
        failed = sum(each.state in _FAILED for each in there)
        # Of many stops and starts that keep promises some fail, because another task took the room.
        if failed >= _MAX_FAILED and (not step.keeps_promises or 2 * failed >= len(there)):
            return f"{counted(failed, 'move')} from or to {node} failed in the last hour, limit {_MAX_FAILED}"
    return None


def _too_many_answers(step: Step, recent: Sequence[Step], context: GuardContext) -> Refusal:
    source = getattr(step.action, "node", None)
    if not step.answers_alert or source is None:
        return None
    answers = [
        each
        for each in (*recent, *context.planned)
        if each.answers_alert
        and each.state not in _FAILED
        and isinstance(each.action, Relocation)
        and getattr(each.action, "node", None) == source
    ]
    planned = sum(each.state is StepState.PLANNED for each in answers)
    moved = len(answers) - planned
    most = max(1, context.settings.hourly_moves(len(context.snapshot.tasks.ids)) // 2)
    # A part of a set would leave the alert open.
    if moved + max(1, planned) > most:
        more = f", and {planned} more are needed" if planned > 1 else ""
        return f"{counted(moved, 'move')} answered alerts of {source} in the last hour{more}, limit {most}"
    return None


def _service_name(step: Step) -> str | None:
    """Return the name of the service that moves; of a container without a service, its own name."""
    return step.service or getattr(step.action, "title", None)


def has_cooled_down(step: Step, context: GuardContext) -> Refusal:
    """Refuse to move a service, or to change its size, again within its cool-down.

    After a failure, it may be tried again sooner.
    """
    if step.keeps_promises or _sheds(step) or not isinstance(step.action, Move | Kill | ServiceAction):
        return None
    settings, who = context.settings, _service_name(step)
    changes_size = isinstance(step.action, ServiceAction)
    target = context.bounds.get(who or "") if changes_size else None
    cool_down_seconds = settings.cool_down_seconds if target is None else target.cool_down_seconds
    for each in context.earlier:
        # Brownout has rules of its own for the size of a service.
        is_alike = isinstance(each.action, ServiceAction) and not _sheds(each)
        is_alike = is_alike if changes_size else isinstance(each.action, Relocation)
        if not is_alike or _service_name(each) != who or each.started_at is None:
            continue
        has_failed = each.state is StepState.FAILED
        seconds = min(settings.settle_seconds, cool_down_seconds) if has_failed else cool_down_seconds
        ago = context.now - each.started_at
        if 0 <= ago < seconds:  # one that is in the future was recorded by a wrong clock
            verb = "change" if changes_size else "move"
            what = f"failed to {verb}" if has_failed else f"{verb}d"
            return f"{who} {what} {ago:.0f} s ago: wait another {seconds - ago:.0f} s"
    return None


def has_rested(step: Step, context: GuardContext) -> Refusal:
    """Refuse to stop an instance twice within a minute, whatever the promises are."""
    if not step.keeps_promises or not _is_stop(step):
        return None
    who, service = _service_name(step), context.service(step)
    ago = sorted(
        context.now - each.started_at
        for each in context.started
        if each.keeps_promises
        and _is_stop(each)
        and _service_name(each) == who
        and each.started_at is not None
        and each.state is not StepState.FAILED
        and each.action != step.action
    )
    # Which of several instances was stopped is not recorded: as many stops as there are instances pass.
    instances = 1 if service is None else max(1, service.replicas)
    if len(ago) < instances or ago[instances - 1] >= _REST_SECONDS:
        return None
    last = ago[instances - 1]
    return f"{who} was stopped {last:.0f} s ago: wait another {_REST_SECONDS - last:.0f} s"


def _is_stop(step: Step) -> bool:
    return isinstance(step.action, Kill) and step.action.target is None


def has_settled(step: Step, context: GuardContext) -> Refusal:
    """Refuse until the effect of an earlier move on the same nodes shows in the data.

    Also refuse after another collector acted, whose journal is unknown here, and after an outage of the
    orchestrator, which then restarts missing containers.
    """
    if not isinstance(step.action, Move):
        return None
    back = None if context.driver_back_at is None else context.now - context.driver_back_at
    if back is not None and back < context.settings.settle_seconds:
        return f"the orchestrator recovered {back:.0f} s ago: wait until its own changes show"
    since = None if context.taken_over_at is None else context.now - context.taken_over_at
    if since is not None and since < context.settings.settle_seconds:
        return f"another collector acted until {since:.0f} s ago: wait until its changes show"
    mine, settle_seconds = affected_nodes(step.action), context.settings.settle_seconds
    for each in context.earlier:
        # An undone or failed move has no effect to wait for.
        if each.state is not StepState.VERIFIED or not isinstance(each.action, Move) or each.ended_at is None:
            continue
        ago = context.now - each.ended_at
        if ago < settle_seconds and (shared := affected_nodes(each.action) & mine):
            return f"{min(shared)} was part of a move {ago:.0f} s ago: wait until its effect shows"
    return None


def within_risk_limits(step: Step, context: GuardContext) -> Refusal:
    """Limit the replicas of a service and the memory that move at the same time."""
    if not _counts(step):
        return None
    moving = [each for each in context.in_motion if _counts(each)]
    service = context.service(step)
    if service is not None:
        same = 1 + sum(_service_name(each) == _service_name(step) for each in moving)
        most = max(1, int(context.settings.max_moving_ratio * service.replicas))
        if same > most:
            replicas = counted(service.replicas, "replica")
            return f"{same} of {replicas} of {_service_name(step)} would move at the same time, limit {most}"
    memory = step.memory_bytes + sum(each.memory_bytes for each in moving)
    if moving and memory > context.settings.max_moving_memory_bytes:
        most_bytes = context.settings.max_moving_memory_bytes
        return f"{megabytes(memory)} of memory would move at the same time, limit {megabytes(most_bytes)}"
    return None
