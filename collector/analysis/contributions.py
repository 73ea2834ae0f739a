"""How much each node contributes to what is known about a service.

A node reports what it likes: how many containers of a service it runs, for how long it observed them, and
what they use. So what it reports is one voice among those of the other nodes. A node counts with no more
containers, and for no longer time, than the median node of the service. One that claims far more use than the
other nodes does not count at all, and an alert names it.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np

from collector.analysis.envelopes import Statistic
from collector.common.arrays import Flags, Floats

MIN_NODES = 3
"""Of two nodes that differ, nobody knows which one is right."""
_QUARTILE = 0.75
FAR_OUT = 4.0
"""Tukey calls a value far out if it exceeds the third quartile by more than three times the distance of the
first and third quartile. Amounts are not negative, so that is at most four times the third quartile."""
_NEGLIGIBLE_RATIO = 0.01
"""Of the capacity of the median node: less than that decides nothing, however little other nodes use."""
_COMPARED = [Statistic.MEAN, Statistic.ENVELOPE]


def node_shares(seconds: Sequence[Sequence[float]]) -> list[float]:
    """The factor by which the time of each node counts, from the observed seconds of its containers."""
    times = [max(each, default=0.0) for each in seconds]
    counts = [sum(one > 0 for one in each) for each in seconds]
    observed = sorted(each for each in times if each > 0)
    if len(observed) < 2:  # noqa: PLR2004 - nothing to compare with
        return [1.0] * len(seconds)
    # Of two nodes, the one that observes the service for longer keeps its time: a new one cannot take it.
    longest = observed[len(observed) // 2]
    most = sorted(each for each in counts if each)[(len(observed) - 1) // 2]
    return [
        min(1.0, min(time, longest) * min(count, most) / sum(each)) if count else 1.0
        for time, count, each in zip(times, counts, seconds, strict=True)
    ]


def negligible_use(capacity: Floats) -> Floats:
    """The amount of each resource that decides nothing, from the capacities of nodes; infinite if unknown."""
    ordered = np.sort(capacity, axis=0)  # what is unknown comes last
    known = (~np.isnan(ordered)).sum(axis=0)
    if not len(ordered):
        return np.full(capacity.shape[1], np.inf)
    median = ordered[np.maximum(known - 1, 0) // 2, np.arange(ordered.shape[1])]
    return np.where(known > 0, _NEGLIGIBLE_RATIO * median, np.inf)


def outlying_nodes(
    statistics: Sequence[Sequence[Floats]],
    seconds: Sequence[Sequence[float]],
    negligible: Floats,
    ratio: float = FAR_OUT,
) -> Flags:
    """Which nodes claim far more use of a service than the others do.

    `statistics` and `seconds` are those of the containers of each node.
    """
    nodes = len(statistics)
    sizes = [len(each) for each in statistics]
    if nodes < MIN_NODES or not all(sizes):
        return np.zeros(nodes, dtype=np.bool_)
    found = np.array([one for each in statistics for one in each])[:, :, _COMPARED]
    weight = np.array([one for each in seconds for one in each])[:, None, None] * ~np.isnan(found)
    starts = np.concatenate(([0], np.cumsum(sizes[:-1])))
    total = np.add.reduceat(weight, starts)
    used = np.add.reduceat(weight * np.nan_to_num(found), starts)
    mean = np.divide(used, total, out=np.full_like(used, np.nan), where=total > 0).reshape(nodes, -1)
    is_far: Flags = mean > far_out(mean, ratio) + np.repeat(negligible, len(_COMPARED))
    return np.asarray(is_far.any(axis=1))


def far_out(values: Floats, ratio: float = FAR_OUT) -> Floats:
    """The value of each column beyond which one is far more than the others; infinite with too few rows."""
    if not len(values):
        return np.full(values.shape[1], np.inf)
    known = (~np.isnan(values)).sum(axis=0)
    # The quartile of the others: the highest of all is the one that is compared.
    places = [max(0, ceil(_QUARTILE * (each - 1)) - 1) for each in known.tolist()]
    quartile = np.sort(values, axis=0)[places, np.arange(values.shape[1])]  # what is unknown comes last
    return np.where(known >= MIN_NODES, ratio * quartile, np.inf)
