"""Sends probe requests to peers, measures the round-trip times by their replies, and replies to theirs."""

import time
from collections.abc import Callable
from random import random

from agent.features.mesh.packets import (
    MAX_HELD_MICROSECONDS,
    MAX_SEQUENCE,
    REPLY,
    REQUEST,
    Packet,
    encode_packet,
    has_valid_tag,
)
from agent.features.mesh.peers import Peer, Peers, ProbeRequest
from wire.mesh import MAX_ROUND_TRIP_SECONDS

Send = Callable[[bytes, Peer], None]

_FRESH_SECONDS = 15.0
"""A peer may receive the key of the pair a little later; until then, a missing reply is no loss."""
_RETRY_SECONDS = 2.0
_JITTER = 0.1
_IDLE_SECONDS = 60.0
_REPLIES_PER_SECOND = 1.0
_MAX_REPLIES = 5.0
"""Burst of replies to one peer; an honest one sends far fewer requests."""


class Prober:
    """Sends the probe requests of this node."""

    def __init__(
        self,
        session: int,
        peers: Peers,
        send: Send,
        *,
        unix_ns: Callable[[], int] = time.time_ns,
        chance: Callable[[], float] = random,
    ) -> None:
        self._session = session
        self._peers = peers
        self._send = send
        self._unix_ns = unix_ns
        self._chance = chance
        self.flooded_at = float("-inf")
        """When datagrams were last dropped unread; replies may have been among them."""

    def send_due(self, now: float) -> float:
        """Send the requests that are due; returns the seconds until the next one is."""
        next_at = now + _IDLE_SECONDS
        for peer in self._peers.by_node.values():
            if peer.due_at <= now:
                self._expire(peer, now)
                self._send_request(peer, now)
            next_at = min(next_at, peer.due_at)
        return max(0.0, next_at - now)

    def receive(self, reply: Packet, datagram: bytes, received_unix_ns: int, now: float) -> bool:
        """Add the round-trip time of a reply; returns False if it is not valid."""
        for peer in self._peers.with_session(reply.sender):
            request = peer.pending
            if request is None or reply.sequence != request.sequence:
                continue
            if has_valid_tag(datagram, peer.assigned.key):
                self._add(peer, request, reply, received_unix_ns, now)
                return True
        return False

    def _add(
        self, peer: Peer, request: ProbeRequest, reply: Packet, received_unix_ns: int, now: float
    ) -> None:
        peer.pending = None
        elapsed_seconds = now - request.sent_at
        seconds = (received_unix_ns - request.sent_unix_ns) / 1e9
        if not 0 <= seconds <= elapsed_seconds:
            # The system clock was set in the meantime.
            seconds = elapsed_seconds
        seconds -= reply.held_microseconds / 1e6
        if 0 <= seconds <= MAX_ROUND_TRIP_SECONDS:
            peer.window.add(now, seconds)
        peer.answered += 1
        peer.due_at = request.sent_at + (self._interval() if peer.is_settled else _RETRY_SECONDS)

    def _send_request(self, peer: Peer, now: float) -> None:
        peer.sequence = peer.sequence % MAX_SEQUENCE + 1
        packet = Packet(REQUEST, 0, peer.assigned.session, self._session, peer.sequence)
        datagram = encode_packet(packet, peer.assigned.key)
        is_fresh = now - peer.since < _FRESH_SECONDS
        peer.due_at = now + (_RETRY_SECONDS if is_fresh else self._interval())
        # The time is read last, so that only the network is measured.
        peer.pending = ProbeRequest(peer.sequence, now, self._unix_ns())
        self._send(datagram, peer)

    def _expire(self, peer: Peer, now: float) -> None:
        """Stop waiting for the reply to the last request."""
        request, peer.pending = peer.pending, None
        if request is None:
            return
        is_lost = request.sent_at >= peer.since + _FRESH_SECONDS and request.sent_at > self.flooded_at
        if is_lost:
            peer.window.add(now, None)

    def _interval(self) -> float:
        return self._peers.interval_seconds * (1 + _JITTER * (2 * self._chance() - 1))


class Responder:
    """Creates the replies of this node: to valid requests only, once each, with a packet of the same size."""

    def __init__(self, session: int, peers: Peers) -> None:
        self._session = session
        self._peers = peers

    def verify(self, packet: Packet, datagram: bytes, now: float) -> Peer | None:
        """The peer that sent this request; None if it is not valid, or beyond the rate limit.

        The cheap checks come first, and nothing is changed before the tag is checked.
        """
        if packet.held_microseconds:
            return None
        for peer in self._peers.with_session(packet.sender):
            if packet.sequence <= peer.last_sequence:
                continue
            level = max(0.0, peer.replies - (now - peer.replied_at) * _REPLIES_PER_SECOND)
            if level + 1 <= _MAX_REPLIES and has_valid_tag(datagram, peer.assigned.key):
                peer.last_sequence = packet.sequence
                peer.replies, peer.replied_at = level + 1, now
                return peer
        return None

    def reply(self, request: Packet, peer: Peer, held_seconds: float) -> bytes:
        """The reply to a valid request that was received `held_seconds` ago."""
        held = min(max(0, round(held_seconds * 1e6)), MAX_HELD_MICROSECONDS)
        packet = Packet(REPLY, held, request.sender, self._session, request.sequence)
        return encode_packet(packet, peer.assigned.key)
