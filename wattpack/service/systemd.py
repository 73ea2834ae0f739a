"""Notifications to systemd: a datagram to the socket in NOTIFY_SOCKET."""

import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

_SEND_SECONDS: Final = 1.0
_DEFAULT_TIMEOUT_SECONDS: Final = 30.0
"""Without WatchdogSec in the unit; messages then only update the status."""
_PERIODS_PER_TIMEOUT: Final = 4
_MESSAGES_PER_TIMEOUT: Final = 3


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
