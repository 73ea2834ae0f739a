"""The choice of peers: which pairs of nodes measure each other. Pure.

In a small cluster, all pairs do. In a larger one, each node has few peers: random ones, which locate it in
the whole cluster, and near ones, which locate it among its neighbours.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np

from collector.common.arrays import Floats

MAX_FULL_MESH = 64
"""Number of nodes up to which all pairs are measured."""
MAX_PEERS = 20
_NEAR_PEERS = MAX_PEERS // 2
_CANDIDATES = 3 * _NEAR_PEERS
"""Near nodes that are considered. If one has enough peers, the next one is used."""

RowPair = tuple[int, int]
"""Rows of two nodes, the smaller one first."""


def choose_pairs(names: Sequence[str], near: Iterable[RowPair] = ()) -> set[RowPair]:
    """Choose the pairs that measure each other. Few pairs change when a node joins or leaves."""
    if len(names) <= MAX_FULL_MESH:
        return set(combinations(range(len(names)), 2))
    chosen = _Matching(len(names))
    random_pairs = list(_random_pairs(names))
    chosen.add(random_pairs, MAX_PEERS - _NEAR_PEERS)
    chosen.add(near, MAX_PEERS)
    chosen.add(random_pairs, MAX_PEERS)
    return chosen.pairs


def choose_near(count: int, times_from: Callable[[int], Floats]) -> list[RowPair]:
    """Choose pairs of nodes with a short round-trip time, the nearest peers of each node first."""
    ranked: list[tuple[int, float, RowPair]] = []
    nearest = min(_CANDIDATES, count - 1)
    for row in range(count):
        seconds = np.nan_to_num(times_from(row), nan=np.inf)
        seconds[row] = np.inf
        found = np.argpartition(seconds, nearest - 1)[:nearest]
        found = found[np.argsort(seconds[found], kind="stable")]
        ranked += [
            (rank, float(seconds[other]), (min(row, other), max(row, other)))
            for rank, other in enumerate(found.tolist())
            if np.isfinite(seconds[other])
        ]
    matching = _Matching(count)
    matching.add((pair for _, _, pair in sorted(ranked)), _NEAR_PEERS)
    return sorted(matching.pairs)


class _Matching:
    """Pairs, with a maximum number per node."""

    def __init__(self, count: int) -> None:
        self.pairs: set[RowPair] = set()
        self._peers = [0] * count

    def add(self, pairs: Iterable[RowPair], max_peers: int) -> None:
        for pair in pairs:
            one, other = pair
            if pair not in self.pairs and max(self._peers[one], self._peers[other]) < max_peers:
                self.pairs.add(pair)
                self._peers[one] += 1
                self._peers[other] += 1


def _random_pairs(names: Sequence[str]) -> Iterator[RowPair]:
    """Neighbours on rings, whose orders are pseudo-random and depend only on the names."""
    for ring in range(MAX_PEERS // 2):
        salt = bytes([ring])
        places = [hashlib.blake2b(name.encode(), digest_size=8, salt=salt).digest() for name in names]
        order = sorted(range(len(names)), key=places.__getitem__)
        for one, other in zip(order, order[1:] + order[:1], strict=True):
            yield min(one, other), max(one, other)
