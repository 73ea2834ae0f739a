"""The probability that nodes are short of a resource in a window of five minutes.

It comes from the distribution of use: the mean and variance of the containers on a node, how far containers
vary together, and how often full nodes exceed their mean, all learned by `least-watts` from the windows of
the cluster. Use never exceeds the capacity, so a node counts as short from nearly all of it on: here, and
where the windows that follow are compared with the prediction.
"""

from dataclasses import dataclass

import numpy as np

from collector.policies.interface import Request
from collector.policies.least_watts.cluster import FULL_RATIO
from collector.policies.least_watts.margins import Margins, Tail
from collector.policies.least_watts.need import (
    expected_shares,
    pending_use,
    pending_variance,
    reported_use,
    request_need,
)
from collector.policies.least_watts.outlook import learned
from collector.policies.least_watts.settings import LeastWattsSettings
from collector.policies.least_watts.usage import Usage, node_sums, usable
from collector.policies.outlook import MEMORY
from collector.snapshot.columns import best_guess, sum_by_node
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import Flags, Snapshot
from wire.resources import RESOURCES

_SETTINGS = LeastWattsSettings()
"""The margins do not depend on the policy that asks."""
_NOTHING = np.zeros(len(RESOURCES))
_LEAST_VARIANCE = 1e-18
"""Stands for none."""


def shortage_probability(
    snapshot: Snapshot, request: Request | None = None, rows: Rows | None = None
) -> Floats:
    """Per node, or per node of `rows`: the probability that any resource is short in a window.

    With a request or without; 0 for a resource whose capacity is unknown. A node whose expected use exceeds
    its limit is short for certain: so the probability grows with the demand of the request, whatever its
    variance.
    """
    usage, margins = learned(snapshot, _SETTINGS)
    shares = expected_shares(snapshot, usage)
    outlook = snapshot.cached_with_pending("outlook", lambda: _with_pending(snapshot, usage, shares, margins))
    more, more_variance = _NOTHING, _NOTHING
    if request is not None:
        more, more_variance = request_need(request, usage, shares)
    suffices = np.ones(len(outlook.room) if rows is None else rows.size)
    for place in np.flatnonzero(usage.constrains).tolist():
        if more[place] or more_variance[place]:
            room = _column(outlook.room, place, rows) - more[place]
            variance = _column(outlook.variance, place, rows) + more_variance[place] * margins.together[place]
            short = _share_short(margins.tails[place], room, variance)
        else:
            short = _column(outlook.short, place, rows)
        suffices *= 1.0 - short
    return 1.0 - suffices


def _column(table: Floats, place: int, rows: Rows | None) -> Floats:
    column = table[:, place]
    return column if rows is None else column.take(rows)


@dataclass(frozen=True, eq=False, slots=True)
class _Outlook:
    """Nodes without a request, per resource; column-major."""

    room: Floats
    """What the mean use leaves; infinite where it is unknown."""
    variance: Floats
    """Never 0, so that its root can be divided by."""
    short: Floats
    """Share of the windows that are short."""


def _share_short(tail: Tail, room: Floats, variance: Floats) -> Floats:
    short = tail.share_above_at_most(room / np.sqrt(variance))
    np.putmask(short, room < 0, 1.0)
    return short


def limits(snapshot: Snapshot, usage: Usage) -> Floats:
    """The use of each node from which on it is short; NaN where that is unknown."""
    return FULL_RATIO * snapshot.cached("usable", lambda: usable(snapshot, usage))


def was_short(snapshot: Snapshot, slot: int) -> tuple[Flags, Flags]:
    """Per node: whether its use in a slot of the history is known, and whether a resource was short."""
    usage, _ = learned(snapshot, _SETTINGS)
    ratios = snapshot.nodes.history[:, slot]
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = limits(snapshot, usage) / snapshot.nodes.capacity
    known: Flags = np.any(np.isfinite(ratios), axis=1)
    short: Flags = np.any(ratios > bounds, axis=1)
    return known, short


def _with_pending(snapshot: Snapshot, usage: Usage, shares: Floats, margins: Margins) -> _Outlook:
    outlook = snapshot.cached("outlook", lambda: _without_pending(snapshot, usage, margins))
    if not snapshot.pending.nodes.size:
        return outlook
    # Few nodes have pending tasks.
    rows = np.unique(snapshot.pending.nodes)
    room, variance, short = (each.copy(order="F") for each in (outlook.room, outlook.variance, outlook.short))
    for of_nodes, use in zip(room.T, pending_use(snapshot, shares).T, strict=True):
        np.subtract.at(of_nodes, snapshot.pending.nodes, use)
    variance[rows] += pending_variance(snapshot, rows) * margins.together
    for place, tail in enumerate(margins.tails):
        short[rows, place] = _share_short(tail, room[rows, place], variance[rows, place])
    return _Outlook(room, variance, short)


def _without_pending(snapshot: Snapshot, usage: Usage, margins: Margins) -> _Outlook:
    """The outlook of the containers and the system of each node.

    Of memory too the mean counts; `least-watts` adds up envelopes there.
    """
    tasks, count = snapshot.tasks, len(snapshot.nodes.names)
    mean, variance = node_sums(snapshot, usage)
    if usage.length:
        mean = mean.copy(order="F")
        memory = usage.mean_of_windows(MEMORY)[:, None]
        mean[:, [MEMORY]] = sum_by_node(tasks.node, memory, count)
    of_tasks = sum_by_node(tasks.node, best_guess(tasks.used, tasks.mean), count)
    system = np.maximum(reported_use(snapshot) - of_tasks, 0.0)
    left = limits(snapshot, usage) - mean - system
    room = np.asfortranarray(np.where(np.isnan(left), np.inf, left))
    variance = np.asfortranarray(np.maximum(variance * margins.together, _LEAST_VARIANCE))
    short = np.zeros_like(room)
    for place, tail in enumerate(margins.tails):
        short[:, place] = _share_short(tail, room[:, place], variance[:, place])
    return _Outlook(room, variance, short)
