"""The engines of single hosts, by node name."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from collector.config import DriverConfig
from collector.drivers.engine.client import Engine, connect
from collector.drivers.engine.models import ListedContainer
from collector.drivers.interface import DriverError


class Engines:
    """The configured engines."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._engines)

    def of(self, node: str) -> Engine:
        """Return the engine of a node. Raise `DriverError` if it is not configured."""
        try:
            return self._engines[node]
        except KeyError:
            raise DriverError(
                f"the address of the Docker engine of {node} is unknown: add it to [driver.engines]"
            ) from None

    async def unmanaged(self, node: str) -> list[str]:
        """Return the containers on a node that no Swarm manages, except daemons.

        If its engine is not configured, they are unknown, and the list is empty.
        """
        if node not in self._engines:
            return []
        listed = await self._engines[node].get("/containers/json", list[ListedContainer])
        return [each.name for each in listed if not (each.is_swarm_task or each.is_daemon)]


@asynccontextmanager
async def open_engines(settings: DriverConfig) -> AsyncIterator[Engines]:
    """Connect to the configured engines while the block runs."""
    async with AsyncExitStack() as stack:
        engines = {}
        for node, address in settings.engines.items():
            engines[node] = await stack.enter_async_context(connect([address], settings))
        yield Engines(engines)
