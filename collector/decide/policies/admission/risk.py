"""The probability that nodes are short of a resource in a window of five minutes.

It comes from the distribution of use: the mean and variance of the containers on a node, how far containers
vary together, and how often full nodes exceed their mean, all learned by `least-watts` from the windows of
the cluster. Use never exceeds the capacity, so a node counts as short from nearly all of it on: here, and
where the windows that follow are compared with the prediction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.decide.policies.interface import Request
from collector.decide.policies.least_watts.cluster import FULL_RATIO
from collector.decide.policies.least_watts.margins import Margins, Tail, learn
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.decide.policies.least_watts.usage import (
    Usage,
    expected_shares,
    node_sums,
    pending_use,
    pending_variance,
    reported_use,
    request_need,
    usable,
)
from collector.snapshot.columns import MEMORY, coalesce, sum_by_node
from collector.snapshot.tables import Snapshot
from wire.resources import RESOURCES

_SETTINGS = LeastWattsSettings()
"""The margins do not depend on the policy that asks."""
_NOTHING = np.zeros(len(RESOURCES))
_LEAST_VARIANCE = 1e-18
"""Stands for a variance of 0."""


def shortage_probability(
    snapshot: Snapshot,
    request: Request | None = None,
    rows: Rows | None = None,
    leaving: Sequence[int] = (),
) -> Floats:
    """Per node, or per node of `rows`: the probability that any resource is short in a window.

    With a request or without, and without the tasks that are `leaving` the only node; 0 for a resource whose
    capacity is unknown. A node whose expected use exceeds its limit is short for certain: so the probability
    grows with the demand of the request, whatever its variance.
    """
    outlook = snapshot.cached_with_pending("outlook", lambda: _with_pending(snapshot))
    margins = outlook.margins
    more, more_variance = _NOTHING, _NOTHING
    if request is not None:
        more, more_variance = request_need(request, outlook.usage, outlook.shares)
    if leaving:
        usage, gone = outlook.usage, np.array(leaving, dtype=np.intp)
        expected = usage.expected[gone]
        if usage.length:
            expected[:, MEMORY] = usage.mean_of_windows(MEMORY)[gone]
        more = more - expected.sum(axis=0)
        more_variance = more_variance - usage.variance[gone].sum(axis=0)
    suffices = np.ones(len(outlook.room) if rows is None else rows.size)
    for place in np.flatnonzero(outlook.usage.constrains).tolist():
        if more[place] or more_variance[place]:
            room = _some(outlook.room[:, place], rows) - more[place]
            strays = more_variance[place] * margins.together[place]
            variance = np.maximum(_some(outlook.variance[:, place], rows) + strays, _LEAST_VARIANCE)
            short = _share_short(margins.tails[place], room, variance)
        else:
            short = _some(outlook.short(place), rows)
        suffices *= 1.0 - short
    return 1.0 - suffices


def _some(column: Floats, rows: Rows | None) -> Floats:
    return column if rows is None else column.take(rows)


@dataclass(frozen=True, eq=False, slots=True)
class _Outlook:
    """Nodes without a request, per resource; column-major."""

    usage: Usage
    margins: Margins
    shares: Floats
    """As `expected_shares` returns them."""
    room: Floats
    """What the mean use leaves; infinite where it is unknown."""
    variance: Floats
    """Never 0, so that its root can be divided by."""
    short_before: Floats
    """Share of the windows that are short, without pending tasks."""
    pending_rows: Rows
    """The nodes with pending tasks: few."""

    def short(self, place: int) -> Floats:
        """Share of the windows that are short of a resource."""
        short, rows = self.short_before[:, place].copy(), self.pending_rows
        short[rows] = _share_short(
            self.margins.tails[place], self.room[rows, place], self.variance[rows, place]
        )
        return short


def _share_short(tail: Tail, room: Floats, variance: Floats) -> Floats:
    short = tail.share_above_at_most(room / np.sqrt(variance))
    np.putmask(short, room < 0, 1.0)
    return short


def limits(snapshot: Snapshot, usage: Usage) -> Floats:
    """The use of each node from which on it is short; NaN where that is unknown."""
    return FULL_RATIO * snapshot.cached("usable", lambda: usable(snapshot, usage))


def was_short(snapshot: Snapshot, bucket: int) -> tuple[Flags, Flags]:
    """Per node: whether its use in a bucket of the history is known, and whether a resource was short."""
    usage, _ = learn(snapshot, _SETTINGS)
    ratios = snapshot.nodes.history[:, bucket]
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = limits(snapshot, usage) / snapshot.nodes.capacity
    known: Flags = np.any(np.isfinite(ratios), axis=1)
    short: Flags = np.any(ratios > bounds, axis=1)
    return known, short


def _with_pending(snapshot: Snapshot) -> _Outlook:
    usage, margins = learn(snapshot, _SETTINGS)
    shares = expected_shares(snapshot, usage)
    room, variance, short = snapshot.cached("outlook", lambda: _without_pending(snapshot, usage, margins))
    rows = np.unique(snapshot.pending.nodes)
    if rows.size:
        room, variance = room.copy(order="F"), variance.copy(order="F")
        for of_nodes, use in zip(room.T, pending_use(snapshot, shares).T, strict=True):
            np.subtract.at(of_nodes, snapshot.pending.nodes, use)
        variance[rows] += pending_variance(snapshot, rows) * margins.together
    return _Outlook(usage, margins, shares, room, variance, short, rows)


def _without_pending(snapshot: Snapshot, usage: Usage, margins: Margins) -> tuple[Floats, Floats, Floats]:
    """The room, variance and shortages of `_Outlook`, by the containers and the system of each node.

    Of memory too the mean counts; `least-watts` adds up envelopes there.
    """
    tasks, count = snapshot.tasks, len(snapshot.nodes.names)
    mean, variance = node_sums(snapshot, usage)
    if usage.length:
        mean = mean.copy(order="F")
        memory = usage.mean_of_windows(MEMORY)[:, None]
        mean[:, [MEMORY]] = sum_by_node(tasks.node, memory, count)
    of_tasks = sum_by_node(tasks.node, coalesce(tasks.used, tasks.mean), count)
    system = np.maximum(reported_use(snapshot) - of_tasks, 0.0)
    left = limits(snapshot, usage) - mean - system
    room = np.asfortranarray(np.where(np.isnan(left), np.inf, left))
    variance = np.asfortranarray(np.maximum(variance * margins.together, _LEAST_VARIANCE))
    short = np.zeros_like(room)
    for place, tail in enumerate(margins.tails):
        short[:, place] = _share_short(tail, room[:, place], variance[:, place])
    return room, variance, short
