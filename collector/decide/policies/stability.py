"""What a plan may move, and the watts before and after it."""

from dataclasses import replace

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.common.labels import ACT_LABEL, ALLOWED, NEVER, POWER_LABEL
from collector.common.liveness import Liveness
from collector.decide.policies.actions import Kill, Move, PowerOff, PowerOn, Start
from collector.decide.policies.interface import Plan, Stability
from collector.decide.policies.scoring import percent
from collector.snapshot.columns import CPU, sum_by_node
from collector.snapshot.tables import NOWHERE, Snapshot, TaskKind, share

SYSTEM_LOAD_RATIO = 0.1
"""Share of a node's CPU that its containers need not explain. Agents report changes of ten points, so that a
smaller difference between a node and its containers may be none at all."""


def reporting(snapshot: Snapshot, stability: Stability) -> Flags:
    """Return the nodes that are on, up and reported recently; the others are left alone."""
    nodes = snapshot.nodes
    fresh = np.less_equal(nodes.report_age_seconds, stability.stale_seconds)
    return nodes.on & fresh & np.equal(nodes.liveness, Liveness.UP)


def opted_out(snapshot: Snapshot) -> Flags:
    """Return the nodes that no action may affect."""
    return snapshot.nodes.labelled(ACT_LABEL, NEVER)


def may_receive(snapshot: Snapshot, stability: Stability) -> Flags:
    """Return the nodes that a move may go to, free capacity apart."""
    nodes = snapshot.nodes
    known = ~np.isnan(nodes.capacity[:, 0])
    return reporting(snapshot, stability) & nodes.accepts & known & ~opted_out(snapshot)


def may_wake(snapshot: Snapshot) -> Flags:
    """Return the nodes that are off and accept containers once they are switched on."""
    nodes = snapshot.nodes
    return ~nodes.on & nodes.accepts & ~np.isnan(nodes.capacity[:, 0]) & ~opted_out(snapshot)


def may_sleep(snapshot: Snapshot) -> Flags:
    """Return the nodes that may be switched off when no container keeps them on."""

    def find() -> Flags:
        nodes = snapshot.nodes
        expects = np.zeros(len(nodes.names), dtype=np.bool_)
        expects[snapshot.pending.nodes] = True
        # CPU load that no container explains is other work, which would end.
        works = np.nan_to_num(_system_load(snapshot), nan=0.0) > SYSTEM_LOAD_RATIO
        works &= ~nodes.labelled(POWER_LABEL, ALLOWED)
        return ~(nodes.labelled(POWER_LABEL, NEVER) | opted_out(snapshot) | expects | works)

    return snapshot.cached_with_pending("may sleep", find)


def _system_load(snapshot: Snapshot) -> Floats:
    """Return the share of each node's CPU that is used outside containers."""
    nodes, tasks = snapshot.nodes, snapshot.tasks
    used = snapshot.cached(
        "CPU of tasks", lambda: sum_by_node(tasks.node, tasks.used[:, [CPU]], len(nodes.names))[:, 0]
    )
    return share(nodes.used[:, CPU] - np.fmax(used, nodes.mean[:, CPU]), nodes.capacity[:, CPU])


def reason_to_stay_on(snapshot: Snapshot, row: int, *, load_counts: bool = True) -> str | None:
    """Return why a node must not be switched off, containers apart; None if it may.

    Without `load_counts`, its load does not matter.
    """
    nodes = snapshot.nodes
    name = nodes.names[row]
    for label in (POWER_LABEL, ACT_LABEL):
        if nodes.labelled(label, NEVER)[row]:
            return f"{name} has the label {label}={NEVER}"
    if row in snapshot.pending.nodes:
        return f"{name} is reserved for a container that has not started yet"
    if may_sleep(snapshot)[row] or not load_counts:
        return None
    used = percent(float(_system_load(snapshot)[row]))
    return (
        f"{name} uses {used} of its CPU outside containers: set the label {POWER_LABEL}={ALLOWED} to allow it"
    )


def keep_one_on(snapshot: Snapshot, stability: Stability, rows: Rows) -> Rows:
    """Return those of some nodes that may be switched off together, so that one accepts containers.

    If none would, the one with the lowest idle power stays on.
    """
    stays = may_receive(snapshot, stability)
    stays[rows] = False
    if stays.any() or not rows.size:
        return rows
    idle_watts = np.nan_to_num(snapshot.nodes.power.idle_watts[rows], nan=np.inf)
    return np.delete(rows, int(idle_watts.argmin()))


def keeps_awake(snapshot: Snapshot) -> Flags:
    """Return the tasks that keep a node on: all but those that run on every node, or only for their node."""
    awake: Flags = (snapshot.tasks.node != NOWHERE) & (snapshot.tasks.kind != TaskKind.DAEMON)
    return awake


def may_leave(snapshot: Snapshot, stability: Stability) -> Flags:
    """Return the tasks that may move: movable, past their cool-down, no daemon, on a node that reports."""
    tasks = snapshot.tasks
    rows = np.flatnonzero(keeps_awake(snapshot))
    leaves = np.zeros(len(tasks.ids), dtype=np.bool_)
    leaves[rows] = (reporting(snapshot, stability) & ~opted_out(snapshot))[tasks.node[rows]]
    return tasks.movable & leaves & (tasks.settled_seconds >= stability.cool_down_seconds)


def no_return_nodes(snapshot: Snapshot, stability: Stability) -> Rows:
    """Return the node that each task must not return to yet; `NOWHERE` if there is none."""
    tasks = snapshot.tasks
    return np.where(tasks.settled_seconds < stability.no_return_seconds, tasks.came_from, NOWHERE)


def any_above(taken_ratio: Floats, ratio: float) -> Flags:
    """Return the nodes with any resource above this ratio."""
    over: Flags = np.any(np.nan_to_num(taken_ratio, nan=0.0) > ratio, axis=1)
    return over


def with_watts(snapshot: Snapshot, plan: Plan) -> Plan:
    """Return a plan with the cluster's power before and after it; None if that of a node is unknown.

    Before, it is what nodes report. After, it differs by what their power curves predict: containers take
    their mean use with them, and cuts change nothing, since a reservation draws no power. Nodes that are down
    do not count, since their power is unknown.
    """
    nodes, tasks = snapshot.nodes, snapshot.tasks
    counts = nodes.liveness != Liveness.DOWN
    before = np.nan_to_num(nodes.used, nan=0.0)
    load, on = before.copy(), nodes.on.copy()
    for action in plan.actions:
        match action:
            case PowerOn() | PowerOff():
                on[nodes.index[action.node]] = isinstance(action, PowerOn)
            case Move() | Kill() | Start():
                row = tasks.index[action.task]
                if tasks.node[row] != NOWHERE:
                    load[tasks.node[row]] -= tasks.mean[row]
                if action.target is not None:
                    load[nodes.index[action.target]] += tasks.mean[row]
    loads = [share(np.maximum(each, 0.0), nodes.capacity) for each in (before, load)]
    curves = [nodes.power.watts(each) for each in loads]
    changed = (load != before).any(axis=1)
    watts = np.where(nodes.on, nodes.watts + np.where(changed, curves[1] - curves[0], 0.0), curves[1])
    return replace(
        plan,
        watts_before=_sum(nodes.watts[nodes.on & counts]),
        watts_after=_sum(watts[on & (counts | ~nodes.on)]),
    )


def _sum(watts: Floats) -> float | None:
    total = float(watts.sum())
    return None if np.isnan(total) else total
