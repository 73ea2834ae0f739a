"""The UDP socket of the mesh: sends probe requests to peers, measures their replies, and replies to theirs.

The cost of a flood is bounded. The kernel drops datagrams of another size, and those that are not for this
run of the agent. After an invalid datagram, the socket is read again only after a pause, and then a limited
number of times: the kernel drops the rest. Receive times are the kernel's, so a pause does not change them.
"""

import asyncio
import ctypes
import errno
import logging
import socket
import struct
import time
from collections.abc import Callable

from agent.features.mesh.packets import (
    MAX_HELD_MICROSECONDS,
    MAX_SEQUENCE,
    PACKET_BYTES,
    REPLY,
    REQUEST,
    Packet,
    encode_packet,
    has_valid_tag,
    parse_packet,
)
from agent.features.mesh.peers import Peer, Peers, ProbeRequest
from wire.address import Address
from wire.errors import UserError, os_reason
from wire.mesh import MAX_ROUND_TRIP_SECONDS

log = logging.getLogger(__name__)

_FRESH_SECONDS = 15.0
"""A peer may receive the key of the pair a little later; until then, a missing reply is no loss."""
_RETRY_SECONDS = 2.0
_JITTER = 0.1
_IDLE_SECONDS = 60.0
_REPLIES_PER_SECOND = 1.0
_MAX_REPLIES = 5.0
"""Burst of replies to one peer; an honest one sends far fewer requests."""
_READS_AT_ONCE = 64
_PAUSE_SECONDS = 0.02
_ATTACH_FILTER, _TIMESTAMP_NS = 26, 35
"""SO_ATTACH_FILTER and SO_TIMESTAMPNS, which the socket module does not have."""
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_UDP_HEADER_BYTES = 8


class Endpoint:
    """Sends and receives the datagrams of the mesh."""

    def __init__(
        self,
        bound: socket.socket,
        session: int,
        peers: Peers,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket = bound
        self._session = session
        self._peers = peers
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self._resume: asyncio.TimerHandle | None = None
        self._flooded_at = float("-inf")
        """When datagrams were last dropped unread; replies may have been among them."""
        self.sent = 0
        self.received = 0
        self.discarded = 0
        """Datagrams that were read and are not valid."""
        self._start_reading()

    def close(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()

    # --- Requests of this node --------------------------------------------------------------

    def send_due(self, now: float) -> float:
        """Send the requests that are due; returns the seconds until the next one is."""
        next_at = now + _IDLE_SECONDS
        for peer in self._peers.by_node.values():
            if peer.due_at <= now:
                self._expire(peer, now)
                self._send_request(peer, now)
            next_at = min(next_at, peer.due_at)
        return max(0.0, next_at - now)

    def _send_request(self, peer: Peer, now: float) -> None:
        peer.sequence = peer.sequence % MAX_SEQUENCE + 1
        packet = Packet(REQUEST, 0, peer.assigned.session, self._session, peer.sequence)
        datagram = encode_packet(packet, peer.assigned.key)
        is_fresh = now - peer.since < _FRESH_SECONDS
        peer.due_at = now + (_RETRY_SECONDS if is_fresh else self._interval())
        host = peer.assigned.host
        if self._socket.family == socket.AF_INET6 and ":" not in host:
            host = f"::ffff:{host}"
        # The time is read last, so that only the network is measured.
        peer.pending = ProbeRequest(peer.sequence, now, time.time_ns())
        self._send(datagram, (host, peer.assigned.port))

    def _expire(self, peer: Peer, now: float) -> None:
        """Stop waiting for the reply to the last request."""
        request, peer.pending = peer.pending, None
        if request is None:
            return
        is_lost = request.sent_at >= peer.since + _FRESH_SECONDS and request.sent_at > self._flooded_at
        if is_lost:
            peer.probes.append((now, None))

    def _interval(self) -> float:
        return self._peers.interval_seconds * (1 + _JITTER * (2 * self._peers.chance() - 1))

    def _send(self, datagram: bytes, address: tuple[object, ...]) -> None:
        try:
            self._socket.sendto(datagram, address)
            self.sent += 1
        except OSError as error:
            # No route, a full buffer, or an address of the other family: as if the network had lost it.
            log.debug("cannot send to %s: %s", address, error)

    # --- Datagrams of peers -----------------------------------------------------------------

    def receive(self, datagram: bytes, source: tuple[object, ...], received_unix_ns: int) -> bool:
        """Handle a datagram; returns False if it is discarded."""
        packet = parse_packet(datagram)
        if packet is None or packet.receiver != self._session:
            return False
        if packet.kind == REPLY:
            return self._receive_reply(packet, datagram, received_unix_ns)
        return self._receive_request(packet, datagram, source, received_unix_ns)

    def _receive_reply(self, reply: Packet, datagram: bytes, received_unix_ns: int) -> bool:
        for peer in self._peers.with_session(reply.sender):
            request = peer.pending
            if request is None or reply.sequence != request.sequence:
                continue
            if has_valid_tag(datagram, peer.assigned.key):
                self._add(peer, request, reply, received_unix_ns)
                return True
        return False

    def _add(self, peer: Peer, request: ProbeRequest, reply: Packet, received_unix_ns: int) -> None:
        """Add the round-trip time of a reply."""
        now = self._monotonic()
        peer.pending = None
        elapsed_seconds = now - request.sent_at
        seconds = (received_unix_ns - request.sent_unix_ns) / 1e9
        if not 0 <= seconds <= elapsed_seconds:
            # The system clock was set in the meantime.
            seconds = elapsed_seconds
        seconds -= reply.held_microseconds / 1e6
        if 0 <= seconds <= MAX_ROUND_TRIP_SECONDS:
            peer.probes.append((now, seconds))
        peer.answered += 1
        peer.due_at = request.sent_at + (self._interval() if peer.is_settled else _RETRY_SECONDS)

    def _receive_request(
        self, request: Packet, datagram: bytes, source: tuple[object, ...], received_unix_ns: int
    ) -> bool:
        """Reply to a valid request, once, with a packet of the same size."""
        peer = self._verify(request, datagram)
        if peer is None:
            return False
        held = min(max(0, round((time.time_ns() - received_unix_ns) / 1e3)), MAX_HELD_MICROSECONDS)
        packet = Packet(REPLY, held, request.sender, self._session, request.sequence)
        self._send(encode_packet(packet, peer.assigned.key), source)
        return True

    def _verify(self, request: Packet, datagram: bytes) -> Peer | None:
        """The peer that sent this request; None if it is not valid, or beyond the rate limit.

        The cheap checks come first, and nothing is changed before the tag is checked.
        """
        if request.held_microseconds:
            return None
        now = self._monotonic()
        for peer in self._peers.with_session(request.sender):
            if request.sequence <= peer.last_sequence:
                continue
            level = max(0.0, peer.replies - (now - peer.replied_at) * _REPLIES_PER_SECOND)
            if level + 1 <= _MAX_REPLIES and has_valid_tag(datagram, peer.assigned.key):
                peer.last_sequence = request.sequence
                peer.replies, peer.replied_at = level + 1, now
                return peer
        return None

    # --- The socket -------------------------------------------------------------------------

    def _start_reading(self) -> None:
        self._loop.add_reader(self._socket, self._read)

    def _read(self) -> None:
        discarded = 0
        for _ in range(_READS_AT_ONCE):
            try:
                datagram, ancillary, _, source = self._socket.recvmsg(PACKET_BYTES + 1, _ANCILLARY_BYTES)
            except OSError:
                # Nothing more to read; or an ICMP error of an earlier datagram.
                break
            self.received += 1
            discarded += not self.receive(datagram, source, _received_at(ancillary))
        else:
            # More are waiting, and the kernel may drop some of them.
            self._flooded_at = self._monotonic() + _PAUSE_SECONDS
        if discarded:
            self.discarded += discarded
            self._loop.remove_reader(self._socket)
            self._resume = self._loop.call_later(_PAUSE_SECONDS, self._start_reading)


def _received_at(ancillary: list[tuple[int, int, bytes]]) -> int:
    """When the kernel received a datagram, as Unix time in nanoseconds."""
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == _TIMESTAMP_NS and len(value) == _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack(value)
            return int(seconds * 1_000_000_000 + nanoseconds)
    return time.time_ns()


def open_socket(address: Address, session: int) -> socket.socket:
    """Open the socket of the mesh; raises `UserError`."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        _filter(opened, session)
        opened.setsockopt(socket.SOL_SOCKET, _TIMESTAMP_NS, 1)
        opened.bind((address.host, address.port))
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise UserError(
                f"UDP {address} is already in use: stop that process, or set mesh.listen to another port"
            ) from error
        raise UserError(
            f"cannot listen on UDP {address} ({os_reason(error)}): set mesh.listen to an address of this host"
        ) from error
    return opened


def _filter(opened: socket.socket, session: int) -> None:
    """Let the kernel drop datagrams of another size, or for another session."""
    high, low = session >> 32, session & 0xFFFFFFFF
    load_length, load_word, equals, leave = 0x80, 0x20, 0x15, 0x06
    drop, keep = 7, 6
    program = (
        (load_length, 0, 0, 0),
        (equals, 0, drop - 2, _UDP_HEADER_BYTES + PACKET_BYTES),
        (load_word, 0, 0, _UDP_HEADER_BYTES + 4),
        (equals, 0, drop - 4, high),
        (load_word, 0, 0, _UDP_HEADER_BYTES + 8),
        (equals, 0, drop - keep, low),
        (leave, 0, 0, 0xFFFF),
        (leave, 0, 0, 0),
    )
    packed = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    try:
        opened.setsockopt(
            socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(packed))
        )
    except OSError as error:
        # `receive` makes the same checks, at a higher cost.
        log.debug("the kernel does not accept a socket filter: %s", error)
