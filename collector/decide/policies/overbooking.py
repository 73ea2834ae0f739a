"""Overbooking by class, as in Energy4Cloud: how far the reservations on a node may exceed its capacity.

A task of class 2 tolerates a sixth less than it reserved, class 3 a third, class 4 a half, class 1 nothing.
It can lose in two ways: by a cut of its own limits, and with all others on an overbooked node. Both together
never exceed what its class tolerates: the more a task is cut, the less its node may be overbooked. The thesis
derives both from the node's class alone, which fails when the strictest task leaves after others were cut;
per task, the rule always holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.decide.policies.interface import LAXEST_CLASS, Rejection, Request
from collector.snapshot.columns import four, sum_by_node
from collector.snapshot.tables import DEGRADED_RATIO, NOWHERE, OVERBOOKING_LIMITS, Region, Snapshot, Tasks
from wire.resources import Quantities

RESERVED = 2
"""Number of resources that tasks reserve: CPU and memory, the first two."""
TOLERANCES: Floats = np.array([0.0, *(1 - 1 / limit for limit in OVERBOOKING_LIMITS[1:])])
"""Share that a task can lose, by class."""
ROUNDING = 1e-9


def reservation_of(request: Request) -> Floats:
    """Return the reservation of a request, or else its demand."""
    reserve, demand = four(request.reserve), four(request.demand, missing=0.0)
    return np.where(np.isnan(reserve), demand, reserve)[:RESERVED]


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


def lenders(snapshot: Snapshot) -> Flags:
    """Return the degraded nodes that are so only because tasks use more CPU than they reserved.

    Such CPU is borrowed: a task that reserves it gets it back.
    """
    nodes = snapshot.nodes
    used = nodes.used[:, :RESERVED].copy(order="F")
    used[:, 0] -= snapshot.cached("borrowed", lambda: _borrowed(snapshot))
    degraded: Flags = nodes.region == Region.EED
    return degraded & (used <= DEGRADED_RATIO * nodes.capacity[:, :RESERVED]).all(axis=1)


def _borrowed(snapshot: Snapshot) -> Floats:
    """Return the CPU that the tasks of each node use beyond their reservations."""
    tasks = snapshot.tasks
    beyond = np.fmax(tasks.used[:, 0] - tasks.allocated[:, 0], 0.0)
    return sum_by_node(tasks.node, beyond[:, np.newaxis], len(snapshot.nodes.names))[:, 0]


def limit_left(task_class: Codes, cut: Floats) -> Floats:
    """Return the overbooking limit of the node of each task, by its class and its cut."""
    return 1 / (1 - np.clip(TOLERANCES[task_class] - cut, 0.0, None))


def reject_overbooked(snapshot: Snapshot, request: Request, refused: Codes) -> Codes:
    """Reject the nodes as well where its class, or that of a task there, does not allow the reservation."""
    more = np.nan_to_num(np.array(four(request.reserve))[:RESERVED], nan=0.0)
    if not more.any():
        return refused
    book = snapshot.cached_with_pending("reservations", lambda: ReservationBook.of(snapshot))
    fits = book.fits(more, OVERBOOKING_LIMITS[request.task_class])
    return np.where((refused == Rejection.NOT) & ~fits, np.int8(Rejection.OVERBOOKED), refused)


def reserved_quantities(row: Floats) -> Quantities:
    """Return a row of CPU and memory as quantities."""
    return Quantities(cpu_cores=float(row[0]), memory_bytes=round(row[1]))


@dataclass(eq=False)
class ReservationBook:
    """The reservations on every node and their limits, including planned changes.

    It does not refer to its snapshot, which keeps it: only a full garbage collection would free the two.
    """

    capacity: Floats
    reserved: Floats
    strictest: Codes
    limit: Floats
    """Overbooking limit of each node."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "ReservationBook":
        nodes, tasks = snapshot.nodes, snapshot.tasks
        # Most tasks are not cut; of these the strictest decides.
        limit = nodes.overbooking_limit.copy()
        if (cut := cut_tasks(snapshot)).size:
            left = limit_left(tasks.task_class[cut], cut_received(tasks, cut))
            np.minimum.at(limit, tasks.node[cut], left)
        return cls(
            nodes.capacity[:, :RESERVED],
            nodes.allocated[:, :RESERVED].copy(order="F"),
            nodes.strictest_class.copy(),
            limit,
        )

    def factor(self, more: Floats, rows: Rows | slice = slice(None)) -> Floats:
        """Return the overbooking of nodes with this much more."""
        shares = (self.reserved[rows] + more) / self.capacity[rows]
        factor: Floats = shares.max(axis=1)
        return factor

    def fits(self, more: Floats, limit: float | Floats) -> Flags:
        """Return the nodes where a task with this limit fits."""
        enough = (more <= self.capacity * (1 + ROUNDING)).all(axis=1)
        within = self.factor(more) <= np.minimum(self.limit, limit) * (1 + ROUNDING)
        return enough & within

    def fits_on(self, row: int, more: Floats, limit: float) -> bool:
        """Whether a task with this limit fits on one node."""
        allowed = min(float(self.limit[row]), limit) * (1 + ROUNDING)
        factor = float(((self.reserved[row] + more) / self.capacity[row]).max())
        return factor <= allowed and bool((more <= self.capacity[row] * (1 + ROUNDING)).all())

    def add(self, row: int, more: Floats, task_class: int, limit: float) -> None:
        self.reserved[row] += more
        self.limit[row] = min(self.limit[row], limit)
        strictest = int(self.strictest[row]) or LAXEST_CLASS
        self.strictest[row] = min(strictest, task_class)

    def take_away(self, row: int, amounts: Floats) -> None:
        """Remove the reservation of a task. The limit stays, since other tasks may have the same."""
        self.reserved[row] -= amounts

    def without(self, snapshot: Snapshot, row: int, gone: Sequence[int]) -> "ReservationBook":
        """Return the reservations without some tasks of a node."""
        tasks, leaving = snapshot.tasks, np.asarray(gone, dtype=np.intp)
        on = snapshot.tasks_on(row)
        stay = on[~np.isin(on, leaving)]
        left = limit_left(tasks.task_class[stay], cut_received(tasks, stay))
        books = replace(
            self,
            reserved=self.reserved.copy(order="F"),
            strictest=self.strictest.copy(),
            limit=self.limit.copy(),
        )
        books.reserved[row] -= allocations(tasks, leaving).sum(axis=0)
        books.limit[row] = left.min(initial=np.inf)
        books.strictest[row] = tasks.task_class[stay].min(initial=LAXEST_CLASS) if stay.size else 0
        return books
