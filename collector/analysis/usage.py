"""How much each container used of late: the agents' histograms of every sample, added up and weighed.

Time is held in a few slots, so that old load goes by dropping a slot, and what is left is exactly the sum of
what was said, in whatever order it came. Until then it fades: the samples of each slot weigh less than those
of the next, by half per half-life. Everything is done for several containers at once, as a heartbeat tells of
a whole node: most of the cost is in starting an array operation, not in its length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import msgspec
import numpy as np

from collector.analysis.envelopes import PLAIN_NEED, EnvelopeRule, Statistic, statistics, totals
from collector.analysis.histograms import Floats, Keys, Numbers, Packed, pack, stack, summed, with_usage
from collector.config import EnvelopeConfig
from wire.messages import ContainerUsage
from wire.resources import RESOURCES, Quantities, Resource

SLOT_SECONDS = 8 * 3600.0
SLOTS = 3
_WINDOW_SECONDS = SLOTS * SLOT_SECONDS
_MILLISECOND = 0.001
_LARGEST = 2**63 - 1
_AT_ONCE = 100
"""More would save little time, and take much memory meanwhile."""
NOT_MEASURED: Floats = np.full((len(RESOURCES), len(Statistic)), np.nan)
NOT_MEASURED.flags.writeable = False


def slot_at(at: float) -> int:
    """The slot that a moment lies in."""
    return int(at // SLOT_SECONDS)


def within_slot(after: float, until: float) -> float:
    """The end of a span, or the last millisecond of the slot that it begins in, if that comes first.

    Times in a store are told to the millisecond.
    """
    return min(until, (slot_at(after + _MILLISECOND) + 1) * SLOT_SECONDS - _MILLISECOND)


def slot_of(at: float, received_at: float) -> int:
    """Where the usage of a report belongs: when it was sampled, if the node's clock can be believed at all.

    Words that waited in a spool are believed; a time to come, or longer ago than a day, is not.
    """
    believable = received_at - _WINDOW_SECONDS < at <= received_at
    return slot_at(at if believable else received_at)


@dataclass(frozen=True, slots=True)
class UsageWeights:
    """How samples are weighed."""

    slots: int = SLOTS
    """Those before are forgotten."""
    half_life_seconds: float = 24 * 3600.0
    need: EnvelopeRule = PLAIN_NEED

    @classmethod
    def of(cls, settings: EnvelopeConfig) -> "UsageWeights":
        """As the configuration has it."""
        return cls(
            slots=ceil(settings.window_hours * 3600 / SLOT_SECONDS),
            half_life_seconds=settings.half_life_hours * 3600,
            need=EnvelopeRule(
                percentile=(settings.cpu, settings.memory, settings.disk, settings.network),
                bursts=(
                    Resource.CPU in settings.bursts,
                    Resource.MEMORY in settings.bursts,
                    Resource.DISK in settings.bursts,
                    Resource.NETWORK in settings.bursts,
                ),
            ),
        )

    def weight(self, age_slots: int) -> float:
        """How much a sample counts that is so many slots older than the newest."""
        return float(0.5 ** (age_slots * SLOT_SECONDS / self.half_life_seconds))


@dataclass(slots=True)
class UsageRing:
    """One container's slots, and what follows from them."""

    slots: dict[int, Packed] = field(default_factory=dict)
    statistics: Floats = field(default_factory=lambda: NOT_MEASURED)
    """Per resource and `Statistic`."""
    samples: int = 0

    @property
    def newest(self) -> int:
        return max(self.slots)

    @property
    def p90(self) -> Quantities:
        """What it did not exceed in nine tenths of the time."""
        return quantities(self.statistics[:, Statistic.P90])


class ObservedContainer(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A container of a service that runs, and what it used; nobody changes it any more.

    There are very many, and none refers to itself: a search for garbage would look at them in vain.
    """

    node: str
    service: str
    image: str
    sample_seconds: float
    """What one of its samples stands for."""
    slots: Mapping[int, Packed]
    statistics: Floats
    """What these tell of it alone, per resource and `Statistic`."""
    samples: int


def add(
    rings: dict[str, UsageRing], slot: int, usages: Sequence[ContainerUsage]
) -> tuple[list[str], Keys, Numbers]:
    """Add the samples of a heartbeat to the containers' rings, which are then to be settled.

    Says whose they are, and what the slot holds of each by now.
    """
    rows = {name: row for row, name in enumerate(dict.fromkeys(usage.id for usage in usages))}
    touched = [rings.get(name) or rings.setdefault(name, UsageRing()) for name in rows]
    held = [ring.slots.get(slot) for ring in touched]
    keys, counts = with_usage(held, usages, [rows[usage.id] for usage in usages])
    for ring, packed in zip(touched, pack(keys, counts, len(touched)), strict=True):
        ring.slots[slot] = packed
    return list(rows), keys, counts


def count(
    rings: dict[str, UsageRing], slot: int, usages: Sequence[ContainerUsage], reckoning: UsageWeights
) -> Sequence[str]:
    """Add the samples of a heartbeat to the containers' rings, and see what they tell; says whose."""
    names, keys, counts = add(rings, slot, usages)
    touched = [rings[name] for name in names]
    if all(len(ring.slots) == 1 for ring in touched):
        numbers = totals(keys, counts, len(touched))
        _note(touched, keys, counts.astype(np.float64), numbers, reckoning)
    else:
        settle(touched, reckoning)
    return names


def settle(rings: Sequence[UsageRing], reckoning: UsageWeights) -> None:
    """Drop the slots that are over, and see what the others tell."""
    for start in range(0, len(rings), _AT_ONCE):
        _settle(rings[start : start + _AT_ONCE], reckoning)


def _settle(rings: Sequence[UsageRing], reckoning: UsageWeights) -> None:
    parts: list[Packed] = []
    rows: list[int] = []
    weights: list[float] = []
    for row, ring in enumerate(rings):
        newest = ring.newest
        ring.slots = {slot: packed for slot, packed in ring.slots.items() if slot > newest - reckoning.slots}
        for slot, packed in ring.slots.items():
            parts.append(packed)
            rows.append(row)
            weights.append(reckoning.weight(newest - slot))
    keys, counts, sizes = stack(parts, rows)
    numbers = totals(keys, counts, len(rings))
    weighed = counts * np.repeat(weights, sizes)
    # With one slot each, nothing stands under one key twice.
    if len(parts) > len(rings):
        keys, weighed = summed(keys, weighed)
    _note(rings, keys, weighed, numbers, reckoning)


def _note(
    rings: Sequence[UsageRing], keys: Keys, weights: Floats, numbers: Floats, reckoning: UsageWeights
) -> None:
    found = statistics(keys, weights, len(rings), reckoning.need)
    for row, number in enumerate(numbers.astype(np.int64).tolist()):
        # A copy, or every ring would keep alive what was found of all the others.
        rings[row].statistics = found[row].copy()
        rings[row].samples = number


def quantities(values: Sequence[float] | Floats) -> Quantities:
    """A number per resource, as it is told; NaN is not known."""
    cpu, memory, disk, network = (None if value != value else float(value) for value in values)  # noqa: PLR0124 - NaN
    return Quantities(
        cpu_cores=cpu,
        memory_bytes=None if memory is None else min(round(memory), _LARGEST),
        disk_bytes_per_second=disk,
        network_bytes_per_second=network,
    )
