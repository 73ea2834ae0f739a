"""ge-kube's integer linear program as sparse constraints.

Variables: x, the pods of a kind on a node; z, whether a node is in use; y, whether kinds that talk to the
same kinds use a group of nodes. Nodes with the same neighbours are one group, so that the bound needs a
constraint for each pair of groups and not of nodes.
"""

import numpy as np
from scipy.optimize import LinearConstraint  # type: ignore[import-untyped]  # has no stubs
from scipy.sparse import coo_array  # type: ignore[import-untyped]  # has no stubs

from collector.common.arrays import Flags, Floats, Rows
from collector.features.network.applications.problem import Counts, Problem

_ROUNDING = 1e-9


class Program:
    """The program of a problem: minimise `costs` of variables between 0 and `upper`, all integers."""

    def __init__(self, problem: Problem, group: Rows, conflict: Flags) -> None:
        """Groups of nodes are as `groups` returns them."""
        self._problem, self._group, self._conflict = problem, group, conflict
        self._kind, self._node = np.nonzero(problem.room)
        self._most = problem.room[self._kind, self._node].astype(np.float64)
        self._nodes = np.arange(len(problem.nodes))
        self._x = np.arange(len(self._kind))
        self._z = len(self._x) + self._nodes
        self._talker = _talkers(problem)
        talkers = int(self._talker.max(initial=0)) + 1
        first_y = len(self._x) + len(self._z)
        self._y = first_y + np.arange(talkers * len(self._conflict)).reshape(talkers, -1)
        count = first_y + (self._y.size if self._conflict.any() else 0)
        self.upper = np.concatenate((self._most, np.ones(count - len(self._x))))
        self.costs = np.zeros(count)
        self.costs[self._x] = problem.absent_weight * problem.absent[self._kind, self._node]
        self.costs[self._z] = np.where(problem.used, 0.0, problem.node_weight)

    def placed(self, values: Floats) -> Counts:
        """Return the placement that the values of the variables stand for."""
        placed = np.zeros(self._problem.allowed.shape, dtype=np.int64)
        placed[self._kind, self._node] = np.rint(values[self._x]).astype(np.int64)
        return placed

    def constraints(self) -> list[LinearConstraint]:
        counts = self._problem.counts
        every_pod = self._matrix(self._kind, self._x, np.ones(len(self._x)), len(counts))
        constraints = [LinearConstraint(every_pod, counts, counts), *self._room(), self._opened()]
        if self._conflict.any():
            constraints += [self._grouped(), *self._apart()]
        return constraints

    def _matrix(self, row: Rows, column: Rows, value: Floats, rows: int) -> coo_array:
        return coo_array((value, (row, column)), shape=(rows, len(self.costs))).tocsr()

    def _at_most(
        self,
        first: tuple[Rows, Rows, Floats],
        second: tuple[Rows, Rows, Floats],
        high: float | Floats,
        rows: int,
    ) -> LinearConstraint:
        """Return constraints on the sum of two sets of terms: rows, variables and factors."""
        row, column, value = (np.concatenate(both) for both in zip(first, second, strict=True))
        return LinearConstraint(self._matrix(row, column, value, rows), -np.inf, high)

    def _room(self) -> list[LinearConstraint]:
        """The pods of a node take no more than it has, and nothing if it is not in use."""
        constraints = []
        for size, free in zip(self._problem.sizes.T, self._problem.free.T, strict=True):
            # The solver has absolute tolerances: bytes would be too large for them.
            unit = max(float(size.max(initial=0.0)), _ROUNDING)
            limit = np.maximum(free, 0.0) / unit * (1 + _ROUNDING)
            taken = self._node, self._x, size[self._kind] / unit
            constraints.append(self._at_most(taken, (self._nodes, self._z, -limit), 0.0, len(self._nodes)))
        return constraints

    def _opened(self) -> LinearConstraint:
        """Pods of a kind are on a node only if it is in use: implied by the room, but sharper."""
        pods = self._x, self._x, np.ones(len(self._x))
        return self._at_most(pods, (self._x, self._z[self._node], -self._most), 0.0, len(self._x))

    def _grouped(self) -> LinearConstraint:
        """A node is in use, or runs a kind, only if its group is used."""
        if len(self._y) == 1:
            ones = np.ones(len(self._nodes))
            uses = self._nodes, self._z, ones
            return self._at_most(uses, (self._nodes, self._y[0, self._group], -ones), 0.0, len(ones))
        group = self._y[self._talker[self._kind], self._group[self._node]]
        pods = self._x, self._x, np.ones(len(self._x))
        return self._at_most(pods, (self._x, group, -self._most), 0.0, len(self._x))

    def _apart(self) -> list[LinearConstraint]:
        """Kinds that talk do not use groups that are too far from each other."""
        constraints = []
        one, other = np.nonzero(self._conflict)
        first = [int(np.flatnonzero(self._talker == each)[0]) for each in range(len(self._y))]
        for a, b in np.argwhere(np.triu(self._problem.talks[np.ix_(first, first)])).tolist():
            once = one < other if a == b else np.ones(len(one), dtype=np.bool_)
            pairs = int(once.sum())
            row, ones = np.arange(pairs), np.ones(pairs)
            near, far = self._y[a, one[once]], self._y[b, other[once]]
            constraints.append(self._at_most((row, near, ones), (row, far, ones), 1.0, pairs))
        return constraints


def _talkers(problem: Problem) -> Rows:
    """Return a number for each kind, the same for kinds that talk to the same kinds."""
    _, number = np.unique(problem.talks, axis=0, return_inverse=True)
    return np.asarray(number.reshape(-1), dtype=np.intp)
