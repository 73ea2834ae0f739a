"""What held when, and how that adds up in slots of time. Pure.

A look tells of its window, and what it told holds until the window of the next one: nodes say only what
moved. Every such stretch of time is shared out among the slots that it lies in, where sums weighted by time
can be added to in any order; so a slot may be filled bit by bit.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

Values = tuple[float | None, ...]
"""Cores, bytes, bytes per second of disk and of network, watts; None where it is not known."""

WIDTH = 5
_LONGEST_DELAY_SECONDS = 7 * 86_400.0
_MOST_AHEAD_SECONDS = 60.0


class Sample(NamedTuple):
    """What was seen of a node or container at one time; no values: it was no longer there."""

    at: float
    window_seconds: float
    values: Values | None


class Interval(NamedTuple):
    """Some time in which one thing held."""

    begins_at: float
    ends_at: float
    values: Values


@dataclass(slots=True)
class SlotSums:
    """What is known of one slot."""

    seconds: float = 0.0
    totals: list[float | None] = field(default_factory=lambda: [None] * WIDTH)
    """Each value times the seconds for which it held."""
    most: list[float | None] = field(default_factory=lambda: [None] * WIDTH)

    def add(self, seconds: float, values: Values) -> None:
        self.seconds += seconds
        for place, value in enumerate(values):
            if value is not None:
                self.totals[place] = (self.totals[place] or 0.0) + seconds * value
                most = self.most[place]
                self.most[place] = value if most is None or value > most else most

    def merge(self, other: "SlotSums") -> None:
        """Take in what is known of another part of the same slot, or of the same time of something else."""
        self.seconds += other.seconds
        for place in range(WIDTH):
            total, most = other.totals[place], other.most[place]
            if total is not None:
                self.totals[place] = (self.totals[place] or 0.0) + total
            if most is not None:
                self.most[place] = max(most, self.most[place] or 0.0)


def report_time(at: float, received_at: float) -> float:
    """When a report was made: what its node's clock says, unless that cannot be.

    Words that waited in a spool are believed; a time to come, or weeks ago, is not.
    """
    plausible = received_at - _LONGEST_DELAY_SECONDS < at <= received_at + _MOST_AHEAD_SECONDS
    return at if plausible else received_at


def intervals(looks: Sequence[Sample], from_at: float) -> Iterator[Interval]:
    """What held when, as looks in their order tell it; none of it before `from_at`.

    A look whose time is not after that of the one before it has a clock to blame, and weighs nothing.
    """
    if not looks:
        return
    first = looks[0]
    if first.values is not None:
        begins_at = max(from_at, first.at - first.window_seconds)
        if begins_at < first.at:
            yield Interval(begins_at, first.at, first.values)
    for before, after in pairwise(looks):
        if after.at <= before.at:
            continue
        turned_at = after.at if after.values is None else max(before.at, after.at - after.window_seconds)
        if before.values is not None and turned_at > before.at:
            yield Interval(before.at, turned_at, before.values)
        if after.values is not None and after.at > turned_at:
            yield Interval(turned_at, after.at, after.values)


def sum_slots(known: Iterable[Interval], step_seconds: float) -> dict[int, SlotSums]:
    """The same, added up in slots of equal length, by number."""
    slots: dict[int, SlotSums] = {}
    for stretch in known:
        for slot, seconds in overlaps(stretch.begins_at, stretch.ends_at, step_seconds):
            slots.setdefault(slot, SlotSums()).add(seconds, stretch.values)
    return slots


def overlaps(begins_at: float, ends_at: float, step_seconds: float) -> Iterator[tuple[int, float]]:
    """The slots that some time lies in, and for how long it lies in each."""
    slot = int(begins_at // step_seconds)
    while begins_at < ends_at:
        until_at = min(ends_at, (slot + 1) * step_seconds)
        if until_at > begins_at:
            yield slot, until_at - begins_at
            begins_at = until_at
        slot += 1


def coarser(slots: dict[int, SlotSums], factor: int) -> dict[int, SlotSums]:
    """The same in slots that are so many times longer."""
    merged: dict[int, SlotSums] = {}
    for slot, sums in slots.items():
        merged.setdefault(slot // factor, SlotSums()).merge(sums)
    return merged


def slot_shares(begins_at: float, ends_at: float, step_seconds: float) -> dict[int, float]:
    """Which part of something even falls into each slot; all of it into one where it took no time."""
    if ends_at <= begins_at:
        return {int(ends_at // step_seconds): 1.0}
    whole = ends_at - begins_at
    return {slot: seconds / whole for slot, seconds in overlaps(begins_at, ends_at, step_seconds)}


def counter_increase(counts: Iterable[float], begun: float) -> float:
    """By how much a counter grew from `begun` on; one that went back had begun at zero again."""
    total, before = 0.0, begun
    for count in counts:
        total += count - before if count >= before else count
        before = count
    return total
