"""Replies to the probe requests of peers: to valid ones only, once each, with a packet of the same size."""

from agent.mesh.packets import MAX_HELD_MICROSECONDS, REPLY, Packet, encode_packet, has_valid_tag
from agent.mesh.peers import Peer, Peers

_REPLIES_PER_SECOND = 1.0
_MAX_REPLIES = 5.0
"""Burst of replies to one peer; an honest one sends far fewer requests."""


class Responder:
    """Creates the replies of this node."""

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
