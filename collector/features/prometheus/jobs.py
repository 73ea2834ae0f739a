"""Reads nodes that a Prometheus scrapes, while the collector runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from collector.common.periodic import in_background
from collector.core.parts import Core
from collector.features.prometheus.puller import Puller
from collector.history.promql import connect


@asynccontextmanager
async def running(core: Core) -> AsyncIterator[None]:
    """Pull nodes from the configured store, if there is one, while the block runs."""
    settings = core.config
    key, source = ("pull", settings.pull) if settings.pull.url else ("store", settings.store)
    if not settings.pull.url and settings.history.store != "prometheus":
        yield
        return
    async with connect(source, key) as client, in_background(Puller(core, client, settings.pull).run()):
        yield
