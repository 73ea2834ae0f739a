"""Which values applied when, and their time-weighted sums per bucket of time. Pure.

Nodes report only what changed, so a sample describes more than its own window:

- its values apply to its window, `[at - window_seconds, at)`;
- after that they apply until the window of the next sample begins.

`hold` applies this rule to the samples of many nodes and containers at once, in columns; unknown values are
NaN. Each period is divided among the buckets that it overlaps. Time-weighted sums can be added in any order,
so a bucket can be filled in parts.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from collector.common.arrays import Flags, Floats, Numbers

WATTS, PRESSURE, WIDTH = 4, slice(5, 8), 8
"""The values are CPU cores, memory bytes, disk and network bytes per second, watts, and the pressure of CPU,
memory and disk."""


class Samples(NamedTuple):
    """Samples of many nodes or containers, one row each: sorted by subject, then in the order of reports."""

    subject: Numbers
    at: Floats
    window_seconds: Floats
    exists: Flags
    values: Floats
    """One column per value."""
    from_at: Floats
    """No period of the subject begins earlier."""

    @property
    def ends(self) -> Numbers:
        """The last row of each subject."""
        return np.flatnonzero(np.append(self.subject[1:] != self.subject[:-1], [True] * bool(self.at.size)))

    def held_until(self, until: Floats) -> "Samples":
        """With the last sample of each subject repeated at a time: its values still applied then."""
        ends = self.ends
        return Samples(
            subject=np.insert(self.subject, ends + 1, self.subject[ends]),
            at=np.insert(self.at, ends + 1, until),
            window_seconds=np.insert(self.window_seconds, ends + 1, 0.0),
            exists=np.insert(self.exists, ends + 1, self.exists[ends]),
            values=np.insert(self.values, ends + 1, self.values[ends], axis=0),
            from_at=np.insert(self.from_at, ends + 1, self.from_at[ends]),
        )


class Periods(NamedTuple):
    """Periods in which the values of one sample applied."""

    begins_at: Floats
    ends_at: Floats
    sample: Numbers
    """The row of that sample."""
    ended_by: Numbers
    """The row of the sample up to which the period goes: the same one in its own window, else the next."""

    def within(self, start: Floats | float, end: Floats | float) -> "Periods":
        """The parts of the periods from a time to another."""
        begins_at, ends_at = np.maximum(start, self.begins_at), np.minimum(end, self.ends_at)
        some = begins_at < ends_at
        return Periods(begins_at[some], ends_at[some], self.sample[some], self.ended_by[some])


class BucketSums(NamedTuple):
    """Time-weighted sums and maxima, one row per subject and bucket; NaN where nothing is known."""

    subject: Numbers
    bucket: Numbers
    """Unix time of its start, divided by its length."""
    seconds: Floats
    """Time in it that is known."""
    totals: Floats
    """Each value times its duration in seconds."""
    maxima: Floats
    """No columns where only the sums are needed."""

    def take(self, rows: Numbers | Flags) -> "BucketSums":
        return BucketSums(
            self.subject[rows], self.bucket[rows], self.seconds[rows], self.totals[rows], self.maxima[rows]
        )


def columns(rows: Sequence[Sequence[object]], width: int) -> Floats:
    """Rows of numbers as one array; null becomes NaN. Ids are exact: they are far below 2^53."""
    return np.array(rows, dtype=np.float64).reshape(-1, width)


def find(known: Numbers, wanted: Numbers) -> tuple[Numbers, Numbers]:
    """The places of numbers in a sorted column, and which of them are in it."""
    places = np.searchsorted(known, wanted)
    some = np.flatnonzero(known[np.minimum(places, known.size - 1)] == wanted) if known.size else wanted[:0]
    return places[some], some


def report_time(
    at: float,
    received_at: float,
    max_delay_seconds: float = 7 * 86_400.0,
    max_ahead_seconds: float = 60.0,
) -> float:
    """The time of a report: the node's own if plausible, else the time of receipt.

    Reports that waited in a spool are plausible; a time in the future or weeks ago is not.
    """
    is_plausible = received_at - max_delay_seconds < at <= received_at + max_ahead_seconds
    return at if is_plausible else received_at


def change_times(at: Floats, window_seconds: Floats, previous_at: Floats) -> Floats:
    """When the values of each sample replace those of the previous one: when its window begins."""
    return np.maximum(at - window_seconds, previous_at)


def hold(samples: Samples) -> Periods:
    """The periods that samples describe.

    A sample that is not later than the previous one (the clock was set back) has no duration.
    """
    at, exists = samples.at, samples.exists
    is_first = np.ones(at.size, dtype=np.bool_)
    is_first[1:] = samples.subject[1:] != samples.subject[:-1]
    before = np.arange(at.size) - ~is_first
    previous_at = np.where(is_first, samples.from_at, at[before])
    changed_at = np.where(exists, change_times(at, samples.window_seconds, previous_at), at)
    held = np.flatnonzero(~is_first & exists[before] & (changed_at > previous_at) & (at > previous_at))
    own = np.flatnonzero(exists & (at > changed_at))
    return Periods(
        begins_at=np.concatenate((previous_at[held], changed_at[own])),
        ends_at=np.concatenate((changed_at[held], at[own])),
        sample=np.concatenate((before[held], own)),
        ended_by=np.concatenate((held, own)),
    )


def sum_buckets(samples: Samples, periods: Periods, step_seconds: float) -> BucketSums:
    """Divide periods among the buckets of this length that they overlap, and add up."""
    begins_at, ends_at = periods.begins_at, periods.ends_at
    first = (begins_at // step_seconds).astype(np.int64)
    parts = np.maximum(1, np.ceil(ends_at / step_seconds).astype(np.int64) - first)
    rows = np.repeat(np.arange(first.size), parts)
    bucket = first[rows] + np.arange(rows.size) - np.repeat(np.cumsum(parts) - parts, parts)
    seconds = np.minimum(ends_at[rows], (bucket + 1) * step_seconds) - np.maximum(
        begins_at[rows], bucket * step_seconds
    )
    some = seconds > 0
    row, seconds = periods.sample[rows[some]], seconds[some]
    values = samples.values[row]
    with np.errstate(over="ignore", invalid="ignore"):
        totals = values * seconds[:, None]
    return merge_buckets(BucketSums(samples.subject[row], bucket[some], seconds, totals, values))


def merge_buckets(parts: BucketSums) -> BucketSums:
    """Add up rows of the same bucket of a subject."""
    parts = parts.take(np.lexsort((parts.bucket, parts.subject)))
    differs = (np.diff(parts.subject) != 0) | (np.diff(parts.bucket) != 0)
    starts = np.flatnonzero(np.append([True] * bool(parts.subject.size), differs))
    return BucketSums(
        parts.subject[starts],
        parts.bucket[starts],
        np.add.reduceat(parts.seconds, starts),
        add_known(parts.totals, starts),
        np.fmax.reduceat(parts.maxima, starts),
    )


def add_known(values: Floats, starts: Numbers) -> Floats:
    """The sums of the known values from each start to the next; NaN where none is known."""
    known = ~np.isnan(values)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.add.reduceat(np.where(known, values, 0.0), starts)
    return np.where(np.logical_or.reduceat(known, starts), sums, np.nan)


def overlaps(begins_at: float, ends_at: float, step_seconds: float) -> Iterator[tuple[int, float]]:
    """The buckets that a period overlaps, each with the seconds of overlap."""
    bucket = int(begins_at // step_seconds)
    while begins_at < ends_at:
        until_at = min(ends_at, (bucket + 1) * step_seconds)
        if until_at > begins_at:
            yield bucket, until_at - begins_at
            begins_at = until_at
        bucket += 1


def bucket_shares(begins_at: float, ends_at: float, step_seconds: float) -> dict[int, float]:
    """The share of a period that each bucket overlaps; an empty period belongs to one bucket."""
    if ends_at <= begins_at:
        return {int(ends_at // step_seconds): 1.0}
    length = ends_at - begins_at
    return {bucket: seconds / length for bucket, seconds in overlaps(begins_at, ends_at, step_seconds)}
