"""The collector's time: Unix time that never jumps.

Ages, retention, budgets and expiry are differences of times. If the system clock is set, a difference is
wrong: dead nodes look alive, live ones dead, and data looks old. So the collector reads the system clock
once, counts seconds by the monotonic clock, and then follows the system clock slowly.
"""

import time
from collections.abc import Callable
from math import copysign
from threading import Lock

from collector.common.outages import Dependency, Outages

Clock = Callable[[], float]

_SLEW_RATIO = 0.1
"""Maximum deviation of its speed from the monotonic clock while it approaches the system clock."""
JUMP_SECONDS = 10.0
"""A larger difference means that the clock was set. A leap second, or a correction by NTP, is smaller."""


def seconds_since_boot() -> float:
    """Return monotonic time that also advances while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """Unix time that only moves forwards, at the speed of the monotonic clock."""

    def __init__(self, wall: Clock = time.time, monotonic: Clock = seconds_since_boot) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._now, self._read_at = wall(), monotonic()
        self._lock = Lock()

    def __call__(self) -> float:
        with self._lock:
            return self._read()

    @property
    def offset_seconds(self) -> float:
        """How far the system clock is ahead."""
        with self._lock:
            return self._wall() - self._read()

    def _read(self) -> float:
        read_at = self._monotonic()
        elapsed = max(0.0, read_at - self._read_at)
        self._now, self._read_at = self._now + elapsed, read_at
        ahead = self._wall() - self._now
        self._now += copysign(min(abs(ahead), _SLEW_RATIO * elapsed), ahead)
        return self._now


def report_jump(clock: SteadyClock, outages: Outages) -> None:
    """Report whether the system clock was set: it then differs from the collector's time."""
    offset = clock.offset_seconds
    if abs(offset) < JUMP_SECONDS:
        outages.end(Dependency.CLOCK, "the system clock agrees with the collector's time again")
        return
    side = "ahead of" if offset > 0 else "behind"
    outages.begin(
        Dependency.CLOCK,
        f"the system clock is {abs(offset):.0f} s {side} the collector's time: it was set. The collector"
        " keeps its own time and follows slowly; if the system clock is right, restart the collector",
    )
