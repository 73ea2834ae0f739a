"""The simulated clock: seconds of a trace as Unix time, and the containers in the order of their arrival."""

import numpy as np

from collector.common.arrays import Floats, Rows

BEGIN_SECONDS = 1_699_920_000.0
"""Unix time at which traces begin: a midnight, at which buckets of all lengths begin."""
SOON = 1e-6
"""Events that are less than this many seconds apart happen at the same time."""


def unix(seconds: float) -> float:
    """The Unix time of a time of the trace."""
    return BEGIN_SECONDS + seconds


def seconds_of(unix_seconds: float) -> float:
    """The time of the trace of a Unix time."""
    return unix_seconds - BEGIN_SECONDS


class ArrivalQueue:
    """The containers that have not arrived yet. Times are seconds of the trace."""

    def __init__(self, arrival_seconds: Floats) -> None:
        self._order: Rows = np.argsort(arrival_seconds, kind="stable")
        self._seconds: Floats = arrival_seconds[self._order]
        self._arrived = 0

    @property
    def next_at(self) -> float:
        """The time of the next arrival; infinite if there is none."""
        return float(self._seconds[self._arrived]) if self._arrived < self._seconds.size else np.inf

    def pop(self, now: float) -> Rows:
        """Remove and return the containers that arrive up to now."""
        first = self._arrived
        self._arrived = int(np.searchsorted(self._seconds, now + SOON, side="right"))
        return self._order[first : self._arrived]
