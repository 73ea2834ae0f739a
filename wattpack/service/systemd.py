"""Telling systemd how the service is doing: one datagram to the socket that it names."""

import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

_SEND_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 30.0
"""Where the unit names none; then only the status is of interest."""
_PERIODS_PER_PATIENCE: Final = 4
_MESSAGES_PER_PATIENCE: Final = 3


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send `READY=1`, `STOPPING=1` or the like; does nothing when systemd is not the one who started us.

    A message that cannot be sent is lost: work does not end, nor wait, because nobody listens.
    """
    path = environment.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel, suppress(OSError):
        channel.settimeout(_SEND_SECONDS)
        channel.sendto(state.encode(), address)


def reloading() -> None:
    """Say that the settings are being read again; `READY=1` ends it."""
    notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")


class Watchdog:
    """Systemd restarts a service not heard of for `WatchdogSec`: it is fed by progress, never by a timer.

    `period_seconds` is how often progress is made when all is well; a unit whose patience is too short for
    that is told so. Each message wakes systemd, so there is only one `every_seconds`, a part of its patience.
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
        given = _patience_seconds(environment)
        patience = max(given or _PATIENCE_SECONDS, _PERIODS_PER_PATIENCE * period_seconds)
        self.every_seconds = patience / _MESSAGES_PER_PATIENCE
        self._next_at = monotonic()
        if given is not None:
            notify(f"WATCHDOG_USEC={patience * 1e6:.0f}", environment)

    def progress(self, status: str) -> None:
        """Take note that work was done; `status` is what `systemctl status` shows."""
        now = self._monotonic()
        if now >= self._next_at:
            self._next_at = now + self.every_seconds
            notify(f"WATCHDOG=1\nSTATUS={status}", self._environment)


def _patience_seconds(environment: Mapping[str, str]) -> float | None:
    """The unit's `WatchdogSec`; None if it has none, or means another process by it."""
    own = str(os.getpid())
    if "WATCHDOG_USEC" not in environment or environment.get("WATCHDOG_PID", own) != own:
        return None
    return int(environment["WATCHDOG_USEC"]) / 1e6
