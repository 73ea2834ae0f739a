"""Time-weighted means over windows, of all nodes or containers at once. Pure."""

import numpy as np

from collector.common.arrays import Floats, Numbers
from collector.history.timeline import Samples, hold


def weighted_means(subjects: Numbers, columns: Floats) -> list[list[float]]:
    """Per subject: its first row, whether it exists, number of samples, their seconds, and the means.

    A row per sample, sorted by subject: begin and end of its window, its time, the number of its facts (NaN
    if it no longer exists), the length of its own window, CPU cores, memory bytes, watts, and the counters of
    joules and CPU seconds.
    """
    from_at, until_at, at, facts, window_seconds, *gauges, joules_total, cpu_seconds_total = columns.T
    samples = Samples(
        subject=subjects,
        at=at,
        window_seconds=window_seconds,
        exists=~np.isnan(facts),
        values=np.column_stack(gauges),
        from_at=np.full(at.size, -np.inf),
    )
    ends = samples.ends
    starts = np.append([0], ends[:-1] + 1)
    held = _Held(samples, from_at, until_at)
    counts = np.zeros(at.size)
    counts[held.sample] = counts[ends[samples.exists[ends]]] = 1.0
    unknown = np.full(at.size, np.nan)
    rates = (_rates(samples, cpu_seconds_total), unknown, _rates(samples, joules_total))
    found = np.column_stack(
        (
            starts,
            np.logical_or.reduceat(samples.exists, starts),
            np.add.reduceat(counts, starts),
            np.bincount(held.place, held.seconds, ends.size),
            *(held.mean(gauge, rate) for gauge, rate in zip(samples.values.T, rates, strict=True)),
        )
    )
    return found.tolist()  # type: ignore[no-any-return]


class _Held:
    """The periods in which samples applied within their windows; the last samples until the end of it."""

    def __init__(self, samples: Samples, from_at: Floats, until_at: Floats) -> None:
        self._samples = samples
        self._ends = samples.ends
        ends = self._ends
        # The row of each sample, and again of the last ones, which are repeated.
        row = np.insert(np.arange(samples.at.size), ends + 1, ends)
        is_repeated = np.insert(np.zeros(samples.at.size, dtype=np.bool_), ends + 1, True)
        periods = hold(samples.held_until(until_at[ends]))
        of_sample = row[periods.sample]
        periods = periods.within(from_at[of_sample], until_at[of_sample])
        self.sample = row[periods.sample]
        self.seconds = periods.ends_at - periods.begins_at
        self.place = np.searchsorted(ends, self.sample)
        """The place of its subject."""
        self._ended_by = row[periods.ended_by]
        self._is_open = is_repeated[periods.ended_by]

    def mean(self, gauge: Floats, rate: Floats) -> Floats:
        """The mean per subject: of the rate of a counter where it is known, else of the gauge.

        A counter covers all the time between two samples.
        """
        counted = np.where(self._is_open, np.nan, rate[self._ended_by])
        value = np.where(np.isnan(counted), gauge[self.sample], counted)
        known = ~np.isnan(value)
        place, seconds = self.place[known], self.seconds[known]
        total = np.bincount(place, value[known] * seconds, self._ends.size)
        known_seconds = np.bincount(place, seconds, self._ends.size)
        # If no time has passed yet, the mean is the last sample.
        latest = np.where(self._samples.exists, gauge, np.nan)[self._ends]
        return np.where(known_seconds > 0, total / known_seconds, latest)


def _rates(samples: Samples, counter: Floats) -> Floats:
    """The rate of a counter since the previous sample; unknown if the counter was reset."""
    increase, seconds = np.diff(counter, prepend=np.nan), np.diff(samples.at, prepend=np.nan)
    is_same = np.diff(samples.subject, prepend=-1) == 0
    return np.where(is_same & (increase >= 0) & (seconds > 0), increase / seconds, np.nan)
