"""The peers of this node, with the state of the probes to and from each."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from random import random

from wire.mesh import WINDOW_SECONDS, MeshPeer, PeerResult

_MAX_PROBES = 1000
_FIRST_PROBE_SECONDS = 0.3
_FIRST_REPLIES = 3
_SPREAD_SECONDS = 0.05
"""Per peer: the first probes to many new peers are not sent all at once."""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A probe that waits for its reply."""

    sequence: int
    sent_at: float
    """By the monotonic clock."""
    sent_unix_ns: int


@dataclass(slots=True)
class Peer:
    """A peer. Times are by the monotonic clock."""

    assigned: MeshPeer
    since: float
    """When its current key was received."""
    due_at: float
    """When the next request to it is due."""
    sequence: int = 0
    """Sequence number of the last request to it."""
    pending: ProbeRequest | None = None
    last_sequence: int = 0
    """Sequence number of the last valid request from it."""
    replies: float = 0.0
    """Recent replies to it, for the rate limit; decreases with time."""
    replied_at: float = 0.0
    answered: int = 0
    """Replies from it since it has this address."""
    probes: deque[tuple[float, float | None]] = field(default_factory=lambda: deque(maxlen=_MAX_PROBES))
    """Time and round-trip time of each, the oldest first; None if it was lost."""

    def result(self, now: float) -> PeerResult | None:
        """Percentiles and losses over the last five minutes; None without a probe."""
        while self.probes and self.probes[0][0] <= now - WINDOW_SECONDS:
            self.probes.popleft()
        if not self.probes:
            return None
        answered = sorted(seconds for _, seconds in self.probes if seconds is not None)
        median, high = _percentile(answered, 0.5), _percentile(answered, 0.95)
        return PeerResult(self.assigned.node, median, high, len(answered), len(self.probes) - len(answered))

    @property
    def is_settled(self) -> bool:
        """Whether it was measured often enough for one outlier not to matter."""
        return self.answered >= _FIRST_REPLIES


def _percentile(ordered: list[float], share: float) -> float | None:
    """The lowest value that this share of all values does not exceed."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


class Peers:
    """All peers of this node."""

    def __init__(self, chance: Callable[[], float] = random) -> None:
        self.chance = chance
        self.by_node: dict[str, Peer] = {}
        self._by_session: Mapping[int, Sequence[Peer]] = {}
        self.interval_seconds = 60.0

    def assign(self, assigned: Sequence[MeshPeer], now: float) -> None:
        """Replace the peers; those that stay keep their results."""
        spread_seconds = _SPREAD_SECONDS * len(assigned)
        before, self.by_node = self.by_node, {}
        for each in assigned:
            first_probe_at = now + _FIRST_PROBE_SECONDS + spread_seconds * self.chance()
            peer = before.get(each.node)
            if peer is None:
                peer = Peer(each, now, first_probe_at)
            elif peer.assigned != each:
                _update(peer, each, now, first_probe_at)
            self.by_node[each.node] = peer
        by_session: defaultdict[int, list[Peer]] = defaultdict(list)
        for peer in self.by_node.values():
            by_session[peer.assigned.session].append(peer)
        self._by_session = dict(by_session)

    def with_session(self, session: int) -> Sequence[Peer]:
        """The peers with a session number: several if a node claims that of another; their keys differ."""
        return self._by_session.get(session, ())

    def results(self, now: float) -> list[PeerResult]:
        return [each for peer in self.by_node.values() if (each := peer.result(now)) is not None]


def _update(peer: Peer, assigned: MeshPeer, now: float, first_probe_at: float) -> None:
    """Use a new key. A pending probe with the old key gets no reply, and does not count as lost."""
    if peer.assigned.session != assigned.session:
        # Its agent was restarted, and counts from the start.
        peer.last_sequence = 0
        peer.due_at = first_probe_at
    if (peer.assigned.host, peer.assigned.port) != (assigned.host, assigned.port):
        peer.probes.clear()
        peer.answered = 0
        peer.due_at = first_probe_at
    if peer.pending is not None:
        peer.pending, peer.due_at = None, first_probe_at
    peer.assigned, peer.since = assigned, now
