"""Asks each peer in turn, and keeps the round-trip times of the answers."""

import time
from collections.abc import Callable
from random import random

from agent.mesh.packets import MAX_SEQUENCE, QUESTION, Packet, encode_packet, has_valid_tag
from agent.mesh.peers import Peer, Peers, Question
from wire.mesh import MAX_ROUND_TRIP_SECONDS

Send = Callable[[bytes, Peer], None]

_FRESH_SECONDS = 15.0
"""A peer may receive the key of the pair a little later; until then no answer is no loss."""
_RETRY_SECONDS = 2.0
_JITTER = 0.1
_IDLE_SECONDS = 60.0


class Prober:
    """The questions of this node."""

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
        """When datagrams were last discarded unread: answers may have been among them."""

    def send_due(self, now: float) -> float:
        """Ask the peers whose turn it is; returns the seconds until the next one's."""
        next_at = now + _IDLE_SECONDS
        for peer in self._peers.by_node.values():
            if peer.due_at <= now:
                self._end(peer, now)
                self._ask(peer, now)
            next_at = min(next_at, peer.due_at)
        return max(0.0, next_at - now)

    def receive(self, answer: Packet, datagram: bytes, received_unix_ns: int, now: float) -> bool:
        """Add the round-trip time of an answer; returns False if it is not valid."""
        for peer in self._peers.with_session(answer.sender):
            question = peer.pending
            if question is None or answer.sequence != question.sequence:
                continue
            if has_valid_tag(datagram, peer.assigned.key):
                self._add(peer, question, answer, received_unix_ns, now)
                return True
        return False

    def _add(self, peer: Peer, question: Question, answer: Packet, received_unix_ns: int, now: float) -> None:
        peer.pending = None
        elapsed_seconds = now - question.sent_at
        seconds = (received_unix_ns - question.sent_unix_ns) / 1e9
        if not 0 <= seconds <= elapsed_seconds:
            # The system clock was set meanwhile.
            seconds = elapsed_seconds
        seconds -= answer.held_microseconds / 1e6
        if 0 <= seconds <= MAX_ROUND_TRIP_SECONDS:
            peer.window.add(now, seconds)
        peer.answered += 1
        peer.due_at = question.sent_at + (self._interval() if peer.is_settled else _RETRY_SECONDS)

    def _ask(self, peer: Peer, now: float) -> None:
        peer.sequence = peer.sequence % MAX_SEQUENCE + 1
        packet = Packet(QUESTION, 0, peer.assigned.session, self._session, peer.sequence)
        datagram = encode_packet(packet, peer.assigned.key)
        is_fresh = now - peer.since < _FRESH_SECONDS
        peer.due_at = now + (_RETRY_SECONDS if is_fresh else self._interval())
        # The time is read last, so that only the network is measured.
        peer.pending = Question(peer.sequence, now, self._unix_ns())
        self._send(datagram, peer)

    def _end(self, peer: Peer, now: float) -> None:
        """Stop waiting for the last answer."""
        question, peer.pending = peer.pending, None
        if question is None:
            return
        is_lost = question.sent_at >= peer.since + _FRESH_SECONDS and question.sent_at > self.flooded_at
        if is_lost:
            peer.window.add(now, None)

    def _interval(self) -> float:
        return self._peers.interval_seconds * (1 + _JITTER * (2 * self._chance() - 1))
