"""Answers the questions of peers: only valid ones, each once, and none with more bytes than it has."""

from agent.mesh.packets import ANSWER, MAX_HELD_MICROSECONDS, Packet, encode_packet, has_valid_tag
from agent.mesh.peers import Peer, Peers

_ANSWERS_PER_SECOND = 1.0
_MAX_ANSWERS = 5.0
"""To one peer at once; an honest one asks far less often."""


class Responder:
    """The answers of this node."""

    def __init__(self, session: int, peers: Peers) -> None:
        self._session = session
        self._peers = peers

    def is_valid(self, packet: Packet, datagram: bytes, now: float) -> Peer | None:
        """The peer that sent this question; None if it gets no answer.

        The cheap checks come first, and nothing is changed before the tag is checked.
        """
        if packet.held_microseconds:
            return None
        for peer in self._peers.with_session(packet.sender):
            if packet.sequence <= peer.last_sequence:
                continue
            level = max(0.0, peer.answers - (now - peer.answered_at) * _ANSWERS_PER_SECOND)
            if level + 1 <= _MAX_ANSWERS and has_valid_tag(datagram, peer.assigned.key):
                peer.last_sequence = packet.sequence
                peer.answers, peer.answered_at = level + 1, now
                return peer
        return None

    def answer(self, question: Packet, peer: Peer, held_seconds: float) -> bytes:
        """The answer to a valid question that was received so long ago."""
        held = min(max(0, round(held_seconds * 1e6)), MAX_HELD_MICROSECONDS)
        packet = Packet(ANSWER, held, question.sender, self._session, question.sequence)
        return encode_packet(packet, peer.assigned.key)
