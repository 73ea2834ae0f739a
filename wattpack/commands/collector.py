"""`wattpack collector`: the collector as a service."""

import argparse
import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from collector.config import CollectorConfig
from collector.history.interface import HistoryUnavailable
from collector.main import running
from wattpack.config.options import add_config_options, load_config
from wattpack.service.runner import Work, keep_running, start_logging
from wattpack.service.runner import run as run_service
from wattpack.service.systemd import Watchdog

log = logging.getLogger("wattpack.collector")

_SURVIVORS = 20_000
"""New objects, after which the youngest are looked through for garbage."""
_TURN_SECONDS = 0.0005
"""After which a thread that computes lets another have its turn. With Python's own, ten times as long, the
writer of the history would wait for a busy event loop at each statement, and the loop for who thinks."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "collector")


def run(arguments: argparse.Namespace) -> int:
    start_logging("collector")
    return run_service(keep_running(partial(load_config, CollectorConfig, "collector", arguments), _running))


@asynccontextmanager
async def _running(config: CollectorConfig) -> AsyncIterator[Work]:
    # What is remembered stays, and what comes stays long: looking through all of it for garbage, which there
    # hardly is, would hold up the start, and later everyone for a tenth of a second each time.
    gc.set_threshold(_SURVIVORS, 20, 50)
    sys.setswitchinterval(_TURN_SECONDS)
    async with running(config) as collector:
        gc.freeze()
        log.info("answering at %s", collector.address.url)
        said = f"answering at {collector.address.url}"
        watching = asyncio.create_task(feed(Watchdog(), collector.core.history.check, said))
        try:
            yield watching
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def feed(watchdog: Watchdog, check: Callable[[], Awaitable[None]], status: str) -> None:
    """Feed the watchdog as long as the event loop turns and the writer of the history answers.

    A writer that says why it cannot write is not a hung one: a restart would not empty a full disk.
    """
    while True:
        try:
            await check()
        except HistoryUnavailable as error:
            watchdog.progress(f"cannot keep reports: {error}")
        else:
            watchdog.progress(status)
        await asyncio.sleep(watchdog.every_seconds)
