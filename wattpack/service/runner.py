"""What the long-running commands share: logging, signals, reloading, and telling systemd."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from wattpack.service.systemd import notify, reloading
from wire.errors import UserError

log = logging.getLogger(__name__)

Settings = TypeVar("Settings")
Work = asyncio.Task[None]
"""What a service does as long as it runs; when it ends, so does the service."""

_SYSLOG_PRIORITY = {logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class _Lines(logging.Formatter):
    """One line per message; with a priority in front where the journal reads it."""

    def __init__(self, role: str, *, for_journal: bool) -> None:
        super().__init__("%(message)s" if for_journal else f"{role}: %(message)s")
        self._for_journal = for_journal

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return f"<{_SYSLOG_PRIORITY.get(record.levelno, 6)}>{text}" if self._for_journal else text


def start_logging(role: str) -> None:
    """Messages go to standard error, where systemd or a person reads them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(role, for_journal="JOURNAL_STREAM" in os.environ))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def run(service: Coroutine[Any, Any, None]) -> int:
    """Run a service to its end."""
    asyncio.run(service)
    return 0


async def until_stopped(*work: Work) -> None:
    """Say that the service is ready, and return when it is asked to stop; raises if its work fails."""
    stop = _on(signal.SIGINT, signal.SIGTERM)
    notify("READY=1")
    await _first(work, stop)
    notify("STOPPING=1")


async def keep_running(
    load: Callable[[], Settings], start: Callable[[Settings], AbstractAsyncContextManager[Work]]
) -> None:
    """Run a service until it is asked to stop, and anew with the settings of the moment at each SIGHUP.

    New settings that cannot be read are said, and the service stays as it is. Some turn out wrong only when
    it is started with them, such as an address that is taken: then it is started again with the old ones.
    """
    stop, reload = _on(signal.SIGINT, signal.SIGTERM), _on(signal.SIGHUP)
    settings: Settings = load()
    proven: Settings | None = None
    while True:
        try:
            async with start(settings) as work:
                proven = settings
                notify("READY=1")
                new = await _until_stop_or_new_settings(work, stop, reload, load)
        except UserError as complaint:
            if proven is None or settings is proven:
                raise
            _say_refused(complaint)
            settings = proven
            continue
        if new is None:
            return
        settings = new


async def _until_stop_or_new_settings(
    work: Work, stop: asyncio.Event, reload: asyncio.Event, load: Callable[[], Settings]
) -> Settings | None:
    while True:
        await _first((work,), stop, reload)
        if stop.is_set():
            notify("STOPPING=1")
            return None
        reload.clear()
        reloading()
        try:
            return load()
        except UserError as complaint:
            _say_refused(complaint)
            notify("READY=1")


def _say_refused(complaint: UserError) -> None:
    log.error("the new settings are not used, those before stay in force: %s", complaint)


def _on(*signals: signal.Signals) -> asyncio.Event:
    """Give an event that is set when one of these signals comes."""
    event = asyncio.Event()
    for number in signals:
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event


async def _first(work: tuple[Work, ...], *events: asyncio.Event) -> None:
    """Wait for one of the events; raises what the work raises, should that come first."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    done, _ = await asyncio.wait([*waiting, *work], return_when=asyncio.FIRST_COMPLETED)
    for wait in waiting:
        wait.cancel()
    for task in work:
        if task in done:
            task.result()
