"""Histograms of all samples of each container since the last heartbeat, and the top containers. Pure.

A sample is stored as the number of its bin, two bytes, and is added to a `wire.Sketch` only for the
heartbeat: hundreds of containers fit in a megabyte, and a sample costs one append.
"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence

from wire.messages import MAX_NAME_LENGTH, ContainerUsage
from wire.resources import RESOURCES, Resource
from wire.sketch import FLOORS, Sketch, bin_of, merged

TOP_CONTAINERS = 3
"""Number of containers with the highest usage in each heartbeat, per resource."""
_BELOW_FLOOR = -(1 << 15)
"""Marks a sample below the floor; no bin has this number."""
_MAX_UNCOUNTED = 256
"""Maximum number of stored samples before they are added to the sketch; not reached with default settings."""


class UsageTally:
    """All samples of one container."""

    __slots__ = ("_counted", "_uncounted", "totals")

    def __init__(self) -> None:
        self._uncounted = tuple(array("h") for _ in RESOURCES)
        self._counted: list[Sketch | None] = [None] * len(RESOURCES)
        self.totals = [0.0] * len(RESOURCES)
        """Usage times time: core-seconds, byte-seconds, bytes."""

    def add(self, used: Sequence[float | None], seconds: float) -> None:
        """Add one sample, in the order of `RESOURCES`."""
        totals = self.totals
        for index, uncounted in enumerate(self._uncounted):
            value = used[index]
            if value is None:
                continue
            totals[index] += value * seconds
            uncounted.append(bin_of(value) if value > FLOORS[index] else _BELOW_FLOOR)
            if len(uncounted) >= _MAX_UNCOUNTED:
                self._counted[index] = self._sketch(index)
                del uncounted[:]

    def usage(self, container_id: str) -> ContainerUsage | None:
        """All samples as histograms for the heartbeat; None without samples."""
        sketches = [self._sketch(index) for index in range(len(RESOURCES))]
        if not any(sketch is not None for sketch in sketches):
            return None
        return ContainerUsage(container_id[:MAX_NAME_LENGTH], *sketches)

    def _sketch(self, index: int) -> Sketch | None:
        uncounted, counted = self._uncounted[index], self._counted[index]
        if not uncounted:
            return counted
        if len(uncounted) == 1 and counted is None:
            only = uncounted[0]
            return Sketch(zeros=1) if only == _BELOW_FLOOR else Sketch(bins={only: 1})
        # Sorted bins compress better: neighbours share digits.
        bins = dict(sorted(Counter(uncounted).items()))
        sketch = Sketch(zeros=bins.pop(_BELOW_FLOOR, 0), bins=bins)
        return sketch if counted is None else merged([counted, sketch])


def top_containers(
    tallies: Mapping[str, UsageTally], count: int = TOP_CONTAINERS
) -> dict[Resource, tuple[str, ...]]:
    """IDs of the containers with the highest usage per resource, highest first, without unused ones."""
    top = {}
    for index, resource in enumerate(RESOURCES):
        used = [
            (tally.totals[index], container_id)
            for container_id, tally in tallies.items()
            if tally.totals[index] > 0
        ]
        if used and count:
            used.sort(key=lambda pair: (-pair[0], pair[1]))
            top[resource] = tuple(container_id[:MAX_NAME_LENGTH] for _, container_id in used[:count])
    return top
