"""Response times of containers, as the agents of their nodes measure them. Any thread may call it.

Each container of a service has the same share in its result, however many requests its node reports: one that
lies changes no more than the share of the containers that it runs.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock

from wire.messages import MAX_PROBE_SECONDS, ContainerProbe
from wire.sketch import Sketch, bin_of, middle_of

_LATE_SECONDS = 60.0
"""Data that is this much older than the start of a period, and arrives after it, waited in a spool."""
_KEEP_SECONDS = 900.0
_MOST_BINS = 1000
"""Most bins of one histogram: fewer cover a microsecond to the longest timeout."""
_HIGHEST_BIN = bin_of(MAX_PROBE_SECONDS)
"""No request takes longer than the longest timeout."""
_BIN_BYTES, _PART_BYTES, _LETTER_BYTES = 100, 600, 4
_MOST_NODE_BYTES = 10 << 20
"""Memory for all histograms of a node: enough for those of 50 containers that are probed every second."""


@dataclass(frozen=True, slots=True)
class ResponseSummary:
    """The response times of a service in a period."""

    seconds: float
    """The requested quantile."""
    requests: int
    failed: int


@dataclass(frozen=True, slots=True)
class _Part:
    received_at: float
    made_at: float
    """By the clock of the node."""
    probe: ContainerProbe


class ResponseTimes:
    """The reported response times of the last minutes."""

    def __init__(self) -> None:
        self._parts: dict[str, deque[_Part]] = {}
        """By node, the oldest first."""
        self._bytes: Counter[str] = Counter()
        """Memory of all parts, by node."""
        self._lock = Lock()

    def add(self, node: str, probes: Iterable[ContainerProbe], received_at: float, made_at: float) -> int:
        """Add what a node reports, at a time by its clock; return how much of it exceeds its limits."""
        surplus = 0
        with self._lock:
            self._drop_old(node, received_at)
            parts = self._parts.setdefault(node, deque())
            for probe in probes:
                bins, size_bytes = probe.seconds.bins, _size_bytes(probe)
                is_absurd = len(bins) > _MOST_BINS or max(bins, default=0) > _HIGHEST_BIN
                if is_absurd or self._bytes[node] + size_bytes > _MOST_NODE_BYTES:
                    surplus += 1
                    continue
                parts.append(_Part(received_at, made_at, probe))
                self._bytes[node] += size_bytes
        return surplus

    def drop_old(self, now: float) -> None:
        """Forget nodes that reported no response times for long."""
        with self._lock:
            for node in list(self._parts):
                self._drop_old(node, now)

    def _drop_old(self, node: str, now: float) -> None:
        parts = self._parts.get(node, deque())
        while parts and now - parts[0].received_at > _KEEP_SECONDS:
            self._bytes[node] -= _size_bytes(parts.popleft().probe)
        if not parts:
            self._parts.pop(node, None)
            self._bytes.pop(node, None)

    def summary(self, containers: Mapping[str, str], since: float, quantile: float) -> ResponseSummary | None:
        """Summarize a service since a time, from its containers and their nodes; None without a request."""
        weights: dict[float, float] = {}
        requests = failed = 0
        with self._lock:
            for node in sorted(set(containers.values())):
                parts: defaultdict[str, list[ContainerProbe]] = defaultdict(list)
                for part in self._since(node, since):
                    if containers.get(part.probe.container) == node:
                        parts[part.probe.container].append(part.probe)
                for probes in parts.values():
                    count = sum(each.seconds.count for each in probes)
                    requests += count
                    failed += sum(min(each.failed, each.seconds.count) for each in probes)
                    for each in probes:
                        _add(weights, each.seconds, 1 / count if count else 0.0)
        value = _weighted_quantile(weights, quantile)
        return None if value is None else ResponseSummary(value, requests, failed)

    def _since(self, node: str, since: float) -> Iterator[_Part]:
        """The parts of a node since a time, without those that waited in a spool.

        Their age is measured by the clock of the node only, as its offset is unknown.
        """
        parts = self._parts.get(node)
        if not parts:
            return
        newest = parts[-1]
        made_since = newest.made_at - (newest.received_at - since) - _LATE_SECONDS
        yield from (each for each in parts if each.received_at > since and each.made_at > made_since)


def _size_bytes(probe: ContainerProbe) -> int:
    return _PART_BYTES + _LETTER_BYTES * len(probe.container) + _BIN_BYTES * len(probe.seconds.bins)


def _add(weights: dict[float, float], sketch: Sketch, weight: float) -> None:
    if sketch.zeros:
        weights[0.0] = weights.get(0.0, 0.0) + weight * sketch.zeros
    for index, count in sketch.bins.items():
        value = middle_of(index)
        weights[value] = weights.get(value, 0.0) + weight * count


def _weighted_quantile(weights: Mapping[float, float], quantile: float) -> float | None:
    """Return the smallest value that at least this share of the weight does not exceed."""
    wanted = quantile * sum(weights.values())
    below = 0.0
    for value in sorted(weights):
        below += weights[value]
        if below >= wanted * (1 - 1e-9):
            return value
    return None
