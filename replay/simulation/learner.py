"""What a collector would have learnt of each container so far: mean, variance, and a percentile per resource.

The same as the collector keeps: histograms whose bins grow with the value, in three slots of eight hours that
are dropped as they get old; here for all containers at once. A percentile is followed from sample to sample
instead of being searched for each time, which makes a week of ten thousand containers bearable.
"""

from dataclasses import dataclass
from math import ceil, log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.analysis.envelopes import EnvelopeRule
from collector.snapshot.power_curves import Floats, Rows
from wire.resources import RESOURCES

SLOT_SECONDS: Final = 8 * 3600.0
SLOTS: Final = 3
_FLOORS = np.array([1e-3, 1e6, 1e3, 1e3])
"""Less than this is nothing: a thousandth of a core, a megabyte, a kilobyte per second."""
_GROWTH = log(1.03)
_BINS = 512
_WIDTH = len(RESOURCES)
_FIRST_ROWS = 64
_NO_ROW = 0
"""The row of those that have none: nothing is ever added to it."""
_PLACES = np.arange(_WIDTH)


def bins_of(values: Floats) -> NDArray[np.intp]:
    """The bin of each value, by its column's resource; 0 is for nothing."""
    grown = np.ceil(np.log(np.maximum(values, _FLOORS) / _FLOORS) / _GROWTH)
    bins: NDArray[np.intp] = np.clip(grown, 0, _BINS - 1).astype(np.intp)
    return bins


def values_of(bins: NDArray[np.intp]) -> Floats:
    """What stands for each bin: the middle of it."""
    return np.where(bins == 0, 0.0, _FLOORS * np.exp((bins - 0.5) * _GROWTH))


_VALUES = values_of(np.repeat(np.arange(_BINS)[:, None], _WIDTH, axis=1)).T
"""What stands for each bin of each resource."""


@dataclass(frozen=True, eq=False, slots=True)
class Learnt:
    """Of some containers; nothing where there are no samples."""

    samples: NDArray[np.int64]
    mean: Floats
    variance: Floats
    envelope: Floats


class Learner:
    """Statistics of many containers. A container has a row here only while it runs."""

    def __init__(self, containers: int, need: EnvelopeRule) -> None:
        self._row = np.full(containers, _NO_ROW, dtype=np.intp)
        self._percentiles = np.array(need.percentile)
        self._bursts = np.array(need.bursts)
        self._free = list(range(_FIRST_ROWS - 1, _NO_ROW, -1))
        self._slot = 0
        self._allocate(_FIRST_ROWS)

    def _allocate(self, rows: int) -> None:
        self._counts = [np.zeros((rows, _WIDTH, _BINS), dtype=np.uint16) for _ in range(SLOTS)]
        self._total = np.zeros((rows, _WIDTH, _BINS), dtype=np.uint16)
        self._sums = np.zeros((SLOTS, rows, _WIDTH))
        self._squares = np.zeros((SLOTS, rows, _WIDTH))
        self._samples = np.zeros((SLOTS, rows), dtype=np.int64)
        self._at_bin = np.zeros((rows, _WIDTH), dtype=np.intp)
        self._up_to_bin = np.zeros((rows, _WIDTH), dtype=np.int64)
        """How many samples lie in the bin of the percentile or below it."""
        self._beyond = np.zeros((rows, _WIDTH))
        """What the samples in higher bins add up to."""

    def _grow(self, wanted: int) -> None:
        before = self._total.shape[0]
        after = before
        while after < before + wanted:
            after *= 2
        kept = (self._counts, self._total, self._sums, self._squares, self._samples)
        pointers = self._at_bin, self._up_to_bin, self._beyond
        self._allocate(after)
        for new, old in zip(self._counts, kept[0], strict=True):
            new[:before] = old
        self._total[:before] = kept[1]
        self._sums[:, :before], self._squares[:, :before] = kept[2], kept[3]
        self._samples[:, :before] = kept[4]
        self._at_bin[:before], self._up_to_bin[:before], self._beyond[:before] = pointers
        self._free.extend(range(after - 1, before - 1, -1))

    def begin(self, containers: Rows) -> None:
        """Give these a row, unless they have one."""
        new = containers[self._row[containers] == _NO_ROW]
        if new.size > len(self._free):
            self._grow(int(new.size) - len(self._free))
        for container in new:
            self._row[container] = self._free.pop()

    def end(self, containers: Rows) -> None:
        """Forget these."""
        rows = self._row[containers]
        rows = rows[rows != _NO_ROW]
        for counts in (*self._counts, self._total):
            counts[rows] = 0
        self._sums[:, rows] = self._squares[:, rows] = 0.0
        self._samples[:, rows] = 0
        self._at_bin[rows] = self._up_to_bin[rows] = 0
        self._beyond[rows] = 0.0
        self._free.extend(int(row) for row in rows)
        self._row[containers] = _NO_ROW

    def add(self, seconds: float, containers: Rows, used: Floats) -> None:
        """Take in one sample of each of these."""
        self._turn(int(seconds // SLOT_SECONDS))
        rows, slot = self._row[containers], self._slot % SLOTS
        bins = bins_of(used)
        at = rows[:, None], _PLACES, bins
        self._counts[slot][at] += 1
        self._total[at] += 1
        within = bins <= self._at_bin[rows]
        self._up_to_bin[rows] += within
        self._beyond[rows] += np.where(within, 0.0, values_of(bins))
        self._sums[slot, rows] += used
        self._squares[slot, rows] += used * used
        self._samples[slot, rows] += 1
        self._follow(rows)

    def _turn(self, slot: int) -> None:
        """Drop the slots that are over."""
        if slot == self._slot:
            return
        for each in range(max(self._slot + 1, slot - SLOTS + 1), slot + 1):
            place = each % SLOTS
            self._total -= self._counts[place]
            self._counts[place][:] = 0
            self._sums[place] = self._squares[place] = 0.0
            self._samples[place] = 0
        self._slot = slot
        # From the lowest bin up again, as if all that is left were new.
        self._at_bin[:] = 0
        self._up_to_bin = self._total[:, :, 0].astype(np.int64)
        self._beyond = np.einsum("ijk,jk->ij", self._total, _VALUES)
        self._follow(np.arange(self._at_bin.shape[0]))

    def _follow(self, rows: Rows) -> None:
        """Move each percentile up or down to the bin where it now is."""
        ranks = np.maximum(1, np.ceil(self._percentiles * self._samples[:, rows].sum(axis=0)[:, None] - 1e-9))
        row, place = (each.ravel() for each in np.broadcast_arrays(rows[:, None], _PLACES))
        rank = ranks.ravel()
        low = np.flatnonzero(self._up_to_bin[row, place] < rank)
        while low.size:
            at = row[low], place[low]
            self._at_bin[at] += 1
            entered = self._total[(*at, self._at_bin[at])]
            self._up_to_bin[at] += entered
            self._beyond[at] -= entered * _VALUES[at[1], self._at_bin[at]]
            low = low[(self._up_to_bin[at] < rank[low]) & (self._at_bin[at] < _BINS - 1)]
        high = np.arange(rank.size)
        while high.size:
            at = row[high], place[high]
            left = self._total[(*at, self._at_bin[at])]
            goes = (self._up_to_bin[at] - left >= rank[high]) & (self._at_bin[at] > 0)
            high, left = high[goes], left[goes]
            at = row[high], place[high]
            self._up_to_bin[at] -= left
            self._beyond[at] += left * _VALUES[at[1], self._at_bin[at]]
            self._at_bin[at] -= 1

    def samples(self, containers: Rows) -> NDArray[np.int64]:
        """How many samples of each there are."""
        samples: NDArray[np.int64] = self._samples[:, self._row[containers]].sum(axis=0)
        return samples

    def learnt(self, containers: Rows) -> Learnt:
        """What is known of each of these."""
        rows, samples = self._row[containers], self.samples(containers)
        count = np.maximum(samples, 1)[:, None]
        mean: Floats = self._sums[:, rows].sum(axis=0) / count
        squares: Floats = self._squares[:, rows].sum(axis=0) / count
        return Learnt(
            samples=samples,
            mean=mean,
            variance=np.maximum(squares - mean * mean, 0.0),
            envelope=self._envelope(rows, samples[:, None]),
        )

    def _envelope(self, rows: Rows, samples: NDArray[np.int64]) -> Floats:
        """The percentile, or where load comes in bursts the mean of what lies above it."""
        at = self._at_bin[rows]
        percentile = _VALUES[_PLACES, at]
        rank = self._percentiles * samples
        in_bin = np.maximum(self._up_to_bin[rows] - rank, 0.0)
        above = np.maximum(self._beyond[rows], 0.0) + in_bin * percentile
        count = samples - rank
        burst = np.divide(above, count, out=percentile.copy(), where=count > 0)
        return np.where(self._bursts, burst, percentile)


def nearest_rank(values: Floats, percentile: float) -> Floats:
    """The value that this share of the rows do not exceed, column by column."""
    ordered = np.sort(values, axis=0)
    found: Floats = ordered[max(1, ceil(percentile * len(ordered))) - 1]
    return found
