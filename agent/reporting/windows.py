"""Means over windows of time. Pure: no clock, times come with the samples."""

import math
from collections.abc import Sequence

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


class Tumbling:
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
