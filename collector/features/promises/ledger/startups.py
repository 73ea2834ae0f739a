"""Start-up times, per service and for the whole cluster."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from math import ceil
from statistics import median_high
from struct import Struct

from collector.features.promises.ledger.instance_state import Startup

_PERCENTILE = 0.95
_ENTRY = Struct("<d?i")
"""A start-up time, whether it is on the same node, and its count."""


class StartupTimes:
    """Counts of start-up times, rounded to two digits: memory stays small, and the order does not matter."""

    def __init__(self, packed: bytes = b"") -> None:
        self._same_node: Counter[float] = Counter()
        self._other_node: Counter[float] = Counter()
        for seconds, is_same_node, count in _ENTRY.iter_unpack(packed):
            self._counts(is_same_node=is_same_node)[seconds] = count

    def pack(self) -> bytes:
        """All counts as bytes, which take little memory: a service has few different start-up times."""
        return b"".join(
            _ENTRY.pack(seconds, is_same_node, count)
            for is_same_node in (False, True)
            for seconds, count in self._counts(is_same_node=is_same_node).items()
        )

    def add(self, startups: Iterable[Startup]) -> None:
        for each in startups:
            self._counts(is_same_node=each.is_same_node)[_rounded(each.seconds)] += 1

    def remove(self, startups: Iterable[Startup]) -> None:
        """Remove start-up times that were added before."""
        for each in startups:
            counts, seconds = self._counts(is_same_node=each.is_same_node), _rounded(each.seconds)
            counts[seconds] -= 1
            if not counts[seconds]:
                del counts[seconds]

    def same_node(self) -> float | None:
        """The 95th percentile on the node that an instance ran on before; None if nothing was measured."""
        return _percentile(self._same_node)

    def other_node(self) -> float | None:
        """The 95th percentile on another node, or at the first start; None if nothing was measured."""
        return _percentile(self._other_node)

    @property
    def is_empty(self) -> bool:
        return not (self._same_node or self._other_node)

    def _counts(self, *, is_same_node: bool) -> Counter[float]:
        return self._same_node if is_same_node else self._other_node


class ClusterStartups:
    """Start-up times of all nodes, for services without any of their own.

    Nodes report these times, and some may lie: the result is the median over nodes.
    """

    def __init__(self) -> None:
        self._nodes: defaultdict[str, StartupTimes] = defaultdict(StartupTimes)
        self._by_node: dict[str, tuple[float | None, float | None]] = {}
        """For each node: the percentiles of starts on another and on the same node."""
        self._changed: set[str] = set()

    def add(self, startups: Iterable[Startup]) -> None:
        for each in startups:
            self._nodes[each.node].add([each])
            self._changed.add(each.node)

    def remove(self, startups: Iterable[Startup]) -> None:
        """Remove start-up times that were added before."""
        for each in startups:
            self._nodes[each.node].remove([each])
            self._changed.add(each.node)

    def other_node(self) -> float | None:
        """The median over nodes of `StartupTimes.other_node`."""
        return _median(other for other, _ in self._percentiles())

    def same_node(self) -> float | None:
        """The median over nodes of `StartupTimes.same_node`."""
        return _median(same for _, same in self._percentiles())

    def _percentiles(self) -> Iterable[tuple[float | None, float | None]]:
        for node in self._changed:
            times = self._nodes[node]
            self._by_node[node] = times.other_node(), times.same_node()
            if times.is_empty:
                del self._nodes[node], self._by_node[node]
        self._changed.clear()
        return self._by_node.values()


def _median(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return median_high(known) if known else None


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.2g}")


def _percentile(counts: Counter[float]) -> float | None:
    if not counts:
        return None
    rank = ceil(_PERCENTILE * counts.total())
    for seconds in sorted(counts):
        rank -= counts[seconds]
        if rank <= 0:
            return seconds
    raise AssertionError("a percentile is among the counted values")
