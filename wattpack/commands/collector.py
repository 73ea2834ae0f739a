"""`wattpack collector`: run the collector as a service."""

import argparse
import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from collector.common.errors import HistoryUnavailable
from collector.config import CollectorConfig
from collector.decide.question import check_policies
from collector.main import running
from wattpack.config.options import add_config_options, load_config
from wattpack.service.runner import Watchdog, Work, keep_running, notify, start_logging
from wattpack.service.runner import run as run_service

log = logging.getLogger("wattpack.collector")

_GC_THRESHOLD = 20_000
"""New objects between two collections of the youngest generation."""
_SWITCH_SECONDS = 0.0005
"""Python's default is ten times as long: the writer of the history would wait for a busy event loop at each
statement, and the event loop for the analysis."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "collector")


def run(arguments: argparse.Namespace) -> int:
    start_logging("collector")
    load = partial(load_config, CollectorConfig, "collector", arguments, check_policies)
    return run_service(keep_running(load, _running))


@asynccontextmanager
async def _running(config: CollectorConfig) -> AsyncIterator[Work]:
    # Nearly all objects are long-lived: collections would delay the start, and frequent full ones would
    # later block all requests for a tenth of a second each.
    gc.unfreeze()
    gc.collect()  # the state of before a reload
    gc.disable()
    gc.set_threshold(_GC_THRESHOLD, 20, 50)
    sys.setswitchinterval(_SWITCH_SECONDS)
    watchdog = Watchdog()
    # A reload must not be killed however long it restores.
    feeding = asyncio.create_task(feed_watchdog(watchdog, partial(asyncio.sleep, 0), "restoring its state"))
    try:
        async with running(config, is_separate=True) as collector:
            gc.freeze()
            gc.enable()
            status = f"listening on {collector.address.url}"
            log.info(status)
            feeding.cancel()
            notify(f"STATUS={status}")  # the next notification of the watchdog may be long after
            feeding = asyncio.create_task(feed_watchdog(watchdog, collector.core.history.check, status))
            yield feeding
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


async def feed_watchdog(watchdog: Watchdog, check: Callable[[], Awaitable[None]], status: str) -> None:
    """Feed the watchdog while the event loop runs and the writer of the history responds.

    A writer that reports an error is not hung: a restart would not free a full disk.
    """
    while True:
        try:
            await check()
        except HistoryUnavailable as error:
            watchdog.progress(f"cannot store reports: {error}")
        else:
            watchdog.progress(status)
        await asyncio.sleep(watchdog.every_seconds)
