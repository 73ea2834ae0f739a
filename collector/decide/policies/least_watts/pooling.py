"""Pools the observations of all nodes, so that no single node can distort a value that all share.

Nodes form blocks. Of each pooled value, the block with the lowest one and the block with the highest one are
left out, and no other counts for more than a typical one. So what remains is between the values of honest
blocks, whatever the nodes of one block report.
"""

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.snapshot.tables import NOWHERE

_MOST_BLOCKS = 10
"""Of ten blocks, a fifth of the evidence is left out."""
_NODES_PER_BLOCK = 2
"""Containers of several nodes, so that a block shows how those of different nodes vary together."""
_FEWEST_BLOCKS = 5
"""With fewer, most of the evidence would be left out."""


def blocks_of(node: Rows) -> Rows:
    """The block of each of some tasks, by their nodes; all are in one if there are too few nodes."""
    is_used = np.bincount(node - NOWHERE) > 0
    count = min(_MOST_BLOCKS, int(np.count_nonzero(is_used[1:])) // _NODES_PER_BLOCK)
    if count < _FEWEST_BLOCKS:
        return np.zeros(node.size, dtype=np.intp)
    blocks: Rows = ((np.cumsum(is_used) - 1) % count)[node - NOWHERE]
    return blocks


def without_extremes(values: Floats) -> Flags:
    """Which blocks count, by the value of each: all but the lowest and the highest; NaN is none."""
    known = np.flatnonzero(~np.isnan(values))
    kept: Flags = np.ones(values.size, dtype=np.bool_)
    if known.size >= _FEWEST_BLOCKS:
        order = known[np.argsort(values[known], kind="stable")]
        kept[order[[0, -1]]] = False
    return kept


def typical(sizes: Floats) -> float:
    """The size of a typical block, of those that have any evidence."""
    some = sizes[sizes > 0]
    return float(np.median(some)) if some.size else 0.0


def weights_of(sizes: Floats) -> Floats:
    """What the evidence of each block counts for, so that none counts for more than a typical one."""
    most = typical(sizes)
    return np.divide(most, sizes, out=np.ones_like(sizes), where=sizes > most)
