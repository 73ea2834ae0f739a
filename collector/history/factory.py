"""Open the history that the settings name."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from collector.common.extensions import features_with, load
from collector.common.outages import Outages
from collector.config import CollectorConfig
from collector.history.interface import History
from collector.history.sqlite.history import open_sqlite
from wire.errors import UserError


@asynccontextmanager
async def open_history(
    config: CollectorConfig, troubles: Outages, clock: Callable[[], float]
) -> AsyncIterator[History]:
    """Open the history while the block runs; raises `UserError` if it cannot be opened."""
    store = config.history.store
    if store == "sqlite":
        async with open_sqlite(config.history) as file:
            yield file
        return
    if store not in features_with("history"):
        raise UserError(f"history.store: this collector has no store {store!r}: choose sqlite")
    async with load(store, "history").open_history(config, troubles, clock) as history:
        yield history
