"""Clusters of near nodes. Pure."""

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage  # type: ignore[import-untyped]  # has no stubs
from scipy.spatial.distance import squareform  # type: ignore[import-untyped]  # has no stubs

from collector.snapshot.delays import Floats, Rows

_MIN_GAP = 2.0
"""Nodes of different clusters are at least twice as far from each other as the furthest of one."""
_SHORTEST_SECONDS = 1e-4
"""Shorter times are all near."""


def near_clusters(seconds: Floats) -> Rows:
    """The number of the cluster of each node, from 0, in the order of their first nodes.

    `seconds` are the round-trip times of all pairs; NaN is unknown, and far. The boundary is where the
    distance of clusters, merged one by one, grows most.
    """
    count = len(seconds)
    if count < 2:  # noqa: PLR2004 - one node has no pair
        return np.zeros(count, dtype=np.intp)
    known = seconds[~np.isnan(seconds)]
    unknown = 10 * max(float(known.max(initial=0.0)), _SHORTEST_SECONDS)
    table = np.where(np.isnan(seconds), unknown, np.maximum(seconds, _SHORTEST_SECONDS))
    np.fill_diagonal(table, 0.0)
    merges = linkage(squareform(table, checks=False), "average")
    heights = merges[:, 2]
    # All nodes as one cluster, unless there is a clear gap.
    growth = heights[1:] / np.maximum.accumulate(heights)[:-1]
    boundary = np.inf
    if len(growth) and growth.max() >= _MIN_GAP:
        place = int(growth.argmax())
        boundary = float(np.sqrt(heights[place] * heights[place + 1]))
    elif count == 2 and np.isnan(seconds[0, 1]):  # noqa: PLR2004 - a single pair
        boundary = 0.0
    labels = fcluster(merges, boundary, "distance")
    _, first, places = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.intp)
    number[np.argsort(first)] = np.arange(len(first))
    return number[places]
