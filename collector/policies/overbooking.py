"""How much more may be promised than there is: Energy4Cloud's classes, and the books of what was promised.

A task of class 2 tolerates a sixth less than it was promised, class 3 a third, class 4 a half, class 1 none.
It can lose in two ways: by a cut of its own, and with all others where the node is overbooked. Both together
never exceed what its class tolerates: so the more a task was cut, the less its node may be overbooked. The
thesis ties both to the node's class alone, which is broken when the strictest task leaves after the others
were cut; counting per task what is left to tolerate is the same rule, and holds then too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from collector.policies.interface import LAXEST_CLASS, Request
from collector.snapshot.columns import four, sum_by_node
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import DEGRADED_RATIO, NOWHERE, Codes, Flags, Region, Snapshot, Tasks
from wire.resources import Quantities

PROMISED = 2
"""Of CPU and memory there are promises; they are the first two resources."""
LIMITS = (np.inf, 1.0, 1.2, 1.5, 2.0)
"""By class: how many times over a node may be promised. A node without tasks (0) sets no limit."""
TOLERANCES: Floats = np.array([0.0, *(1 - 1 / limit for limit in LIMITS[1:])])
"""By class: the share that a task can do without."""
ROUNDING = 1e-9


def asked(request: Request) -> Floats:
    """What a request wants to be promised; what it is reckoned to use, where it does not say."""
    reserve, demand = four(request.reserve), four(request.demand, missing=0.0)
    return np.where(np.isnan(reserve), demand, reserve)[:PROMISED]


def originals(tasks: Tasks, rows: Rows) -> Floats:
    """What tasks were promised at first; nothing where nothing was."""
    return np.nan_to_num(tasks.requested[rows, :PROMISED], nan=0.0)


def allocations(tasks: Tasks, rows: Rows) -> Floats:
    """What tasks are promised now."""
    return np.nan_to_num(tasks.allocated[rows, :PROMISED], nan=0.0)


def cut_received(tasks: Tasks, rows: Rows) -> Floats:
    """The share that each task has been cut by, of the resource that it was cut most."""
    first, now = originals(tasks, rows), allocations(tasks, rows)
    left = np.divide(now, first, out=np.ones_like(now), where=first > 0)
    cut: Floats = 1 - left.min(axis=1, initial=1.0)
    return np.clip(cut, 0.0, 1.0)


def cut_tasks(snapshot: Snapshot) -> Rows:
    """The rows of the tasks that run with less than they were promised at first."""

    def find() -> Rows:
        tasks = snapshot.tasks
        less = tasks.allocated[:, :PROMISED] < tasks.requested[:, :PROMISED]
        return np.flatnonzero((less[:, 0] | less[:, 1]) & (tasks.node != NOWHERE))

    return snapshot.cached("cut tasks", find)


def lenders(snapshot: Snapshot) -> Flags:
    """The nodes whose work suffers only because tasks use more CPU than they were promised.

    They borrow what nobody else wants at the moment, and give it back to whoever is promised it.
    """
    nodes = snapshot.nodes
    used = nodes.used[:, :PROMISED].copy(order="F")
    used[:, 0] -= snapshot.cached("borrowed", lambda: _borrowed(snapshot))
    suffers: Flags = nodes.region == Region.EED
    return suffers & (used <= DEGRADED_RATIO * nodes.capacity[:, :PROMISED]).all(axis=1)


def _borrowed(snapshot: Snapshot) -> Floats:
    """The CPU of each node that its tasks use beyond their promises."""
    tasks = snapshot.tasks
    beyond = np.fmax(tasks.used[:, 0] - tasks.allocated[:, 0], 0.0)
    return sum_by_node(tasks.node, beyond[:, np.newaxis], len(snapshot.nodes.names))[:, 0]


def limit_left(task_class: Codes, cut: Floats) -> Floats:
    """How many times over the node of a task may be promised, by its class and what it has lost already."""
    return 1 / (1 - np.clip(TOLERANCES[task_class] - cut, 0.0, None))


def quantities(amounts: Floats) -> Quantities:
    """Promises as they are told."""
    return Quantities(cpu_cores=float(amounts[0]), memory_bytes=round(amounts[1]))


@dataclass(eq=False)
class Books:
    """What is promised on every node, and how much more may be; changed by what is only planned yet."""

    snapshot: Snapshot
    capacity: Floats
    promised: Floats
    strictest: Codes
    limit: Floats
    """How many times over each node may be promised, by what its tasks tolerate."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Books":
        """The books as they stand."""
        nodes, tasks = snapshot.nodes, snapshot.tasks
        # Most tasks were never cut, and of those the strictest alone decides.
        limit = np.array(LIMITS)[nodes.strictest_class]
        cut = cut_tasks(snapshot)
        left = limit_left(tasks.task_class[cut], cut_received(tasks, cut))
        np.minimum.at(limit, tasks.node[cut], left)
        return cls(
            snapshot,
            nodes.capacity[:, :PROMISED],
            nodes.allocated[:, :PROMISED].copy(order="F"),
            nodes.strictest_class.copy(),
            limit,
        )

    def factor(self, more: Floats, rows: Rows | slice = slice(None)) -> Floats:
        """How many times over nodes would be promised with so much more."""
        shares = (self.promised[rows] + more) / self.capacity[rows]
        factor: Floats = shares.max(axis=1)
        return factor

    def fits(self, more: Floats, limit: float | Floats) -> Flags:
        """On which nodes something fits that has itself this limit."""
        enough = (more <= self.capacity * (1 + ROUNDING)).all(axis=1)
        within = self.factor(more) <= np.minimum(self.limit, limit) * (1 + ROUNDING)
        return enough & within

    def fits_on(self, row: int, more: Floats, limit: float) -> bool:
        """Whether it fits on one node."""
        allowed = min(float(self.limit[row]), limit) * (1 + ROUNDING)
        factor = float(((self.promised[row] + more) / self.capacity[row]).max())
        return factor <= allowed and bool((more <= self.capacity[row] * (1 + ROUNDING)).all())

    def add(self, row: int, more: Floats, task_class: int, limit: float) -> None:
        """Promise a node's resources to one task more."""
        self.promised[row] += more
        self.limit[row] = min(self.limit[row], limit)
        strictest = int(self.strictest[row]) or LAXEST_CLASS
        self.strictest[row] = min(strictest, task_class)

    def without(self, row: int, gone: Sequence[int]) -> "Books":
        """The books as they would be if some tasks of a node were gone."""
        tasks, leaving = self.snapshot.tasks, np.asarray(gone, dtype=np.intp)
        on = self.snapshot.tasks_on(row)
        stay = on[~np.isin(on, leaving)]
        left = limit_left(tasks.task_class[stay], cut_received(tasks, stay))
        books = replace(
            self,
            promised=self.promised.copy(order="F"),
            strictest=self.strictest.copy(),
            limit=self.limit.copy(),
        )
        books.promised[row] -= allocations(tasks, leaving).sum(axis=0)
        books.limit[row] = left.min(initial=np.inf)
        books.strictest[row] = tasks.task_class[stay].min(initial=LAXEST_CLASS) if stay.size else 0
        return books
