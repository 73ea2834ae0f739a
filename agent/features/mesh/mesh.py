"""The mesh of one agent: socket, probes and exchange, started and stopped together."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from agent.config import DeliveryConfig
from agent.features.mesh.endpoint import Endpoint, open_socket
from agent.features.mesh.exchange import MeshExchange
from agent.features.mesh.peers import Peers
from agent.features.mesh.settings import MeshConfig
from wire.address import parse_address


class Mesh:
    """A started mesh."""

    def __init__(self, endpoint: Endpoint, peers: Peers, exchange: MeshExchange) -> None:
        self.endpoint = endpoint
        self.peers = peers
        self._exchange = exchange

    async def run(self) -> None:
        """Probe peers, and exchange results for new ones, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._exchange.run())
            group.create_task(self._probe())

    async def _probe(self) -> None:
        while True:
            self._exchange.changed.clear()
            seconds = self.endpoint.prober.send_due(time.monotonic())
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._exchange.changed.wait()


@asynccontextmanager
async def open_mesh(node: str, settings: MeshConfig, collector: DeliveryConfig) -> AsyncIterator[Mesh]:
    """The mesh of this node, with its socket open while the block runs; raises `UserError`."""
    session = secrets.randbits(63) or 1
    bound = open_socket(parse_address(settings.listen), session)
    peers = Peers()
    endpoint = Endpoint(bound, session, peers)
    try:
        advertised = settings.advertised(bound.getsockname()[1])
        yield Mesh(endpoint, peers, MeshExchange(node, session, advertised, collector, peers))
    finally:
        endpoint.close()
