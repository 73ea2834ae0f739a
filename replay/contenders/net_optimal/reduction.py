"""Nodes that the best placement does not need, since enough others are better in every way."""

import numpy as np

from collector.common.arrays import Flags, Rows
from collector.policies.net.problem import Counts, Problem
from replay.contenders.net_optimal.program import groups

_ROUNDING = 1e-9


def needed_nodes(problem: Problem, best: Counts | None) -> Rows:
    """Return the nodes that suffice for a placement with the lowest F, given a good one if there is any.

    A node is better than another one if it has the same neighbours, no less of anything, and no image less.
    If there are as many better ones as a placement can use, one of them is free, and takes all its pods.
    """
    better = _is_better(problem)
    better[problem.used] = False
    is_needed = better.sum(axis=0) < _most_nodes(problem, best)
    return np.flatnonzero(is_needed | problem.used)


def _is_better(problem: Problem) -> Flags:
    """Return which nodes (rows) are better than which (columns); of equal ones, the first."""
    group, _ = groups(problem)
    better = group[:, np.newaxis] == group
    worse = better.copy()
    for column in (*problem.free.T, *problem.allowed.astype(np.float64), *-problem.absent.astype(np.float64)):
        better &= column[:, np.newaxis] >= column
        worse &= column[:, np.newaxis] <= column
    is_equal = better & worse
    first = np.arange(len(group))[:, np.newaxis] < np.arange(len(group))
    return np.asarray(better & (~is_equal | first))


def _most_nodes(problem: Problem, best: Counts | None) -> int:
    """Return how many nodes a placement can add to those in use that is no worse than the best one known."""
    most = int(problem.counts.sum())
    if best is None:
        return most
    with_image = np.where(problem.absent, 0, problem.room).sum(axis=1)
    absent = int(np.maximum(problem.counts - with_image, 0).sum())
    left = problem.objective(best).value - absent * problem.absent_weight
    in_use = int(np.floor(left / problem.node_weight + 1 + _ROUNDING))
    return min(max(in_use - int(problem.used.sum()), 1), most)
