"""Whether a container stays within the bound of round-trip times of its application."""

import numpy as np

from collector.control.guards.context import GuardContext, Refusal
from collector.control.records import CARRIED_OUT, IN_MOTION, Step
from collector.policies.actions import Relocation
from collector.policies.distance import Spans, describe_pair
from collector.snapshot.power_curves import Rows
from collector.snapshot.tables import NOWHERE, Snapshot

_COUNTS = {*IN_MOTION, *CARRIED_OUT}


def stays_near(step: Step, context: GuardContext) -> Refusal:
    """Refuse to bring a container further from another one of its application than the bound allows.

    The members that other steps move count where these bring them. An application that is apart already may
    be brought together move by move.
    """
    snapshot, action = context.snapshot, step.action
    if snapshot.applications is None or snapshot.delays is None:
        return None
    if not isinstance(action, Relocation) or action.target is None:
        return None
    task, target = snapshot.tasks.index.get(action.task), snapshot.nodes.index.get(action.target)
    if task is None or target is None:
        return None
    spans, home = Spans(snapshot), _destinations(context)
    near = spans.open_to(task, home)
    if near is None or near[target]:
        return None
    return f"{action.title} must not move to {action.target}: {_reason(snapshot, task, target, home)}"


def _destinations(context: GuardContext) -> Rows:
    """Return the node of each task, after the moves that have started."""
    tasks, nodes = context.snapshot.tasks, context.snapshot.nodes
    home = tasks.node.copy()
    for each in context.started:
        if isinstance(each.action, Relocation) and each.action.target is not None and each.state in _COUNTS:
            task, target = tasks.index.get(each.action.task), nodes.index.get(each.action.target)
            if task is not None and target is not None:
                home[task] = target
    return home


def _reason(snapshot: Snapshot, task: int, target: int, home: Rows) -> str:
    """Name the member that is too far from a node."""
    applications, delays, tasks = snapshot.applications, snapshot.delays, snapshot.tasks
    assert applications is not None
    assert delays is not None
    service = int(tasks.service[task])
    application = applications.application_of(service)
    bound, seconds = float(applications.delay_max[application]), delays.from_node(target)
    others = np.flatnonzero(np.isin(tasks.service, applications.peers_of(service)))
    others = others[(others != task) & (home[others] != NOWHERE)]
    far = np.nan_to_num(seconds[home[others]], nan=np.inf)
    if not others.size or far.max() <= bound:
        return f"it would be further from a pending member of application {applications.names[application]}"
    other = int(home[others[int(far.argmax())]])
    names = snapshot.nodes.names
    return describe_pair(
        names[target], names[other], float(seconds[other]), bound, applications.names[application]
    )
