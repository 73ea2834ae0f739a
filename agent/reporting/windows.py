"""Means over windows of time. Pure: no clock, times come with the samples."""

import math
from collections.abc import Sequence

from wire.resources import RESOURCES, Quantities

Values = tuple[float | None, ...]
"""Numbers that are sampled together; None where one is not known."""


class Mean:
    """The mean of samples, each weighted by the time that it stands for.

    A number that some samples do not know is the mean of those that do; None if none does.
    """

    __slots__ = ("_known_seconds", "_sums", "seconds")

    def __init__(self, width: int) -> None:
        self._sums = [0.0] * width
        self._known_seconds = [0.0] * width
        self.seconds = 0.0
        """The time that all samples stand for together."""

    def add(self, values: Sequence[float | None], seconds: float) -> None:
        """Take in one sample; one that stands for no time has no weight."""
        self.seconds += seconds
        sums, known_seconds = self._sums, self._known_seconds
        for index, value in enumerate(values):
            if value is not None:
                sums[index] += value * seconds
                known_seconds[index] += seconds

    def values(self) -> Values:
        return tuple(
            total / seconds if seconds > 0 else None
            for total, seconds in zip(self._sums, self._known_seconds, strict=True)
        )


class TumblingWindows:
    """Windows of one length, end to end, on a grid that never moves."""

    def __init__(self, begin_seconds: float, length_seconds: float) -> None:
        self._begin_seconds = begin_seconds
        self._length_seconds = length_seconds
        self._closed = 0

    def closes(self, now_seconds: float) -> bool:
        """True once per window, at the first tick at or after its end.

        After a gap over several windows only one closes, and the next ends on the grid again.
        """
        ended = math.floor((now_seconds - self._begin_seconds) / self._length_seconds)
        if ended <= self._closed:
            return False
        self._closed = ended
        return True


_NEARLY = 1 - 1e-9
"""Ten points that a computer adds up to a hair less are ten points."""


class WindowTracker:
    """The window that is open, the last one that closed, and what the collector holds.

    The first values are what is used of each resource, in the order of `RESOURCES`.
    """

    __slots__ = ("_closed", "_open", "_reported", "_reported_capacities", "_whole_windows", "_width")

    def __init__(self, width: int, *, from_start: bool) -> None:
        """Without `from_start` the open window had begun before there was anything to see."""
        self._width = width
        self._open = Mean(width)
        self._closed: tuple[Values, float] | None = None
        self._whole_windows = 0 if from_start else -1
        self._reported: Values = (None,) * len(RESOURCES)
        self._reported_capacities: Values = self._reported

    def add(self, values: Values, seconds: float) -> None:
        """Take in one sample."""
        self._open.add(values, seconds)

    def close(self, capacities: Values, points: float) -> bool:
        """End the open window and begin another; True if the one that ended has to be said.

        It has to if a resource moved by so many percentage points of its capacity since it was last said,
        and if it is the first whole window of all.
        """
        values = self._open.values()
        self._closed = (values, self._open.seconds)
        self._open = Mean(self._width)
        self._whole_windows += 1
        return (
            self._whole_windows == 1
            or points == 0
            or any(
                _moved(*each, points / 100)
                for each in zip(values, capacities, self._reported, self._reported_capacities, strict=False)
            )
        )

    def latest(self) -> tuple[Values, float]:
        """The means of the last window that closed, and its length; of the first as far as it got.

        Never of a later one that is still open: a few seconds of it may be far from any whole window.
        """
        return self._closed or (self._open.values(), self._open.seconds)

    def mark_reported(self, used: Quantities, capacities: Values) -> None:
        """Remember what the collector holds from now on."""
        self._reported = tuple([used.of(resource) for resource in RESOURCES])
        self._reported_capacities = capacities

    def is_unreported(self, resource_index: int) -> bool:
        """True if the collector holds nothing for this resource yet, and no whole window has been either."""
        return self._reported[resource_index] is None and self._whole_windows < 1


def _moved(
    value: float | None,
    capacity: float | None,
    said: float | None,
    reported_capacity: float | None,
    ratio: float,
) -> bool:
    if value is None or said is None:
        return value is not said
    if not capacity or not reported_capacity:
        # Without a capacity there are no points: the value waits for the heartbeat.
        return bool(capacity) is not bool(reported_capacity)
    # Where the capacity itself changed, the collector's ratio is off though the use may be the same.
    points = max(abs(value - said) / capacity, abs(value / capacity - said / reported_capacity))
    return points >= ratio * _NEARLY
