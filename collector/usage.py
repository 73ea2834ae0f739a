"""How much each container used, over the last day: the agents' histograms of every sample, added up.

The day is held in a few slots, so that old load goes by dropping a slot, and what is left is exactly the sum
of what was said, in whatever order it came. There may be many containers, and most slots are only looked at
again when a new heartbeat comes, so they are kept packed: a few hundred bytes instead of some kilobytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from wire.messages import ContainerUsage
from wire.resources import RESOURCES, Quantities, Resource
from wire.sketch import Sketch, merged

SLOT_SECONDS = 8 * 3600.0
SLOTS = 3
_WINDOW_SECONDS = SLOTS * SLOT_SECONDS
_LARGEST = 2**63 - 1
"""Strangers may count as high as they like; sums stop where the wire's own numbers do."""

Packed = bytes
"""One sketch per resource, or None where it is not measured, in the order of `RESOURCES`."""
_Sketches = tuple[Sketch | None, Sketch | None, Sketch | None, Sketch | None]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Sketches)


def slot_at(at: float) -> int:
    """The slot that a moment lies in."""
    return int(at // SLOT_SECONDS)


def slot_of(at: float, received_at: float) -> int:
    """Where the usage of a report belongs: when it was sampled, if the node's clock can be believed at all.

    Words that waited in a spool are believed; a time to come, or longer ago than is remembered, is not.
    """
    believable = received_at - _WINDOW_SECONDS < at <= received_at
    return slot_at(at if believable else received_at)


def added(packed: Packed | None, usage: ContainerUsage) -> Packed:
    """What is in a slot, and one heartbeat's samples more."""
    before = (None,) * len(RESOURCES) if packed is None else _decoder.decode(packed)
    said = (usage.cpu, usage.memory, usage.disk, usage.network)
    return _encoder.encode([_sum(pair) for pair in zip(before, said, strict=True)])


def _sum(sketches: Iterable[Sketch | None]) -> Sketch | None:
    known = [sketch for sketch in sketches if sketch is not None]
    if len(known) <= 1:
        return known[0] if known else None
    total = merged(known)
    if total.count > _LARGEST:
        bins = {index: min(count, _LARGEST) for index, count in total.bins.items()}
        return Sketch(bins, min(total.zeros, _LARGEST))
    return total


@dataclass(slots=True)
class Ring:
    """One container's slots, and what follows from them."""

    slots: dict[int, Packed] = field(default_factory=dict)
    p90: Quantities = field(default=Quantities())
    """What it did not exceed in nine samples of ten."""
    samples: int = 0

    @property
    def newest(self) -> int:
        return max(self.slots)

    def add(self, slot: int, usage: ContainerUsage) -> None:
        """Count the samples of a heartbeat."""
        self.slots[slot] = added(self.slots.get(slot), usage)
        self.settle()

    def settle(self) -> None:
        """Drop the slots that are over, and see what the others tell."""
        oldest = self.newest - SLOTS + 1
        for slot in [slot for slot in self.slots if slot < oldest]:
            del self.slots[slot]
        sketches = self.sketches()
        self.samples = max((sketch.count for sketch in sketches.values()), default=0)
        self.p90 = quantities(sketches, 0.9)

    def sketches(self) -> dict[Resource, Sketch]:
        """All samples of the day, per resource that was measured."""
        slots = [_decoder.decode(packed) for packed in self.slots.values()]
        sums = {resource: _sum(column) for resource, *column in zip(RESOURCES, *slots, strict=True)}
        return {resource: total for resource, total in sums.items() if total is not None}


def quantities(sketches: dict[Resource, Sketch], q: float) -> Quantities:
    """One quantile of each resource."""
    values = {resource: sketch.quantile(q) for resource, sketch in sketches.items()}
    memory_bytes = values.get(Resource.MEMORY)
    return Quantities(
        cpu_cores=values.get(Resource.CPU),
        memory_bytes=None if memory_bytes is None else min(round(memory_bytes), _LARGEST),
        disk_bytes_per_second=values.get(Resource.DISK),
        network_bytes_per_second=values.get(Resource.NETWORK),
    )
