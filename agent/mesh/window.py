"""The probes to one peer over the last five minutes. Pure."""

from collections import deque
from math import ceil
from typing import NamedTuple

from wire.mesh import WINDOW_SECONDS

_MAX_PROBES = 1000


class Summary(NamedTuple):
    """Round-trip times of a window; None if no probe was answered."""

    p50_seconds: float | None
    p95_seconds: float | None
    answered: int
    lost: int

    @property
    def lost_ratio(self) -> float:
        return self.lost / (self.answered + self.lost)


class ProbeWindow:
    """Results of probes, the oldest first."""

    def __init__(self) -> None:
        self._results: deque[tuple[float, float | None]] = deque(maxlen=_MAX_PROBES)

    def add(self, at: float, seconds: float | None) -> None:
        """Add the round-trip time of a probe; None if it was lost."""
        self._results.append((at, seconds))

    def summary(self, now: float) -> Summary | None:
        """Percentiles and losses; None without a probe in the window."""
        while self._results and self._results[0][0] <= now - WINDOW_SECONDS:
            self._results.popleft()
        if not self._results:
            return None
        answered = sorted(seconds for _, seconds in self._results if seconds is not None)
        return Summary(
            _percentile(answered, 0.5),
            _percentile(answered, 0.95),
            len(answered),
            len(self._results) - len(answered),
        )


def _percentile(ordered: list[float], share: float) -> float | None:
    """The lowest value that this share of all values does not exceed."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None
