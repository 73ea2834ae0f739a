"""Clusters of near nodes, by round-trip time. Pure."""

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.network.components import Components

_MIN_GAP = 2.0
"""Minimum ratio of the distance between two clusters and the distance of neighbours within one."""
_SHORTEST_SECONDS = 1e-4
"""Shorter times count as this time."""
_UNKNOWN_FACTOR = 10.0


def near_clusters(seconds: Floats) -> Rows:
    """The number of the cluster of each node, from 0, in the order of their first nodes.

    `seconds` are the round-trip times of all pairs; NaN is unknown, and counts as far. Links of a minimum
    spanning tree are sorted by time and cut at the largest relative gap: the shorter links connect clusters.
    """
    count = len(seconds)
    known = seconds[~np.isnan(seconds)]
    longest = max(float(known.max(initial=0.0)), _SHORTEST_SECONDS)
    table = np.where(np.isnan(seconds), _UNKNOWN_FACTOR * longest, np.maximum(seconds, _SHORTEST_SECONDS))
    links, lengths = _spanning_tree(table)
    order = np.argsort(lengths, kind="stable")
    links, lengths = links[order], lengths[order]
    growth = lengths[1:] / lengths[:-1]
    kept = len(lengths)
    if len(growth) and growth.max() >= _MIN_GAP:
        kept = int(growth.argmax()) + 1
    elif count == 2 and np.isnan(seconds[0, 1]):  # noqa: PLR2004 - a single pair has no gap
        kept = 0
    components = Components(count)
    components.join(links[:kept].tolist())
    return components.labels()


def _spanning_tree(table: Floats) -> tuple[Rows, Floats]:
    """The links of a tree with the shortest total length, and their lengths (Prim)."""
    count = len(table)
    links, lengths = np.empty((max(0, count - 1), 2), dtype=np.intp), np.empty(max(0, count - 1))
    distance, nearest = np.full(count, np.inf), np.zeros(count, dtype=np.intp)
    outside = np.ones(count, dtype=np.bool_)
    added = 0
    for place in range(count - 1):
        outside[added] = False
        closer = outside & (table[added] < distance)
        distance[closer], nearest[closer] = table[added][closer], added
        added = int(np.where(outside, distance, np.inf).argmin())
        links[place], lengths[place] = (nearest[added], added), distance[added]
    return links, lengths
