"""What nodes need and what a request adds, tasks included that no node has reported yet."""

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.decide.policies.interface import Request
from collector.decide.policies.least_watts.usage import Usage, node_sums
from collector.snapshot.columns import MEMORY, first_known, sum_by_node
from collector.snapshot.tables import Snapshot
from wire.resources import RESOURCES


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
