"""Groups of connected nodes, and shortest paths between nodes. Pure, and without scipy's 30 MB of memory."""

from collections.abc import Iterable

import numpy as np

from collector.common.arrays import Floats, Rows


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
