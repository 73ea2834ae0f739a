"""What the long-running commands share: logging, signals, and telling systemd."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any

from wattpack.notify import notify

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


async def until_stopped(*work: asyncio.Task[None]) -> None:
    """Say that the service is ready, and return when it is asked to stop; raises if its work fails."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    notify("READY=1")
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait([stopping, *work], return_when=asyncio.FIRST_COMPLETED)
    notify("STOPPING=1")
    stopping.cancel()
    for task in done - {stopping}:
        task.result()
