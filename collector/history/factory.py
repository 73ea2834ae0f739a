"""Open the history that the settings name."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from collector.common.outages import Outages
from collector.config import CollectorConfig
from collector.history.interface import History
from collector.history.sqlite.history import open_sqlite


@asynccontextmanager
async def open_history(
    config: CollectorConfig, troubles: Outages, clock: Callable[[], float]
) -> AsyncIterator[History]:
    """Open the history while the block runs; raises `UserError` if it cannot be opened."""
    if config.history.store == "prometheus":
        from collector.history.prometheus.history import open_prometheus  # noqa: PLC0415 - few have a store

        async with open_prometheus(config, troubles, clock) as history:
            yield history
    else:
        async with open_sqlite(config.history) as file:
            yield file
