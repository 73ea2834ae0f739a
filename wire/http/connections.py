"""Connections of a server: few before authentication, and few per caller, so that descriptors never run out.

A connection that has not authenticated yet costs a descriptor. If there are too many of them, the oldest one
of an address that has more than its share is closed: an agent authenticates within milliseconds, a flood does
not, and a flood from one address leaves the others alone. A connection counts until its descriptor is closed,
and none is accepted before there is room for it. So the process always has descriptors left for its files.
"""

import errno
import logging
import resource
import socket
import time
from asyncio import BaseTransport, get_running_loop
from collections.abc import Callable, Hashable
from contextlib import suppress
from ipaddress import IPv6Address, ip_network
from typing import Any, TypeVar

from wire.address import Address, parse_ip
from wire.errors import os_reason

log = logging.getLogger(__name__)
Group = TypeVar("Group", bound=Hashable)

_RESERVED = 128
"""Descriptors for files and connections of the process itself."""
_FEWEST = 16
_MOST_UNAUTHENTICATED = 4096
"""Each of these connections takes a few kilobytes. Agents that reconnect at once take turns."""
_MOST = 65_536
BACKLOG = 1024
_LOG_SECONDS = 60.0
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS = 0.5
"""Below the second after which asyncio accepts again."""
_HOST_BITS = 64


def sender(address: str) -> str:
    """Who shares the limits of an address: itself; in IPv6 its network, of which a host has all addresses."""
    parsed = parse_ip(address)
    return str(ip_network((parsed, _HOST_BITS), strict=False)) if isinstance(parsed, IPv6Address) else address


class ConnectionLimits:
    """Counts open connections, and closes the oldest of a group that has too many."""

    def __init__(
        self, max_unauthenticated: int, max_total: int, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_unauthenticated = max_unauthenticated
        self._max_total = max_total
        self._monotonic = monotonic
        self._unauthenticated: dict[int, _Connection] = {}
        """By descriptor, the oldest first."""
        self._of_sender: dict[str, dict[int, None]] = {}
        """Those of each sender, the oldest first."""
        self._authenticated: dict[int, tuple[Hashable, _Connection]] = {}
        self._of_caller: dict[Hashable, dict[int, None]] = {}
        self._closing: set[int] = set()
        """Descriptors of connections that have ended, and are not closed yet."""
        self._exhausted_at = self._logged_at = -float("inf")
        self._logged = 0
        self.closed = 0
        """Connections that were closed because there were too many."""

    @classmethod
    def of_process(cls, *, authenticates: bool = True) -> "ConnectionLimits":
        """The limits that leave enough descriptors for the rest of the process.

        Where nobody authenticates, all connections are those of callers.
        """
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            descriptors = _MOST
        most = min(_MOST, max(2 * _FEWEST, descriptors - _RESERVED))
        few = min(_MOST_UNAUTHENTICATED, most // 2) if authenticates else most
        return cls(max_unauthenticated=few, max_total=most)

    @property
    def open(self) -> int:
        return len(self._unauthenticated) + len(self._authenticated) + len(self._closing)

    def check_room(self) -> None:
        """Raise `BlockingIOError` if a connection must wait until others are closed."""
        is_paused = self._monotonic() - self._exhausted_at < _PAUSE_SECONDS
        if is_paused or (self._closing and self.open >= self._max_total):
            raise BlockingIOError

    def pause(self, error: OSError) -> None:
        """Note that no descriptor was left, or no memory."""
        self._exhausted_at = self._monotonic()
        self._say("cannot accept connections (%s); next try in a second", os_reason(error))

    def add(self, connection: "_Connection", address: str) -> bool:
        """Count a new connection; closes one that has not authenticated if there are too many.

        Returns False if all connections have authenticated, and there is no room for another one.
        """
        group = connection.sender = sender(address)
        if len(self._unauthenticated) >= self._max_unauthenticated or self.open >= self._max_total:
            if self._unauthenticated:
                self._close_surplus(group)
            elif not self._closing:
                self.closed += 1
                self._say("too many connections, all of known callers: %s has to wait", group)
                return False
        self._unauthenticated[connection.fileno()] = connection
        self._of_sender.setdefault(group, {})[connection.fileno()] = None
        return True

    def _close_surplus(self, group: str) -> None:
        """Close the oldest connection of a sender that has its share: of this one, if it has."""
        share = self._max_unauthenticated / len(self._of_sender.keys() | {group})
        others = (each for each, own in self._of_sender.items() if len(own) >= share)
        largest = group if len(self._of_sender.get(group, ())) >= share else next(others, None)
        oldest = next(iter(self._unauthenticated if largest is None else self._of_sender[largest]))
        self._say("too many connections: closing the oldest, now of %s", self._unauthenticated[oldest].sender)
        self._close(oldest)

    def authenticate(self, transport: BaseTransport | None, caller: Hashable, max_connections: int) -> None:
        """Note that a connection belongs to a caller; closes the caller's oldest one if it has too many."""
        bound = None if transport is None else transport.get_extra_info("socket")
        descriptor = -1 if bound is None else bound.fileno()
        connection = self._unauthenticated.get(descriptor)
        if connection is None:
            return
        self._remove(descriptor)
        self._authenticated[descriptor] = (caller, connection)
        own = self._of_caller.setdefault(caller, {})
        own[descriptor] = None
        while len(own) > max_connections:
            self._close(next(iter(own)))

    def remove(self, descriptor: int) -> None:
        """Forget a connection whose descriptor is being closed."""
        self._remove(descriptor)
        self._closing.discard(descriptor)

    def _remove(self, descriptor: int) -> None:
        connection = self._unauthenticated.pop(descriptor, None)
        if connection is not None:
            _drop(self._of_sender, connection.sender, descriptor)
        caller, _ = self._authenticated.pop(descriptor, (None, None))
        if caller is not None:
            _drop(self._of_caller, caller, descriptor)

    def _close(self, descriptor: int) -> None:
        """End a connection; its transport notices, and closes the descriptor."""
        connection = self._unauthenticated.get(descriptor)
        if connection is None:
            _, connection = self._authenticated[descriptor]
        self.closed += 1
        self._remove(descriptor)
        self._closing.add(descriptor)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def _say(self, text: str, about: str) -> None:
        """Log a line, at most once a minute: no client may fill the log by opening connections."""
        if (now := self._monotonic()) - self._logged_at >= _LOG_SECONDS:
            closed, self._logged, self._logged_at = self.closed - self._logged, self.closed, now
            log.warning("%s (%d closed since the last such message)", text % about, closed)


def _drop(groups: dict[Group, dict[int, None]], group: Group, descriptor: int) -> None:
    del groups[group][descriptor]
    if not groups[group]:
        del groups[group]


class _Connection(socket.socket):
    """A connection that is counted until it is closed."""

    limits: ConnectionLimits
    sender = ""

    def close(self) -> None:
        self.limits.remove(self.fileno())
        super().close()


class _Listener(socket.socket):
    """A listening socket whose connections are counted."""

    limits: ConnectionLimits

    def accept(self) -> tuple[socket.socket, Any]:
        self.limits.check_room()
        try:
            descriptor, address = self._accept()  # type: ignore[attr-defined]  # as `socket.accept` does
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self.limits.pause(error)
            raise
        connection = _Connection(self.family, self.type, self.proto, fileno=descriptor)
        connection.limits = self.limits
        if not self.limits.add(connection, address[0]):
            connection.close()
            raise ConnectionAbortedError("too many connections")
        return connection, address


async def listen(address: Address, limits: ConnectionLimits) -> list[socket.socket]:
    """Listening sockets for all addresses of a host name; raises `OSError`."""
    found = await get_running_loop().getaddrinfo(
        address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, bound in dict.fromkeys(found):
            try:
                listener = _Listener(family, kind, protocol)
            except OSError as error:
                if error.errno == errno.EAFNOSUPPORT:
                    continue
                raise
            sockets.append(listener)
            listener.limits = limits
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(bound)
            listener.listen(BACKLOG)
            listener.setblocking(False)  # noqa: FBT003 - the standard library's own
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets
