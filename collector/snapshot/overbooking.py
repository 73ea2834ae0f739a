"""What the tasks of a node tolerate: how far its reservations may exceed its capacity.

A task of class 2 tolerates a sixth less than it reserved, class 3 a third, class 4 a half, class 1 nothing.
It can lose in two ways: by a cut of its own limits, and with all others on an overbooked node. Both together
never exceed what its class tolerates: the more a task is cut, the less its node may be overbooked.
"""

import numpy as np

from collector.common.arrays import Codes, Floats, Rows
from collector.snapshot.tables import NOWHERE, OVERBOOKING_LIMITS, Snapshot, Tasks

RESERVED = 2
"""Number of resources that tasks reserve: CPU and memory, the first two."""
TOLERANCES: Floats = np.array([0.0, *(1 - 1 / limit for limit in OVERBOOKING_LIMITS[1:])])
"""Share that a task can lose, by class."""
_ROUNDING = 1e-9


def originals(tasks: Tasks, rows: Rows) -> Floats:
    """Return what tasks reserved at their start, 0 where they reserved nothing."""
    return np.nan_to_num(tasks.requested[rows, :RESERVED], nan=0.0)


def allocations(tasks: Tasks, rows: Rows) -> Floats:
    """Return what tasks reserve now."""
    return np.nan_to_num(tasks.allocated[rows, :RESERVED], nan=0.0)


def cut_received(tasks: Tasks, rows: Rows) -> Floats:
    """Return the share that each task is cut by, of the resource that it is cut most."""
    first, now = originals(tasks, rows), allocations(tasks, rows)
    left = np.divide(now, first, out=np.ones_like(now), where=first > 0)
    cut: Floats = 1 - left.min(axis=1, initial=1.0)
    return np.clip(cut, 0.0, 1.0)


def cut_tasks(snapshot: Snapshot) -> Rows:
    """Return the rows of the tasks that run with less than they reserved."""

    def find() -> Rows:
        tasks = snapshot.tasks
        less = tasks.allocated[:, :RESERVED] < tasks.requested[:, :RESERVED]
        return np.flatnonzero((less[:, 0] | less[:, 1]) & (tasks.node != NOWHERE))

    return snapshot.cached("cut tasks", find)


def limit_left(task_class: Codes, cut: Floats) -> Floats:
    """Return the overbooking limit of the node of each task, by its class and its cut."""
    return 1 / (1 - np.clip(TOLERANCES[task_class] - cut, 0.0, None))


def class_after_cut(task_class: int, kept: float) -> int:
    """Return the class of which a task is that keeps this share of its reservation: it tolerates no more."""
    return max(int(np.count_nonzero(TOLERANCES[1:] <= TOLERANCES[task_class] - (1 - kept) + _ROUNDING)), 1)


def overbooking_limits(snapshot: Snapshot) -> Floats:
    """Return the limit of `Nodes.overbooking` per node, by the classes and the cuts of its tasks."""
    limits: Floats = np.array(OVERBOOKING_LIMITS)[snapshot.nodes.strictest_class]
    # Most tasks are not cut; of these the strictest decides.
    if (cut := cut_tasks(snapshot)).size:
        left = limit_left(snapshot.tasks.task_class[cut], cut_received(snapshot.tasks, cut))
        np.minimum.at(limits, snapshot.tasks.node[cut], left)
    return limits
