"""The expected use of containers and of requests, and its sum on each node, pending tasks included."""

from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.common.text import counted
from collector.decide.policies.interface import Request
from collector.decide.policies.least_watts.pooling import blocks_of, weights_of, without_extremes
from collector.snapshot.columns import CPU, MEMORY, first_known, sum_by_node
from collector.snapshot.tables import NOWHERE, Snapshot, Tasks
from collector.snapshot.windows import TaskWindows, WindowTotals
from wire.resources import RESOURCES

WINDOW_SECONDS = 300.0
_USABLE = np.array([1.0, 0.95, 1.0, 1.0])
"""Share of a node's capacity that containers may use. With less than a twentieth of its memory free, a kernel
spends its time on reclaiming pages."""
_PUBLISHED_SHARES = np.array([0.25, 1.0, 0.25, 0.25])
"""Share of its reservation that a container uses, before any is observed. A production cluster used 20 % of
its CPUs while 80 % were reserved (Delimitrou and Kozyrakis, "Quasar", ASPLOS 2014). Memory counts in full: a
node without memory kills containers."""
_PUBLISHED_CONTAINERS = 3.0
"""Weight of the published shares. They lie between 10 % and 50 %, a deviation of 0.6 times their mean; the
shares of single containers deviate by about their mean. So three containers are as certain."""
_LONG_TERM_WINDOWS = 1.0
"""Weight of a container's long-term mean, or of an estimate from its reservation, in windows."""


@dataclass(frozen=True, eq=False)
class Shares:
    """The share of their reservations that containers use, per resource."""

    used: Floats
    requested: Floats
    containers: Floats
    """Number of containers that both sums are of."""

    def with_more(self, used: Floats, requested: Floats) -> "Shares":
        """The same with more containers, one per row, whose use is known."""
        reserves = requested > 0
        return Shares(
            self.used + np.where(reserves, used, 0.0).sum(axis=0),
            self.requested + requested.sum(axis=0),
            self.containers + reserves.sum(axis=0),
        )

    @property
    def ratios(self) -> Floats:
        """What an unobserved container is expected to use of its reservation."""
        observed = np.divide(
            self.used, self.requested, out=np.zeros_like(self.used), where=self.requested > 0
        )
        weighted = self.containers * observed + _PUBLISHED_CONTAINERS * _PUBLISHED_SHARES
        ratios: Floats = weighted / (self.containers + _PUBLISHED_CONTAINERS)
        ratios[MEMORY] = _PUBLISHED_SHARES[MEMORY]
        return ratios

    def reason(self) -> str:
        """What an unobserved container counts for, and where that comes from, for people."""
        counts = f"an unobserved container counts with {self.ratios[CPU]:.0%} of its CPU reservation"
        if not self.containers[CPU]:
            return f"{counts}: assumed until containers with a reservation are observed"
        return f"{counts}: learned from {counted(int(self.containers[CPU]), 'container')}"


@dataclass(frozen=True, eq=False)
class Usage:
    """Expected use, per container and per node."""

    expected: Floats
    """Per task and resource."""
    variance: Floats
    """Per task and resource. 0 for a task that was never observed: an estimate that turns out to be wrong is
    corrected after a window or two, which no margin has to cover."""
    windows: TaskWindows
    totals: WindowTotals
    is_observed: Flags
    """Tasks with at least one window."""
    block: Rows
    """The block of nodes that each task with windows belongs to; `NOWHERE` without windows."""
    shares: "Shares"
    constrains: Flags
    """Resources whose use at least one node or task reports; the others limit nothing."""

    @property
    def length(self) -> int:
        """The number of windows."""
        return self.totals.length

    def windows_of(self, tasks: Rows) -> Floats:
        """Per task, window and resource. A missing window has the expected use."""
        windows = self.windows.of_tasks(tasks)[:, len(self.windows) - self.length :].astype(np.float64)
        return np.where(np.isnan(windows), self.expected[tasks][:, None, :], windows)

    def mean_of_windows(self, place: int) -> Floats:
        """Per task: the mean of a resource over the windows, missing ones included."""
        count, total = self.totals.known[:, place], self.totals.sums[:, place]
        mean: Floats = (total + (self.length - count) * self.expected[:, place]) / self.length
        return mean


def learn_usage(snapshot: Snapshot) -> Usage:
    """The expected use of each container: the mean of its windows, or what containers like it use.

    Each resource is a column in one piece: with four of them in a row, numpy takes three times as long.
    """
    tasks = snapshot.tasks
    totals = _totals(tasks)
    block = _blocks(tasks, totals)
    shares = _shares(tasks, totals, block)
    used = snapshot.nodes.used, tasks.used
    constrains: Flags = np.any([np.isfinite(each).any(axis=0) for each in used], axis=0)
    observed = tasks.observed_seconds / WINDOW_SECONDS
    unobserved = np.flatnonzero((tasks.observed_seconds == 0) & (tasks.variance[:, 0] == 0))
    expected, variance = (np.zeros((len(tasks.ids), len(RESOURCES)), order="F") for _ in range(2))
    for place in range(len(RESOURCES)):
        count = totals.known[:, place]
        if constrains[place]:
            estimate = _known(tasks.envelope[:, place] if place == MEMORY else tasks.mean[:, place])
            # Only their reservations are known.
            estimate[unobserved] = _known(tasks.requested[unobserved, place]) * shares.ratios[place]
            if place == MEMORY:
                expected[:, place] = np.maximum(estimate, _known(tasks.used[:, place]))
            elif totals.length:
                weight = count / (count + _LONG_TERM_WINDOWS)
                recent = totals.sums[:, place] / np.maximum(count, 1.0)
                expected[:, place] = weight * recent + (1.0 - weight) * estimate
            else:
                expected[:, place] = estimate
        variance[:, place] = _variance(tasks.variance[:, place], expected[:, place], observed, count)
    return Usage(
        expected=expected,
        variance=variance,
        windows=tasks.windows,
        totals=totals,
        is_observed=totals.known[:, 0] > 0,
        block=block,
        shares=shares,
        constrains=constrains,
    )


def _known(column: Floats) -> Floats:
    """A copy of a column, with 0 for what is unknown."""
    return np.nan_to_num(column, nan=0.0)


def _totals(tasks: Tasks) -> WindowTotals:
    if len(tasks.windows):
        return tasks.windows.totals
    nothing = np.zeros((len(tasks.ids), len(RESOURCES)))
    return WindowTotals(0, nothing, nothing)


def _variance(variance: Floats, expected: Floats, observed: Floats, count: Floats) -> Floats:
    """The variance of each task, of which so many windows are observed, and so many are known.

    The square of its mean counts for one window, as of an exponential law.
    """
    square = np.square(expected)
    blended = (observed * variance + square) / (observed + 1.0)
    return np.where(observed > 0, blended, np.where(count > 0, square, variance))


def _blocks(tasks: Tasks, totals: WindowTotals) -> Rows:
    block: Rows = np.full(len(tasks.ids), NOWHERE, dtype=np.intp)
    rows = np.flatnonzero(np.any(totals.known > 0, axis=1))
    block[rows] = blocks_of(tasks.node[rows])
    return block


def _shares(tasks: Tasks, totals: WindowTotals, block: Rows) -> Shares:
    """What containers use of their reservations, pooled over the blocks without the extremes."""
    rows = np.flatnonzero(block != NOWHERE)
    count = totals.known[rows]
    asked = np.where(count > 0, _known(tasks.requested[rows]), 0.0)
    taken = np.where(asked > 0, totals.sums[rows] / np.maximum(count, 1.0), 0.0)
    blocks = int(block.max(initial=NOWHERE)) + 1
    used, requested, containers = (
        sum_by_node(block[rows], each, blocks) for each in (taken, asked, (asked > 0).astype(np.float64))
    )
    ratios = np.divide(used, requested, out=np.full_like(used, np.nan), where=requested > 0)
    shares = np.zeros((3, len(RESOURCES)))
    for place in range(len(RESOURCES)):
        kept = without_extremes(ratios[:, place])
        weights = weights_of(requested[:, place]) * kept
        shares[:2, place] = weights @ used[:, place], weights @ requested[:, place]
        shares[2, place] = (weights_of(containers[:, place]) * kept) @ containers[:, place]
    return Shares(*shares)


def usable(snapshot: Snapshot, usage: Usage) -> Floats:
    """What containers may use of each node; NaN where a resource is unknown, and so does not limit."""
    capacity = snapshot.nodes.capacity
    limited = (capacity > 0) & usage.constrains
    return np.where(limited, capacity * _USABLE, np.nan)


def node_sums(snapshot: Snapshot, usage: Usage) -> tuple[Floats, Floats]:
    """Expected use and variance of each node; pending tasks excluded."""
    node, count = snapshot.tasks.node, len(snapshot.nodes.names)
    return snapshot.cached(
        "node sums",
        lambda: (sum_by_node(node, usage.expected, count), sum_by_node(node, usage.variance, count)),
    )


def expected_shares(snapshot: Snapshot, usage: Usage) -> Floats:
    """The share of its reservation that a container of unknown use is expected to use."""

    def compute() -> Floats:
        pending = snapshot.pending
        known = pending.is_known
        ratios = usage.shares.with_more(pending.mean[known], pending.allocated[known]).ratios
        return np.where(usage.constrains, ratios, 0.0)

    return snapshot.cached_with_pending("expected shares", compute)


def pending_use(snapshot: Snapshot, shares: Floats) -> Floats:
    """What each pending task is expected to use.

    One of which only the reservation is known counts with the share that containers use of it.
    """
    pending = snapshot.pending
    return np.where(pending.is_known[:, None], pending.mean, pending.mean * shares)


def reported_use(snapshot: Snapshot) -> Floats:
    """What each node has reported: its use without pending tasks; 0 if it is unknown."""

    def compute() -> Floats:
        nodes = snapshot.nodes_without_pending
        if nodes is not None:
            return np.nan_to_num(nodes.used, nan=0.0)
        pending = snapshot.pending
        waiting = sum_by_node(pending.nodes, pending.mean, len(snapshot.nodes.names))
        return np.nan_to_num(snapshot.nodes.used, nan=0.0) - waiting

    return snapshot.cached("reported use", compute)


def pending_variance(snapshot: Snapshot, rows: Rows) -> Floats:
    """The variance of the pending tasks of some nodes."""
    return np.maximum(snapshot.nodes.variance[rows] - _task_variance(snapshot)[rows], 0.0)


def _task_variance(snapshot: Snapshot) -> Floats:
    """The variance of each node without pending tasks."""
    nodes, tasks = snapshot.nodes_without_pending, snapshot.tasks
    if nodes is not None:
        return nodes.variance
    count = len(snapshot.nodes.names)
    return snapshot.cached("task variance", lambda: sum_by_node(tasks.node, tasks.variance, count))


def sums_without_pending(snapshot: Snapshot, usage: Usage) -> tuple[Floats, Floats]:
    """Expected use and variance of each node, by its tasks and what it has reported; column-major."""

    def compute() -> tuple[Floats, Floats]:
        expected, variance = node_sums(snapshot, usage)
        total = np.fmax(expected, reported_use(snapshot))
        total[:, ~usage.constrains] = 0.0
        return np.asfortranarray(total), np.asfortranarray(variance)

    return snapshot.cached("expected sums", compute)


def sums_with_pending(snapshot: Snapshot, usage: Usage, shares: Floats) -> tuple[Floats, Floats]:
    """Expected use and variance of each node, pending tasks included; column-major."""

    def compute() -> tuple[Floats, Floats]:
        expected, variance = (each.copy(order="F") for each in sums_without_pending(snapshot, usage))
        rows, place = np.unique(snapshot.pending.nodes, return_inverse=True)
        use = sum_by_node(place, pending_use(snapshot, shares), rows.size)
        expected[rows] += np.where(usage.constrains, use, 0.0)
        variance[rows] += pending_variance(snapshot, rows)
        return expected, variance

    return snapshot.cached_with_pending("node sums", compute)


def request_need(request: Request, usage: Usage, shares: Floats) -> tuple[Floats, Floats]:
    """The expected use of the request and its variance; of memory, its envelope."""
    if not request.known and not any(request.variance):
        return np.array(first_known(request.reserve, request.demand)) * shares, np.zeros(len(RESOURCES))
    expected = np.array(request.likely_mean)
    expected[MEMORY] = request.likely_envelope[MEMORY]
    return np.where(usage.constrains, expected, 0.0), np.array(request.variance)
