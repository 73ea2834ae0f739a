"""Connections of a server: few before authentication, and few per caller, so that descriptors never run out.

A connection that has not authenticated yet costs a descriptor. If there are too many of them, the oldest one
is closed: an agent authenticates within milliseconds, a flood does not. So the process always has descriptors
left for its files.
"""

import errno
import resource
import socket
from asyncio import BaseTransport, get_running_loop
from collections.abc import Hashable
from contextlib import suppress

from wire.address import Address

_RESERVED = 128
"""Descriptors for files and connections of the process itself."""
_FEWEST = 16
_MOST_UNAUTHENTICATED = 4096
"""Each of these connections takes a few kilobytes. Agents that reconnect at once take turns."""
_MOST = 65_536
BACKLOG = 1024


class ConnectionLimits:
    """Counts open connections, and closes the oldest of a group that has too many."""

    def __init__(self, max_unauthenticated: int, max_total: int) -> None:
        self._max_unauthenticated = max_unauthenticated
        self._max_total = max_total
        self._unauthenticated: dict[int, _Connection] = {}
        """By descriptor, the oldest first."""
        self._authenticated: dict[int, tuple[Hashable, _Connection]] = {}
        self._of_caller: dict[Hashable, dict[int, None]] = {}
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
        return len(self._unauthenticated) + len(self._authenticated)

    def add(self, connection: "_Connection") -> bool:
        """Count a new connection; closes the oldest one that has not authenticated if there are too many.

        Returns False if all connections have authenticated, and there is no room for another one.
        """
        while self._unauthenticated and (
            len(self._unauthenticated) >= self._max_unauthenticated or self.open >= self._max_total
        ):
            self._close(next(iter(self._unauthenticated)))
        if self.open >= self._max_total:
            self.closed += 1
            return False
        self._unauthenticated[connection.fileno()] = connection
        return True

    def authenticate(self, transport: BaseTransport | None, caller: Hashable, max_connections: int) -> None:
        """Note that a connection belongs to a caller; closes the caller's oldest one if it has too many."""
        bound = None if transport is None else transport.get_extra_info("socket")
        descriptor = -1 if bound is None else bound.fileno()
        connection = self._unauthenticated.pop(descriptor, None)
        if connection is None:
            return
        self._authenticated[descriptor] = (caller, connection)
        own = self._of_caller.setdefault(caller, {})
        own[descriptor] = None
        while len(own) > max_connections:
            self._close(next(iter(own)))

    def remove(self, descriptor: int) -> None:
        self._unauthenticated.pop(descriptor, None)
        caller, _ = self._authenticated.pop(descriptor, (None, None))
        if caller is not None:
            own = self._of_caller[caller]
            del own[descriptor]
            if not own:
                del self._of_caller[caller]

    def _close(self, descriptor: int) -> None:
        """End a connection; its transport notices, and closes the descriptor."""
        connection = self._unauthenticated.get(descriptor)
        if connection is None:
            _, connection = self._authenticated[descriptor]
        self.closed += 1
        self.remove(descriptor)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class _Connection(socket.socket):
    """A connection that is counted until it is closed."""

    limits: ConnectionLimits

    def close(self) -> None:
        self.limits.remove(self.fileno())
        super().close()


class _Listener(socket.socket):
    """A listening socket whose connections are counted."""

    limits: ConnectionLimits

    def accept(self) -> tuple[socket.socket, object]:
        descriptor, address = self._accept()  # type: ignore[attr-defined]  # as `socket.accept` does
        connection = _Connection(self.family, self.type, self.proto, fileno=descriptor)
        connection.limits = self.limits
        if not self.limits.add(connection):
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
