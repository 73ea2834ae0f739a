"""Every sample of every container since the last heartbeat, and who used most of what. Pure.

A sample is kept as the number of its bin, two bytes, and becomes part of a `wire.Sketch` only when the
heartbeat is made: hundreds of containers fit in a megabyte, and a tick costs an append.
"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence

from wire.messages import LONGEST_NAME, ContainerUsage
from wire.resources import RESOURCES, Resource
from wire.sketch import FLOORS, Sketch, bin_of, merged

_NOTHING = -(1 << 15)
"""Stands for a sample below the floor; no bin has this number."""
_MOST_LOOSE = 256
"""So many samples are kept one by one before they are counted; with the default settings none has to be."""


class Tally:
    """What one container used, sample by sample."""

    __slots__ = ("_counted", "_loose", "totals")

    def __init__(self) -> None:
        self._loose = tuple(array("h") for _ in RESOURCES)
        self._counted: list[Sketch | None] = [None] * len(RESOURCES)
        self.totals = [0.0] * len(RESOURCES)
        """Use times time: core-seconds, byte-seconds, bytes."""

    def add(self, used: Sequence[float | None], seconds: float) -> None:
        """Count one sample, given in the order of `RESOURCES`."""
        totals = self.totals
        for index, loose in enumerate(self._loose):
            value = used[index]
            if value is None:
                continue
            totals[index] += value * seconds
            loose.append(bin_of(value) if value > FLOORS[index] else _NOTHING)
            if len(loose) >= _MOST_LOOSE:
                self._counted[index] = self._sketch(index)
                del loose[:]

    def usage(self, container_id: str) -> ContainerUsage | None:
        """All samples as the heartbeat tells them; None if there was none."""
        sketches = [self._sketch(index) for index in range(len(RESOURCES))]
        if not any(sketch is not None for sketch in sketches):
            return None
        return ContainerUsage(container_id[:LONGEST_NAME], *sketches)

    def _sketch(self, index: int) -> Sketch | None:
        loose, counted = self._loose[index], self._counted[index]
        if not loose:
            return counted
        # In order, neighbouring bins repeat each other's digits, which is what compresses well.
        bins = dict(sorted(Counter(loose).items()))
        sketch = Sketch(zeros=bins.pop(_NOTHING, 0), bins=bins)
        return sketch if counted is None else merged([counted, sketch])


def greediest(tallies: Mapping[str, Tally], most: int) -> dict[Resource, tuple[str, ...]]:
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
            top[resource] = tuple(container_id[:LONGEST_NAME] for _, container_id in used[:most])
    return top
