"""Groups of connected nodes, shortest paths, clusters of near nodes. Pure; without scipy's 30 MB."""

from collections.abc import Iterable

import numpy as np

from collector.common.arrays import Floats, Rows

_MIN_GAP = 2.0
"""Minimum ratio of the distance between two clusters and the distance of neighbours within one."""
_SHORTEST_SECONDS = 1e-4
"""Shorter times count as this time."""
_UNKNOWN_FACTOR = 10.0


class Components:
    """Groups of rows that are connected by pairs."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))
        self.count = count
        """Number of groups."""

    def join(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Connect the groups of each pair."""
        for one, other in pairs:
            first, second = self._root(one), self._root(other)
            if first != second:
                self._parent[max(first, second)] = min(first, second)
                self.count -= 1

    def labels(self) -> Rows:
        """The group of each row, numbered from 0 in the order of their first rows."""
        roots = [self._root(row) for row in range(len(self._parent))]
        _, labels = np.unique(roots, return_inverse=True)
        return labels.astype(np.intp)

    def _root(self, row: int) -> int:
        parent = self._parent
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row


def shortest_paths(sources: Rows, count: int, pairs: Rows, seconds: Floats) -> Floats:
    """Lengths of the shortest paths from some nodes to all: a row per source. All nodes are connected."""
    near, far = np.concatenate((pairs, pairs[:, ::-1])).T
    length = np.concatenate((seconds, seconds))
    order = np.argsort(far, kind="stable")
    near, far, length = near[order], far[order], length[order]
    starts = np.flatnonzero(np.diff(far, prepend=-1))
    targets = far[starts]
    paths = np.full((len(sources), count), np.inf)
    paths[np.arange(len(sources)), sources] = 0.0
    while True:
        # Bellman-Ford for all sources at once. It takes few rounds, as the graph has short paths.
        through = np.minimum.reduceat(paths[:, near] + length, starts, axis=1)
        if not (through < paths[:, targets]).any():
            return paths
        paths[:, targets] = np.minimum(paths[:, targets], through)


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
