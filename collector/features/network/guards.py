"""Whether a container stays within the bound of round-trip times of its application."""

import numpy as np

from collector.act.guards.context import GuardContext, Refusal
from collector.act.records import HAS_BEGUN, Step
from collector.common.arrays import Rows
from collector.decide.policies.actions import Relocation, Scale
from collector.decide.policies.interface import Request
from collector.features.network.applications.distance import (
    NearMembers,
    application_of,
    bound_of,
    describe_distance,
    describe_pair,
    near_members,
    peers_of,
    within,
)
from collector.features.network.mesh.delays import Delays
from collector.snapshot.tables import Snapshot


def stays_near(step: Step, context: GuardContext) -> Refusal:
    """Refuse to bring a container further from another one of its application than the bound allows.

    Members that other steps move count at their targets. An application that already exceeds its bound may be
    brought together move by move.
    """
    snapshot, action = context.snapshot, step.action
    delays = snapshot.part(Delays)
    if delays is None:
        return None
    if isinstance(action, Scale):
        return _new_replicas_near(action, snapshot, delays)
    if not isinstance(action, Relocation) or action.target is None:
        return None
    task, target = snapshot.tasks.index.get(action.task), snapshot.nodes.index.get(action.target)
    if task is None or target is None:
        return None
    members, home = NearMembers(snapshot), _destinations(context)
    near = members.open_to(task, home)
    if near is None or near[target]:
        return None
    why = members.describe(task, target, home)
    return f"{action.title} must not move to {action.target}: {why}"


def _new_replicas_near(action: Scale, snapshot: Snapshot, delays: Delays) -> Refusal:
    """Refuse new replicas that are too far from a member of their application, or from each other."""
    request = Request(service=action.service)
    near, bound = near_members(snapshot, request), bound_of(snapshot, request)
    rows = [snapshot.nodes.index[name] for name in action.nodes if name in snapshot.nodes.index]
    for row in rows:
        if near is not None and not near[row]:
            why = describe_distance(snapshot, request, row)
            return f"{action.service} must not start on {snapshot.nodes.names[row]}: {why}"
    if peers_of(snapshot, request).size and len(set(rows)) > 1 and np.isfinite(bound):
        for row in rows:
            seconds = delays.from_node(row)
            far = [other for other in rows if other != row and not within(seconds[[other]], bound)[0]]
            if far:
                one, other = snapshot.nodes.names[row], snapshot.nodes.names[far[0]]
                application = application_of(snapshot, request)
                why = describe_pair(one, other, float(seconds[far[0]]), bound, application)
                return f"{action.service} must not start on both: {why}"
    return None


def _destinations(context: GuardContext) -> Rows:
    """Return the node of each task, after the moves that have started."""
    tasks, nodes = context.snapshot.tasks, context.snapshot.nodes
    home = tasks.node.copy()
    for each in context.started:
        if isinstance(each.action, Relocation) and each.action.target is not None and each.state in HAS_BEGUN:
            task, target = tasks.index.get(each.action.task), nodes.index.get(each.action.target)
            if task is not None and target is not None:
                home[task] = target
    return home


GUARDS = (("distance", stays_near),)
