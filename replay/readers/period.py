"""A part of a trace, by the trace's own clock."""

from dataclasses import dataclass

from collector.common.arrays import Flags, Floats


@dataclass(frozen=True, slots=True)
class Period:
    """A half-open interval, in seconds of the trace's own clock."""

    start_seconds: float
    end_seconds: float

    def covers(self, seconds: Floats) -> Flags:
        """Whether each of these times is in the period."""
        inside: Flags = (seconds >= self.start_seconds) & (seconds < self.end_seconds)
        return inside
