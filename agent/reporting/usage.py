"""Every sample of every container since the last heartbeat, and who used most of what. Pure.

A sample is kept as the number of its bin, two bytes, and becomes part of a `wire.Sketch` only when the
heartbeat is made: hundreds of containers fit in a megabyte, and a tick costs an append.
"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence

from wire.messages import MAX_NAME_LENGTH, ContainerUsage
from wire.resources import RESOURCES, Resource
from wire.sketch import FLOORS, Sketch, bin_of, merged

_BELOW_FLOOR = -(1 << 15)
"""Stands for a sample below the floor; no bin has this number."""
_MAX_UNCOUNTED = 256
"""So many samples are kept one by one before they are counted; with the default settings none has to be."""


class UsageTally:
    """What one container used, sample by sample."""

    __slots__ = ("_counted", "_uncounted", "totals")

    def __init__(self) -> None:
        self._uncounted = tuple(array("h") for _ in RESOURCES)
        self._counted: list[Sketch | None] = [None] * len(RESOURCES)
        self.totals = [0.0] * len(RESOURCES)
        """Use times time: core-seconds, byte-seconds, bytes."""

    def add(self, used: Sequence[float | None], seconds: float) -> None:
        """Count one sample, given in the order of `RESOURCES`."""
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
        """All samples as the heartbeat tells them; None if there was none."""
        sketches = [self._sketch(index) for index in range(len(RESOURCES))]
        if not any(sketch is not None for sketch in sketches):
            return None
        return ContainerUsage(container_id[:MAX_NAME_LENGTH], *sketches)

    def _sketch(self, index: int) -> Sketch | None:
        uncounted, counted = self._uncounted[index], self._counted[index]
        if not uncounted:
            return counted
        # In order, neighbouring bins repeat each other's digits, which is what compresses well.
        bins = dict(sorted(Counter(uncounted).items()))
        sketch = Sketch(zeros=bins.pop(_BELOW_FLOOR, 0), bins=bins)
        return sketch if counted is None else merged([counted, sketch])


def top_containers(tallies: Mapping[str, UsageTally], most: int) -> dict[Resource, tuple[str, ...]]:
    """The ids of those who used most of each resource, the greediest first; who used nothing is not named."""
    top = {}
    for index, resource in enumerate(RESOURCES):
        used = [
            (tally.totals[index], container_id)
            for container_id, tally in tallies.items()
            if tally.totals[index] > 0
        ]
        if used and most:
            used.sort(key=lambda pair: (-pair[0], pair[1]))
            top[resource] = tuple(container_id[:MAX_NAME_LENGTH] for _, container_id in used[:most])
    return top
