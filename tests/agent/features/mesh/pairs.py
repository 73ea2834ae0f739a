"""Two endpoints on loopback that are peers."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agent.features.mesh.endpoint import Endpoint, open_socket
from agent.features.mesh.peers import Peers
from wire.address import Address
from wire.mesh import KEY_BYTES, MeshPeer

KEY = bytes(range(KEY_BYTES))


class Clock:
    """The monotonic clock, which tests set forward."""

    def __init__(self) -> None:
        self._ahead_seconds = 0.0

    def advance(self, seconds: float) -> None:
        self._ahead_seconds += seconds

    def __call__(self) -> float:
        return time.monotonic() + self._ahead_seconds


@dataclass
class Node:
    """One node of the mesh."""

    name: str
    session: int
    bound: socket.socket
    peers: Peers
    endpoint: Endpoint

    @property
    def port(self) -> int:
        return int(self.bound.getsockname()[1])

    def as_peer(self, key: bytes = KEY, host: str = "127.0.0.1") -> MeshPeer:
        return MeshPeer(self.name, self.session, self.port, host, key=key)


@asynccontextmanager
async def mesh_node(name: str, session: int, clock: Clock, host: str = "127.0.0.1") -> AsyncIterator[Node]:
    bound = open_socket(Address(host, 0), session)
    peers = Peers(chance=lambda: 0.0)
    endpoint = Endpoint(bound, session, peers, monotonic=clock)
    try:
        yield Node(name, session, bound, peers, endpoint)
    finally:
        endpoint.close()


class Stranger(asyncio.DatagramProtocol):
    """A socket without a key: what it receives, in order."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, _: object) -> None:
        self.received.put_nowait(data)
