"""The UDP socket of the mesh.

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

from agent.features.mesh.packets import PACKET_BYTES, REPLY, parse_packet
from agent.features.mesh.peers import Peer, Peers
from agent.features.mesh.prober import Prober, Responder
from wire.address import Address
from wire.errors import UserError

log = logging.getLogger(__name__)

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
        unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._socket = bound
        self._session = session
        self._responder = Responder(session, peers)
        self.prober = Prober(session, peers, self._send, unix_ns=unix_ns)
        self._monotonic = monotonic
        self._unix_ns = unix_ns
        self._loop = asyncio.get_running_loop()
        self._resume: asyncio.TimerHandle | None = None
        self.sent = 0
        self.received = 0
        self.discarded = 0
        """Datagrams that were read and are not valid."""
        self._start_reading()

    def close(self) -> None:
        """Close the socket."""
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def receive(self, datagram: bytes, source: tuple[object, ...], received_unix_ns: int) -> bool:
        """Handle a datagram; returns False if it is discarded."""
        packet = parse_packet(datagram)
        if packet is None or packet.receiver != self._session:
            return False
        now = self._monotonic()
        if packet.kind == REPLY:
            return self.prober.receive(packet, datagram, received_unix_ns, now)
        peer = self._responder.verify(packet, datagram, now)
        if peer is None:
            return False
        held_seconds = (self._unix_ns() - received_unix_ns) / 1e9
        self._send_to(self._responder.reply(packet, peer, held_seconds), source)
        return True

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
            discarded += not self.receive(datagram, source, self._received_at(ancillary))
        else:
            # More are waiting, and the kernel may drop some of them.
            self.prober.flooded_at = self._monotonic() + _PAUSE_SECONDS
        if discarded:
            self.discarded += discarded
            self._loop.remove_reader(self._socket)
            self._resume = self._loop.call_later(_PAUSE_SECONDS, self._start_reading)

    def _received_at(self, ancillary: list[tuple[int, int, bytes]]) -> int:
        """When the kernel received a datagram."""
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == _TIMESTAMP_NS and len(value) == _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack(value)
                return int(seconds * 1_000_000_000 + nanoseconds)
        return self._unix_ns()

    def _send(self, datagram: bytes, peer: Peer) -> None:
        host = peer.assigned.host
        if self._socket.family == socket.AF_INET6 and ":" not in host:
            host = f"::ffff:{host}"
        self._send_to(datagram, (host, peer.assigned.port))

    def _send_to(self, datagram: bytes, address: tuple[object, ...]) -> None:
        try:
            self._socket.sendto(datagram, address)
            self.sent += 1
        except OSError as error:
            # No route, a full buffer, or an address of the other family: as if the network had lost it.
            log.debug("cannot send to %s: %s", address, error)


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
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"cannot listen on UDP {address} ({reason}): set mesh.listen to an address of this host"
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
