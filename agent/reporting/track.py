"""What was seen of a host or a container, window by window, and what was last said of it. Pure."""

from agent.reporting.windows import Mean, Values
from wire.resources import RESOURCES, Quantities

_NEARLY = 1 - 1e-9
"""Ten points that a computer adds up to a hair less are ten points."""


class Track:
    """The window that is open, the last one that closed, and what the collector holds.

    The first values are what is used of each resource, in the order of `RESOURCES`.
    """

    __slots__ = ("_closed", "_open", "_said", "_said_capacities", "_whole_windows", "_width")

    def __init__(self, width: int, *, since_the_beginning: bool) -> None:
        """Without `since_the_beginning` the open window had begun before there was anything to see."""
        self._width = width
        self._open = Mean(width)
        self._closed: tuple[Values, float] | None = None
        self._whole_windows = 0 if since_the_beginning else -1
        self._said: Values = (None,) * len(RESOURCES)
        self._said_capacities: Values = self._said

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
                for each in zip(values, capacities, self._said, self._said_capacities, strict=False)
            )
        )

    def latest(self) -> tuple[Values, float]:
        """The means of the last window that closed, and its length; of the first as far as it got.

        Never of a later one that is still open: a few seconds of it may be far from any whole window.
        """
        return self._closed or (self._open.values(), self._open.seconds)

    def note_said(self, used: Quantities, capacities: Values) -> None:
        """Remember what the collector holds from now on."""
        self._said = tuple([used.of(resource) for resource in RESOURCES])
        self._said_capacities = capacities

    def awaits(self, resource_index: int) -> bool:
        """True if the collector holds nothing for this resource yet, and no whole window has been either."""
        return self._said[resource_index] is None and self._whole_windows < 1


def _moved(
    value: float | None,
    capacity: float | None,
    said: float | None,
    said_capacity: float | None,
    ratio: float,
) -> bool:
    if value is None or said is None:
        return value is not said
    if not capacity or not said_capacity:
        # Without a capacity there are no points: the value waits for the heartbeat.
        return bool(capacity) is not bool(said_capacity)
    # Where the capacity itself changed, the collector's ratio is off though the use may be the same.
    points = max(abs(value - said) / capacity, abs(value / capacity - said / said_capacity))
    return points >= ratio * _NEARLY
