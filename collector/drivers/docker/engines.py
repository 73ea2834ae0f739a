"""The engines of single hosts, by the hosts' names."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from collector.config import DriverConfig
from collector.drivers.docker.client import Engine, connect
from collector.drivers.docker.models import Listed
from collector.drivers.interface import DriverError


class Engines:
    """Every engine whose address was given."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._engines)

    def of(self, node: str) -> Engine:
        """The engine of a node; raises `DriverError` where nobody said where it listens."""
        try:
            return self._engines[node]
        except KeyError:
            raise DriverError(
                f"nobody said where the Docker engine of {node} listens: add it to [driver.engines]"
            ) from None

    async def strangers(self, node: str) -> list[str]:
        """The containers on a node that no Swarm keeps; none where its engine is not known."""
        if node not in self._engines:
            return []
        listed = await self._engines[node].get("/containers/json", list[Listed])
        return [each.name for each in listed if not each.is_swarms]


@asynccontextmanager
async def open_engines(settings: DriverConfig) -> AsyncIterator[Engines]:
    """The engines in the settings, while the block runs."""
    async with AsyncExitStack() as stack:
        engines = {}
        for node, address in settings.engines.items():
            engines[node] = await stack.enter_async_context(connect([address], settings))
        yield Engines(engines)
