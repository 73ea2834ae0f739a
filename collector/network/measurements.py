"""Results of probes that nodes report, and the round-trip times of pairs. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wire.mesh import MAX_RESULTS, PeerResult

VALID_SECONDS = 600.0
"""Results are valid for this time. Agents repeat an unchanged result every four minutes."""

Pair = tuple[str, str]
"""Two nodes, by name."""


class Result(NamedTuple):
    """The result of a node's probes of a peer."""

    at: float
    """When the collector received it."""
    probes: PeerResult


Results = Mapping[str, Mapping[str, Result]]
"""By node and peer."""


class PairTimes(NamedTuple):
    """The round-trip times of a pair: the larger one of both directions."""

    p50_seconds: float
    p95_seconds: float
    lost_ratio: float
    forth_seconds: float | None
    """Median that the first node measured; None if it did not."""
    back_seconds: float | None


class Measurements:
    """The last result of each node to each of its peers."""

    def __init__(self) -> None:
        self._results: dict[str, dict[str, Result]] = {}
        self.version = 0

    def put(self, node: str, results: Iterable[PeerResult], now: float) -> None:
        """Replace results of a node; beyond `MAX_RESULTS` the oldest are dropped."""
        new = {each.peer: Result(now, each) for each in results if each.peer != node}
        if new:
            # A new dictionary: a thread may be reading the old one.
            before = self._results.get(node, {})
            merged = {peer: each for peer, each in before.items() if peer not in new} | new
            self._results[node] = dict(list(merged.items())[-MAX_RESULTS:])
            self.version += 1

    def drop_old(self, now: float) -> None:
        """Remove results that are no longer valid."""
        kept: dict[str, dict[str, Result]] = {}
        for node, results in self._results.items():
            valid = {peer: each for peer, each in results.items() if now - each.at <= VALID_SECONDS}
            if len(valid) != len(results):
                self.version += 1
            if valid:
                kept[node] = valid
        self._results = kept

    def copy(self) -> Results:
        """A copy of the current results."""
        return dict(self._results)


def pair_times(results: Results) -> dict[Pair, PairTimes]:
    """The times of all pairs with an answered probe; the first node of a pair is the first by name."""
    found: dict[Pair, PairTimes] = {}
    for node, peers in results.items():
        for peer in peers:
            pair = (node, peer) if node < peer else (peer, node)
            if pair not in found and (times := _times(results, *pair)) is not None:
                found[pair] = times
    return found


def _times(results: Results, node: str, peer: str) -> PairTimes | None:
    forth = _probes(results, node, peer)
    back = _probes(results, peer, node)
    both = [each for each in (forth, back) if each is not None]
    medians = [each.p50_seconds for each in both if each.p50_seconds is not None]
    p95s = [each.p95_seconds for each in both if each.p95_seconds is not None]
    if not medians:
        return None
    return PairTimes(
        p50_seconds=max(medians),
        p95_seconds=max(*medians, *p95s),
        lost_ratio=max(each.lost / max(1, each.lost + each.answered) for each in both),
        forth_seconds=forth.p50_seconds if forth is not None else None,
        back_seconds=back.p50_seconds if back is not None else None,
    )


def _probes(results: Results, node: str, peer: str) -> PeerResult | None:
    result = results.get(node, {}).get(peer)
    return None if result is None else result.probes
