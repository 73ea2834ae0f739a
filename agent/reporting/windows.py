"""Means over time windows. Pure: times come with the samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from wire.resources import RESOURCES, Quantities

Values = tuple[float | None, ...]
"""Numbers of one sample; None if unknown."""


class Mean:
    """The mean of samples, weighted by the length of their intervals.

    Unknown values are skipped; the mean is None if all are unknown.
    """

    __slots__ = ("_sums", "_value_seconds", "seconds")

    def __init__(self, width: int) -> None:
        self._sums = [0.0] * width
        self._value_seconds = [0.0] * width
        self.seconds = 0.0
        """Sum of all intervals."""

    def add(self, values: Sequence[float | None], seconds: float) -> None:
        """Add one sample and the length of its interval."""
        self.seconds += seconds
        sums, value_seconds = self._sums, self._value_seconds
        for index, value in enumerate(values):
            if value is not None:
                sums[index] += value * seconds
                value_seconds[index] += seconds

    def values(self) -> Values:
        pairs = zip(self._sums, self._value_seconds, strict=True)
        return tuple([total / seconds if seconds > 0 else None for total, seconds in pairs])


@dataclass(slots=True)
class TumblingWindows:
    """Consecutive windows of one length, aligned to a fixed start."""

    begin_seconds: float
    length_seconds: float
    _closed: int = 0

    def closes(self, now_seconds: float) -> bool:
        """True once per window, at the first sample at or after its end.

        After a gap of several windows, only one closes; the next one is aligned again.
        """
        ended = self._ended(now_seconds)
        if ended <= self._closed:
            return False
        self._closed = ended
        return True

    def ends_between(self, after_seconds: float, now_seconds: float) -> bool:
        """True if a window closes at a sample that follows one `after_seconds`; changes nothing."""
        return self._ended(now_seconds) > self._ended(after_seconds)

    def _ended(self, now_seconds: float) -> int:
        return math.floor((now_seconds - self.begin_seconds) / self.length_seconds)


_FACTOR = 2.0
"""A value of a container without a limit that multiplied by this is reported."""
_NEARLY = 1 - 1e-9
"""Tolerance of floating-point sums."""


class WindowTracker:
    """The open window, the last closed window, and the values that were last reported.

    The first values are the usage of each resource, in the order of `RESOURCES`.
    """

    __slots__ = (
        "_closed",
        "_factor",
        "_open",
        "_reported",
        "_reported_capacities",
        "_whole_windows",
        "_width",
    )

    def __init__(self, width: int, *, from_start: bool) -> None:
        """Without `from_start`, the open window started before the first sample, so it is not a whole one."""
        self._width = width
        self._open = Mean(width)
        self._closed: tuple[Values, float] | None = None
        self._whole_windows = 0 if from_start else -1
        self._reported: Values = (None,) * len(RESOURCES)
        self._reported_capacities: Values = self._reported
        self._factor = _FACTOR

    def add(self, values: Values, seconds: float) -> None:
        self._open.add(values, seconds)

    def close(self, capacities: Values, points: float, least: Values = ()) -> bool:
        """Close the open window and start another; returns whether to report the closed one.

        It is reported if it is the first whole window, or if a resource changed by `points` percentage points
        of its capacity since the last report, or multiplied, if amounts below `least` count as that.
        """
        values = self._open.values()
        self._closed = (values, self._open.seconds)
        self._open = Mean(self._width)
        self._whole_windows += 1
        if (
            self._whole_windows == 1
            or points == 0
            or any(
                _changed(*each, points / 100)
                for each in zip(values, capacities, self._reported, self._reported_capacities, strict=False)
            )
        ):
            return True
        has_multiplied = any(
            _has_multiplied(*each, self._factor) for each in zip(values, self._reported, least, strict=False)
        )
        if has_multiplied:
            # So a value that goes up and down is not reported each time.
            self._factor *= _FACTOR
        return has_multiplied

    def begin_period(self) -> None:
        """Report a value again that multiplies for the first time."""
        self._factor = _FACTOR

    def latest(self) -> tuple[Values, float]:
        """Means and length of the last closed window, or of the open one if none has closed yet.

        Later open windows do not count: the mean of a few seconds can be far from that of a whole window.
        """
        return self._closed or (self._open.values(), self._open.seconds)

    def replace_latest(self, values: Values, seconds: float) -> None:
        """Use fresher means than those of the last closed window, until the next one closes."""
        self._closed = (values, seconds)

    def mark_reported(self, used: Quantities, capacities: Values) -> None:
        self._reported = used.values
        self._reported_capacities = capacities

    def is_unreported(self, resource_index: int) -> bool:
        """True if the resource was not reported yet and no whole window has closed."""
        return self._reported[resource_index] is None and self._whole_windows < 1


def _has_multiplied(value: float | None, reported: float | None, least: float | None, factor: float) -> bool:
    if value is None or reported is None or not least:
        return False
    low, high = (value, reported) if value < reported else (reported, value)
    return high >= factor * max(low, least)


def _changed(
    value: float | None,
    capacity: float | None,
    reported: float | None,
    reported_capacity: float | None,
    ratio: float,
) -> bool:
    if value is None or reported is None:
        return value is not reported
    if not capacity or not reported_capacity:
        # Without a capacity there are no percentage points: the next heartbeat reports the value.
        return bool(capacity) is not bool(reported_capacity)
    # If the capacity changed, the ratio changed even if the usage did not.
    points = max(abs(value - reported) / capacity, abs(value / capacity - reported / reported_capacity))
    return points >= ratio * _NEARLY
