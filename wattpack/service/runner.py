"""Runs a service: logging, signals, reloading, and notifications to systemd, a datagram to its socket."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Final, TypeVar

from wire.errors import UserError
from wire.text import printable, printable_lines

log = logging.getLogger(__name__)

Settings = TypeVar("Settings")
Work = asyncio.Task[None]
"""The task of a service; the service ends with it."""

_SEND_SECONDS: Final = 1.0
_DEFAULT_TIMEOUT_SECONDS: Final = 30.0
"""Without WatchdogSec in the unit; messages then only update the status."""
_PERIODS_PER_TIMEOUT: Final = 4
_MESSAGES_PER_TIMEOUT: Final = 3

_SYSLOG_PRIORITY = {logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class _Lines(logging.Formatter):
    """One line per message, with a priority prefix for the journal."""

    def __init__(self, role: str, *, for_journal: bool) -> None:
        # The journal adds the time itself.
        super().__init__("%(message)s" if for_journal else f"%(asctime)s {role}: %(message)s")
        self._for_journal = for_journal

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - the signature in `logging`
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in `logging`
        # A message has one line: names from other machines must not fake another.
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        text = printable_lines(super().format(record))
        return f"<{_SYSLOG_PRIORITY.get(record.levelno, 6)}>{text}" if self._for_journal else text


def start_logging(role: str) -> None:
    """Log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(role, for_journal="JOURNAL_STREAM" in os.environ))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def run(service: Coroutine[Any, Any, None]) -> int:
    """Run a service until it ends."""
    asyncio.run(service)
    return 0


async def until_stopped(*work: Work, on_ready: Callable[[], None] | None = None) -> None:
    """Notify systemd that the service is ready, and wait for a stop signal; raises if the work fails.

    `on_ready` is called once a signal ends the service in order.
    """
    stop = _on(signal.SIGINT, signal.SIGTERM)
    if on_ready is not None:
        on_ready()
    notify("READY=1")
    await _first(work, stop)
    notify("STOPPING=1")


async def keep_running(
    load: Callable[[], Settings], start: Callable[[Settings], AbstractAsyncContextManager[Work]]
) -> None:
    """Run a service until a stop signal; at each SIGHUP, restart it with reloaded settings.

    Signals also end a start. If the new settings are invalid, the service keeps running unchanged. If it
    cannot start with them, for example because an address is in use, it starts again with the previous ones.
    """
    stop, reload = _on(signal.SIGINT, signal.SIGTERM), _on(signal.SIGHUP)
    settings: Settings = load()
    working: Settings | None = None
    while True:
        ready = asyncio.Event()
        try:
            async with _in_own_task(start(settings), ready) as work:
                new = await _until_stop_or_new_settings(work, ready, stop, reload, load)
        except UserError as error:
            if ready.is_set() or working is None or settings is working:
                raise
            _log_rejected(error)
            new = working
        if new is None:
            return
        working, settings = settings if ready.is_set() else working, new


@asynccontextmanager
async def _in_own_task(
    starting: AbstractAsyncContextManager[Work], ready: asyncio.Event
) -> AsyncIterator[Work]:
    """Run a service in a task of its own, which ends with the block even if it is still starting."""
    end = asyncio.Event()

    async def serve() -> None:
        async with starting as work:
            ready.set()
            notify("READY=1")
            await _first((work,), end)

    service = asyncio.create_task(serve())
    try:
        yield service
    finally:
        end.set()
        if not ready.is_set():
            service.cancel()
        await asyncio.wait((service,))
        if not service.cancelled():
            service.result()


async def _until_stop_or_new_settings(
    work: Work, ready: asyncio.Event, stop: asyncio.Event, reload: asyncio.Event, load: Callable[[], Settings]
) -> Settings | None:
    while True:
        await _first((work,), stop, reload)
        if stop.is_set():
            notify("STOPPING=1")
            return None
        reload.clear()
        # Otherwise the start goes on, and says itself when it is ready.
        if ready.is_set():
            reloading()
        try:
            return load()
        except UserError as error:
            _log_rejected(error)
            if ready.is_set():
                notify("READY=1")


def _log_rejected(error: UserError) -> None:
    log.error("the new settings are rejected, the previous ones stay in use: %s", error)


def _on(*signals: signal.Signals) -> asyncio.Event:
    """An event that is set by these signals."""
    event = asyncio.Event()
    for number in signals:
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event


async def _first(work: tuple[Work, ...], *events: asyncio.Event) -> None:
    """Wait for one of the events; raises the error of the work if that fails first."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    done, _ = await asyncio.wait([*waiting, *work], return_when=asyncio.FIRST_COMPLETED)
    for wait in waiting:
        wait.cancel()
    for task in work:
        if task in done:
            task.result()


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send a state such as `READY=1` or `STOPPING=1`; does nothing if systemd did not start the process.

    Errors are ignored: a missing receiver neither stops nor delays the service.
    """
    path = environment.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel, suppress(OSError):
        channel.settimeout(_SEND_SECONDS)
        channel.sendto(state.encode(), address)


def reloading() -> None:
    """Notify that settings are being reloaded; `READY=1` ends it."""
    notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")


class Watchdog:
    """Keeps systemd from restarting the service after `WatchdogSec`. Fed by progress, never by a timer.

    `period_seconds` is the normal time between two calls of `progress`; a `WatchdogSec` that is too short for
    that is extended. Each message wakes systemd, so one is sent every `every_seconds`, a part of the timeout.
    """

    def __init__(
        self,
        period_seconds: float = 0.0,
        *,
        environment: Mapping[str, str] = os.environ,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        self._monotonic = monotonic
        configured = _timeout_seconds(environment)
        timeout = max(configured or _DEFAULT_TIMEOUT_SECONDS, _PERIODS_PER_TIMEOUT * period_seconds)
        self.every_seconds = timeout / _MESSAGES_PER_TIMEOUT
        self._next_at = monotonic()
        if configured is not None:
            notify(f"WATCHDOG_USEC={timeout * 1e6:.0f}", environment)

    def progress(self, status: str) -> None:
        """Record progress; `systemctl status` shows `status`."""
        now = self._monotonic()
        if now >= self._next_at:
            self._next_at = now + self.every_seconds
            notify(f"WATCHDOG=1\nSTATUS={status}", self._environment)


def _timeout_seconds(environment: Mapping[str, str]) -> float | None:
    """`WatchdogSec` of the unit; None if it is not set, or set for another process."""
    own = str(os.getpid())
    if "WATCHDOG_USEC" not in environment or environment.get("WATCHDOG_PID", own) != own:
        return None
    return int(environment["WATCHDOG_USEC"]) / 1e6
