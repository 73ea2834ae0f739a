"""Whether an action keeps the promises of availability of the containers that it stops.

Actions of a policy that keeps promises itself, such as `qos-driven`, pass: it stops containers by its own
rules, which also decide between promises that cannot all be kept.
"""

from math import inf, isfinite

import numpy as np

from collector.act.guards.context import GuardContext, Refusal
from collector.act.records import Step
from collector.common.arrays import Rows
from collector.decide.policies.actions import Kill, Move, PowerOff, Resize, Scale
from collector.decide.policies.stability import keeps_awake
from collector.features.promises.snapshot import TaskPromises

_NONE: Rows = np.empty(0, dtype=np.intp)


def keeps_promises(step: Step, context: GuardContext) -> Refusal:
    """Refuse an action that stops a container for longer than its promise allows."""
    snapshot, slo = context.snapshot, context.snapshot.part(TaskPromises)
    if slo is None or step.keeps_promises:
        return None
    service = context.service(step)
    if isinstance(step.action, Move) and (service is None or not service.stops_to_move):
        return None  # its replacement runs first
    match step.action:
        case Kill(target=None) | Scale(replicas=0):
            is_open_ended = True
        case _:
            is_open_ended = False
    for row in _stopped_tasks(step, context):
        startup_seconds = float(slo.startup_seconds[row])
        left_seconds = float(slo.slack_seconds[row]) + startup_seconds
        down_seconds = inf if is_open_ended else startup_seconds
        if isfinite(left_seconds) and left_seconds <= down_seconds:
            share = slo.promises[slo.promise[row]].availability
            return _reason(snapshot.tasks.names[row], share, left_seconds, down_seconds)
    return None


def _stopped_tasks(step: Step, context: GuardContext) -> Rows:
    """Return the tasks that an action stops.

    Fewer replicas do not break a promise unless none is left: the removed ones no longer count.
    """
    snapshot = context.snapshot
    match step.action:
        case PowerOff(node=node) if node in snapshot.nodes.index:
            rows = snapshot.tasks_on(snapshot.nodes.index[node])
            return rows[keeps_awake(snapshot)[rows]]
        case Move(task=task) | Kill(task=task) if task in snapshot.tasks.index:
            return np.array([snapshot.tasks.index[task]], dtype=np.intp)
        case Scale(replicas=0, service=service):
            return _tasks_of(service, context)
        case Resize(service=service):
            view = context.service(step)
            return _tasks_of(service, context) if view is not None and view.stops_to_resize else _NONE
    return _NONE


def _tasks_of(service: str, context: GuardContext) -> Rows:
    """Return the tasks of a service, by the orchestrator's name."""
    index = context.snapshot.tasks.index
    rows = [
        index[each.container]
        for each in context.view.tasks
        if each.service == service and each.container in index
    ]
    return np.array(rows, dtype=np.intp)


def _reason(name: str, share: float, left_seconds: float, down_seconds: float) -> str:
    promise = f"the promise of {100 * share:g}% availability"
    if left_seconds <= 0:
        return f"{name} must not stop: {promise} leaves no time, or is broken already"
    down = (
        f"it would be down for {down_seconds:.0f} s" if isfinite(down_seconds) else "it would wait for room"
    )
    return f"{name} must not stop: {promise} breaks after {left_seconds:.0f} s, and {down}"


GUARDS = (("promise", keeps_promises),)
