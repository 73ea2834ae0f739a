"""The reservations on nodes, and what they may take beyond their capacity, as in Energy4Cloud.

The thesis derives overbooking and cuts from the class of a node alone, which fails when the strictest task
leaves after others were cut; by what each task tolerates, the rule always holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.decide.policies.interface import Rejection, Request
from collector.snapshot.columns import four, sum_by_node
from collector.snapshot.overbooking import RESERVED, allocations, cut_received, limit_left, overbooking_limits
from collector.snapshot.tables import DEGRADED_RATIO, OVERBOOKING_LIMITS, Region, Snapshot
from wire.resources import Quantities

ROUNDING = 1e-9


def reservation_of(request: Request) -> Floats:
    """Return the reservation of a request, or else its demand."""
    reserve, demand = four(request.reserve), four(request.demand, missing=0.0)
    return np.where(np.isnan(reserve), demand, reserve)[:RESERVED]


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
    limit: Floats
    """Overbooking limit of each node."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "ReservationBook":
        nodes = snapshot.nodes
        return cls(
            nodes.capacity[:, :RESERVED],
            nodes.allocated[:, :RESERVED].copy(order="F"),
            overbooking_limits(snapshot),
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

    def add(self, row: int, more: Floats, limit: float) -> None:
        self.reserved[row] += more
        self.limit[row] = min(self.limit[row], limit)

    def without(self, snapshot: Snapshot, row: int, gone: Sequence[int]) -> "ReservationBook":
        """Return the reservations without some tasks of a node."""
        tasks, leaving = snapshot.tasks, np.asarray(gone, dtype=np.intp)
        on = snapshot.tasks_on(row)
        stay = on[~np.isin(on, leaving)]
        left = limit_left(tasks.task_class[stay], cut_received(tasks, stay))
        books = replace(self, reserved=self.reserved.copy(order="F"), limit=self.limit.copy())
        books.reserved[row] -= allocations(tasks, leaving).sum(axis=0)
        # The classes of pending tasks are known only with those of all others.
        pending = float(self.limit[row]) if (snapshot.pending.nodes == row).any() else np.inf
        books.limit[row] = left.min(initial=pending)
        return books
