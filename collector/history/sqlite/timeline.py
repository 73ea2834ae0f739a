"""Which values applied when, and their time-weighted sums per slot. Pure.

Nodes report only what changed, so a sample describes more than its own window:

- its values apply to its window, `[at - window_seconds, at)`;
- after that they apply until the window of the next sample begins.

`intervals` applies this rule to one node or container, `change_times` to columns of many. Each interval is
divided among the slots that it overlaps. Time-weighted sums can be added in any order, so a slot can be
filled in parts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Flags, Floats

Values = tuple[float | None, ...]
"""CPU cores, memory bytes, disk and network bytes per second, watts, pressure of CPU, memory and disk;
None if unknown."""

WATTS = 4
PRESSURE = slice(5, 8)
"""Places of the power and of the pressure in `Values`."""
WIDTH = 8
MAX_DELAY_SECONDS = 7 * 86_400.0
MAX_AHEAD_SECONDS = 60.0
_MILLISECONDS, _MILLIONTHS = 1e3, 1e6


class Sample(NamedTuple):
    """The values of a node or container at one time; without values, it no longer exists."""

    at: float
    window_seconds: float
    values: Values | None


class Interval(NamedTuple):
    """A period with constant values."""

    begins_at: float
    ends_at: float
    values: Values


@dataclass(slots=True)
class SlotSums:
    """Time-weighted sums and maxima of one slot."""

    seconds: float = 0.0
    totals: list[float | None] = field(default_factory=lambda: [None] * WIDTH)
    """Each value times its duration in seconds."""
    maxima: list[float | None] = field(default_factory=lambda: [None] * WIDTH)

    def add(self, seconds: float, values: Values) -> None:
        self.seconds += seconds
        totals, maxima = self.totals, self.maxima
        for index, value in enumerate(values):
            if value is not None:
                total, highest = totals[index], maxima[index]
                totals[index] = (total or 0.0) + seconds * value
                if highest is None or value > highest:
                    maxima[index] = value

    def merge(self, other: "SlotSums") -> None:
        """Add another part of the same slot, or the same slot of another node or container."""
        self.seconds += other.seconds
        for index in range(WIDTH):
            total, highest = other.totals[index], other.maxima[index]
            if total is not None:
                self.totals[index] = (self.totals[index] or 0.0) + total
            if highest is not None:
                self.maxima[index] = max(highest, self.maxima[index] or 0.0)

    def copy(self) -> "SlotSums":
        return SlotSums(self.seconds, self.totals.copy(), self.maxima.copy())

    def stored(self) -> tuple[float | None, ...]:
        """The columns of a rollup: pressure, which is at most all of the time, as whole numbers."""
        waiting = [_whole(total, self.seconds, _MILLISECONDS) for total in self.totals[PRESSURE]]
        highest = [_whole(ratio, 1.0, _MILLIONTHS) for ratio in self.maxima[PRESSURE]]
        plain = slice(PRESSURE.start)
        return self.seconds, *self.totals[plain], *waiting, *self.maxima[plain], *highest

    @classmethod
    def of_stored(cls, seconds: float, values: Sequence[float | None]) -> "SlotSums":
        """The sums in the columns of a rollup, which follow its seconds."""
        totals, maxima = list(values[:WIDTH]), list(values[WIDTH:])
        totals[PRESSURE] = [None if each is None else each / _MILLISECONDS for each in totals[PRESSURE]]
        maxima[PRESSURE] = [None if each is None else each / _MILLIONTHS for each in maxima[PRESSURE]]
        return cls(seconds, totals, maxima)


def _whole(value: float | None, most: float, factor: float) -> float | None:
    return None if value is None else float(round(min(value, most) * factor))


def report_time(at: float, received_at: float) -> float:
    """The time of a report: the node's own if plausible, else the time of receipt.

    Reports that waited in a spool are plausible; a time in the future or weeks ago is not.
    """
    is_plausible = received_at - MAX_DELAY_SECONDS < at <= received_at + MAX_AHEAD_SECONDS
    return at if is_plausible else received_at


def intervals(samples: Sequence[Sample], from_at: float) -> Iterator[Interval]:
    """The intervals that samples, in order, describe; none begins before `from_at`.

    A sample that is not later than the previous one (the clock was set back) has no duration.
    """
    if not samples:
        return
    first = samples[0]
    if first.values is not None:
        begins_at = max(from_at, first.at - first.window_seconds)
        if begins_at < first.at:
            yield Interval(begins_at, first.at, first.values)
    for before, after in pairwise(samples):
        if after.at <= before.at:
            continue
        changed_at = after.at if after.values is None else max(before.at, after.at - after.window_seconds)
        if before.values is not None and changed_at > before.at:
            yield Interval(before.at, changed_at, before.values)
        if after.values is not None and after.at > changed_at:
            yield Interval(changed_at, after.at, after.values)


def change_times(at: Floats, window_seconds: Floats, previous_at: Floats, exists: Flags) -> Floats:
    """When the values of each sample replace those of the previous one: the rule of `intervals`, in columns.

    `previous_at` is NaN where there is no previous sample.
    """
    return np.where(exists, np.fmax(at - window_seconds, previous_at), at)


def sum_slots(periods: Iterable[Interval], step_seconds: float) -> dict[int, SlotSums]:
    """The sums of intervals per slot of this length, by slot number."""
    slots: dict[int, SlotSums] = {}
    for begins_at, ends_at, values in periods:
        for slot, seconds in overlaps(begins_at, ends_at, step_seconds):
            sums = slots.get(slot)
            if sums is None:
                sums = slots[slot] = SlotSums()
            sums.add(seconds, values)
    return slots


def overlaps(begins_at: float, ends_at: float, step_seconds: float) -> Iterator[tuple[int, float]]:
    """The slots that a period overlaps, each with the seconds of overlap."""
    slot = int(begins_at // step_seconds)
    while begins_at < ends_at:
        until_at = min(ends_at, (slot + 1) * step_seconds)
        if until_at > begins_at:
            yield slot, until_at - begins_at
            begins_at = until_at
        slot += 1


def merge_slots(slots: dict[int, SlotSums], factor: int) -> dict[int, SlotSums]:
    """The same sums in slots that are `factor` times longer."""
    merged: dict[int, SlotSums] = {}
    for slot, sums in slots.items():
        of_slot = merged.get(slot // factor)
        if of_slot is None:
            merged[slot // factor] = sums.copy()
        else:
            of_slot.merge(sums)
    return merged


def slot_shares(begins_at: float, ends_at: float, step_seconds: float) -> dict[int, float]:
    """The share of a period that each slot overlaps; an empty period belongs to one slot."""
    if ends_at <= begins_at:
        return {int(ends_at // step_seconds): 1.0}
    length = ends_at - begins_at
    return {slot: seconds / length for slot, seconds in overlaps(begins_at, ends_at, step_seconds)}


def counter_increase(counts: Iterable[float], start: float) -> float:
    """The increase of a counter from `start`; one that decreased was reset to zero."""
    total, before = 0.0, start
    for count in counts:
        total += count - before if count >= before else count
        before = count
    return total


class SampleColumns(NamedTuple):
    """Samples of many nodes or containers, one row each: sorted by subject, then in the order of reports."""

    subject: NDArray[np.int64]
    at: Floats
    window_seconds: Floats
    exists: Flags
    values: Floats
    """One column per value; NaN is unknown."""
    from_at: Floats
    """No interval of the subject begins earlier."""


class SlotColumns(NamedTuple):
    """Time-weighted sums, one row per subject and slot; NaN where nothing is known."""

    subject: NDArray[np.int64]
    slot: NDArray[np.int64]
    seconds: Floats
    totals: Floats


def sum_samples(samples: SampleColumns, step_seconds: float) -> SlotColumns:
    """The sums of `sum_slots` over `intervals`, of many subjects at once."""
    at, exists = samples.at, samples.exists
    is_first = np.ones(at.size, dtype=np.bool_)
    is_first[1:] = samples.subject[1:] != samples.subject[:-1]
    before = np.arange(at.size) - ~is_first
    previous_at = np.where(is_first, samples.from_at, at[before])
    changed_at = change_times(at, samples.window_seconds, previous_at, exists)
    is_later = is_first | (at > previous_at)
    held = np.flatnonzero(is_later & ~is_first & exists[before] & (changed_at > previous_at))
    own = np.flatnonzero(is_later & exists & (at > changed_at))
    begins_at = np.concatenate((previous_at[held], changed_at[own]))
    ends_at = np.concatenate((changed_at[held], at[own]))
    rows = np.concatenate((before[held], own))
    return _divide(samples.subject[rows], begins_at, ends_at, samples.values[rows], step_seconds)


def _divide(
    subject: NDArray[np.int64], begins_at: Floats, ends_at: Floats, values: Floats, step_seconds: float
) -> SlotColumns:
    """Divide intervals among the slots that they overlap, and add up."""
    first = (begins_at // step_seconds).astype(np.int64)
    parts = np.maximum(1, np.ceil(ends_at / step_seconds).astype(np.int64) - first)
    rows = np.repeat(np.arange(first.size), parts)
    slot = first[rows] + np.arange(rows.size) - np.repeat(np.cumsum(parts) - parts, parts)
    seconds = np.minimum(ends_at[rows], (slot + 1) * step_seconds) - np.maximum(
        begins_at[rows], slot * step_seconds
    )
    span = int(slot.max(initial=0)) + 1
    pairs, place = np.unique(subject[rows] * span + slot, return_inverse=True)
    known = ~np.isnan(values[rows])
    totals = np.full((pairs.size, values.shape[1]), np.nan)
    for column in range(values.shape[1]):
        some = known[:, column]
        weighed = np.bincount(place[some], values[rows[some], column] * seconds[some], len(totals))
        has = np.bincount(place[some], minlength=len(totals)) > 0
        totals[has, column] = weighed[has]
    in_slot: Floats = np.bincount(place, seconds, len(totals)).astype(np.float64)
    return SlotColumns(pairs // span, pairs % span, in_slot, totals)
