"""The choice of peers: which pairs of nodes measure each other. Pure.

In a small cluster, all pairs do. In a larger one, each node has few peers: random ones, which locate it in
the whole cluster, and near ones, which locate it among its neighbours.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from collector.common.arrays import Floats

MAX_FULL_MESH = 64
"""Number of nodes up to which all pairs are measured."""
MAX_PEERS = 20
_NEAR_PEERS = MAX_PEERS // 2
_CANDIDATES = 3
"""Candidates per peer. If a candidate has enough peers, the next one is used."""

RowPair = tuple[int, int]
"""Rows of two nodes, the smaller one first."""


def choose_pairs(names: Sequence[str], near: Iterable[RowPair] = ()) -> set[RowPair]:
    """Choose the pairs that measure each other. Few pairs change when a node joins or leaves."""
    count = len(names)
    if count <= MAX_FULL_MESH:
        return {(one, other) for one in range(count) for other in range(one + 1, count)}
    chosen = _Matching(count)
    random_pairs = _random_pairs(names)
    chosen.add(random_pairs, MAX_PEERS - _NEAR_PEERS)
    chosen.add(near, MAX_PEERS)
    chosen.add(random_pairs, MAX_PEERS)
    return chosen.pairs


def choose_near(count: int, times_from: Callable[[int], Floats]) -> list[RowPair]:
    """Choose pairs of nodes with a short round-trip time, the nearest peers of each node first."""
    ranked: list[tuple[int, float, RowPair]] = []
    nearest = min(_CANDIDATES * _NEAR_PEERS, count - 1)
    for row in range(count):
        seconds = np.where(np.isnan(times_from(row)), np.inf, times_from(row))
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


def _random_pairs(names: Sequence[str]) -> list[RowPair]:
    """Pairs in a pseudo-random order that depends only on their names."""
    hashes = np.array(
        [int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") for name in names],
        dtype=np.uint64,
    )
    count = len(names)
    candidates = min(_CANDIDATES * MAX_PEERS, count - 1)
    ranked: dict[RowPair, int] = {}
    for row in range(count):
        score = _mix(hashes ^ hashes[row])
        score[row] = np.iinfo(np.uint64).max
        found = np.argpartition(score, candidates - 1)[:candidates]
        for other, each in zip(found.tolist(), score[found].tolist(), strict=True):
            ranked[min(row, other), max(row, other)] = each
    return sorted(ranked, key=ranked.__getitem__)


def _mix(values: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The finalizer of SplitMix64: each input bit changes half of the output bits."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))
