"""Results of probes that nodes report, and the round-trip times of pairs. Pure."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from collector.common.arrays import Floats, Rows
from wire.mesh import MAX_RESULTS, PeerResult

VALID_SECONDS = 600.0
"""Results are valid for this time. Agents repeat an unchanged result every four minutes."""

_ASYMMETRY_RATIO, _ASYMMETRY_SECONDS = 1.25, 0.001
"""Both directions of a pair differ if one takes a quarter, and a millisecond, longer."""

Pair = tuple[str, str]
"""Two nodes, by name."""
DelayLabel = Literal["measured", "estimated", "unknown"]


class Result(NamedTuple):
    """The result of a node's probes of a peer."""

    at: float
    """When the collector received it."""
    probes: PeerResult


Results = Mapping[str, Mapping[str, Result]]
"""By node and peer."""


class RoundTrip(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The round-trip time between two nodes, over the last five minutes."""

    node: str
    peer: str
    kind: DelayLabel
    """Whether the time is measured, estimated from network coordinates, or unknown."""
    p50_seconds: float | None
    """Median, of both directions the larger one; null if unknown."""
    p95_seconds: float | None
    """95th percentile, of both directions the larger one; null if not measured."""
    lost_ratio: float | None
    """Share of probes without a response, of both directions the larger one; null if not measured."""
    forth_seconds: float | None
    """Median that `node` measures; null if it does not probe `peer`."""
    back_seconds: float | None
    """Median that `peer` measures; null if it does not probe `node`."""
    symmetric: bool | None
    """False if the two directions differ by more than a quarter and a millisecond; null if not measured."""

    def reversed(self) -> "RoundTrip":
        """The same as seen from the peer."""
        return msgspec.structs.replace(
            self,
            node=self.peer,
            peer=self.node,
            forth_seconds=self.back_seconds,
            back_seconds=self.forth_seconds,
        )


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


def pair_times(results: Results) -> dict[Pair, RoundTrip]:
    """The times of all pairs with an answered probe; the first node of a pair is the first by name."""
    found: dict[Pair, RoundTrip] = {}
    for node, peers in results.items():
        for peer in peers:
            pair = (node, peer) if node < peer else (peer, node)
            if pair not in found and (times := _times(results, *pair)) is not None:
                found[pair] = times
    return found


def median_columns(times: Mapping[Pair, RoundTrip], row: Mapping[str, int]) -> tuple[Rows, Floats]:
    """The pairs among the nodes with these rows, two columns, and their median times."""
    found = [pair for pair in times if pair[0] in row and pair[1] in row]
    pairs = np.array([(row[one], row[other]) for one, other in found], dtype=np.intp).reshape(-1, 2)
    return pairs, np.array([times[pair].p50_seconds for pair in found], dtype=np.float64)


def _times(results: Results, node: str, peer: str) -> RoundTrip | None:
    forth = _probes(results, node, peer)
    back = _probes(results, peer, node)
    both = [each for each in (forth, back) if each is not None]
    medians = [each.p50_seconds for each in both if each.p50_seconds is not None]
    p95s = [each.p95_seconds for each in both if each.p95_seconds is not None]
    if not medians:
        return None
    times = [None if each is None else each.p50_seconds for each in (forth, back)]
    return RoundTrip(
        node=node,
        peer=peer,
        kind="measured",
        p50_seconds=max(medians),
        p95_seconds=max(*medians, *p95s),
        lost_ratio=max(each.lost / max(1, each.lost + each.answered) for each in both),
        forth_seconds=times[0],
        back_seconds=times[1],
        symmetric=_is_symmetric(*times),
    )


def _is_symmetric(forth: float | None, back: float | None) -> bool:
    if forth is None or back is None:
        return True
    return max(forth, back) <= max(_ASYMMETRY_RATIO * min(forth, back), min(forth, back) + _ASYMMETRY_SECONDS)


def _probes(results: Results, node: str, peer: str) -> PeerResult | None:
    result = results.get(node, {}).get(peer)
    return None if result is None else result.probes
