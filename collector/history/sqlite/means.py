"""Time-weighted means over a window.

A window is measured by the node's own clock, which may be off, and ends with the node's last report: a beacon
confirms that nothing changed. Samples are taken in order of sequence, whatever their clock says; a step back
in time has no weight. Every node repeats all values with its heartbeat, so nothing before the last heartbeat
ahead of the window needs to be read.

SQL finds the samples. They are weighted as columns, all nodes or containers at once, which takes a fraction
of the time of SQL window functions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Flags, Floats
from collector.history.interface import Mean, WindowEnd
from collector.history.sqlite.timeline import change_times

_IN_WINDOW = """
WITH windows AS (
    SELECT n.name AS node, b.id AS boot_id,
           json_extract(each.value, '$[2]') - :window AS from_at,
           json_extract(each.value, '$[2]') AS until_at
    FROM json_each(:window_ends) each
    JOIN nodes n ON n.name = json_extract(each.value, '$[0]')
    JOIN boots b ON b.node_id = n.id AND b.name = json_extract(each.value, '$[1]')
), selected AS (
    SELECT w.*, r.id AS report_id, r.sequence, r.at
    FROM windows w JOIN reports r ON r.boot_id = w.boot_id AND r.sequence >= coalesce((
        SELECT h.sequence FROM reports h
        WHERE h.boot_id = w.boot_id AND h.heartbeat IS NOT NULL AND h.at <= w.from_at
        ORDER BY h.sequence DESC LIMIT 1
    ), 0)
)"""

_SAMPLES = """
SELECT p.node, {subject} AS subject, p.from_at, p.until_at, p.at, s.facts_id, s.window_seconds, s.cpu_cores,
       s.memory_bytes, s.watts, s.joules_total, {cpu_seconds_total}
FROM selected p JOIN {table} s ON s.report_id = p.report_id
ORDER BY subject, p.sequence
"""
NODE_SAMPLES = _IN_WINDOW + _SAMPLES.format(
    subject="p.boot_id", table="node_samples", cpu_seconds_total="NULL"
)
CONTAINER_SAMPLES = _IN_WINDOW + _SAMPLES.format(
    subject="s.container_id", table="container_samples", cpu_seconds_total="s.cpu_seconds_total"
)


def parameters(window_seconds: float, window_ends: Sequence[WindowEnd]) -> dict[str, object]:
    """The parameters of these queries."""
    ends = [(each.node, each.boot, each.at) for each in window_ends]
    return {"window": window_seconds, "window_ends": msgspec.json.encode(ends).decode()}


def means_of(rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, int, Mean]]:
    """Node, subject and mean of every subject in the rows of these queries."""
    if not rows:
        return
    nodes, subjects, *numbers = zip(*rows, strict=True)
    columns = [np.array(column, dtype=np.float64) for column in numbers]
    # A client can send values whose sum overflows; only its own means are affected.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        weighting = _Weighting(np.array(subjects, dtype=np.int64), _Samples(*columns))
        found = weighting.means()
    for row, (exists, samples, seconds, *values) in zip(weighting.starts.tolist(), found, strict=True):
        if exists:
            cores, memory_bytes, watts = (None if value != value else value for value in values)  # noqa: PLR0124 - NaN
            yield (
                nodes[row],
                subjects[row],
                Mean(
                    samples=int(samples),
                    seconds=seconds,
                    cpu_cores=cores,
                    memory_bytes=None if memory_bytes is None else round(memory_bytes),
                    watts=watts,
                ),
            )


@dataclass(frozen=True, slots=True)
class _Samples:
    """One row per sample, by subject and sequence; NaN if unknown."""

    from_at: Floats
    until_at: Floats
    at: Floats
    facts: Floats
    """NaN if the container no longer exists."""
    window_seconds: Floats
    cpu_cores: Floats
    memory_bytes: Floats
    watts: Floats
    joules_total: Floats
    cpu_seconds_total: Floats


class _Weighting:
    """How many seconds of its window each sample describes, in three parts.

    Before: from the previous sample, whose values still applied, to its own window. Own: its own window.
    After: the time since, if it is the last one. A counter covers all the time between two samples.
    """

    def __init__(self, subjects: NDArray[np.int64], samples: _Samples) -> None:
        self._samples = samples
        self._is_first: Flags = np.concatenate(([True], subjects[1:] != subjects[:-1]))
        self.starts = np.flatnonzero(self._is_first)
        """The first row of each subject."""
        self._exists = ~np.isnan(samples.facts)
        self._existed = ~np.isnan(self._previous(samples.facts))
        self._is_latest = self._exists & np.concatenate((self._is_first[1:], [True]))
        self._previous_at = self._previous(samples.at)
        changed_at = change_times(samples.at, samples.window_seconds, self._previous_at, self._exists)
        self._before = self._seconds(self._previous_at, changed_at, self._existed)
        self._own = self._seconds(changed_at, samples.at, self._exists)
        self._after = self._seconds(samples.at, samples.until_at, self._is_latest)

    def means(self) -> list[list[float]]:
        """Per subject: whether it exists, number of samples, seconds that they cover, and the means."""
        samples, starts = self._samples, self.starts
        # The part before a sample belongs to the previous one.
        counts: Flags = (self._own > 0) | self._is_latest | np.append(self._before[1:] > 0, [False])
        columns = (
            np.logical_or.reduceat(self._exists | self._existed, starts),
            np.add.reduceat(counts.astype(np.float64), starts),
            np.add.reduceat(self._before + self._own + self._after, starts),
            self._mean(samples.cpu_cores, self._rate(samples.cpu_seconds_total)),
            self._mean(samples.memory_bytes, np.full(samples.at.size, np.nan)),
            self._mean(samples.watts, self._rate(samples.joules_total)),
        )
        return np.column_stack(columns).tolist()  # type: ignore[no-any-return]

    def _previous(self, column: Floats) -> Floats:
        """The values of the previous sample of the same subject."""
        moved = np.concatenate(([np.nan], column[:-1]))
        moved[self._is_first] = np.nan
        return moved

    def _seconds(self, since: Floats, until: Floats, applies: Flags) -> Floats:
        """How much of the window lies between two times."""
        seconds = np.minimum(until, self._samples.until_at) - np.maximum(since, self._samples.from_at)
        return np.where(applies & (seconds > 0), seconds, 0.0)

    def _rate(self, counter: Floats) -> Floats:
        """The rate of a counter since the previous sample; unknown if the counter was reset."""
        increase, seconds = counter - self._previous(counter), self._samples.at - self._previous_at
        return np.where((increase >= 0) & (seconds > 0), increase / seconds, np.nan)

    def _mean(self, gauge: Floats, rate: Floats) -> Floats:
        """The mean per subject: of the rate where it is known, else of the gauge."""
        has_rate = ~np.isnan(rate)
        parts = (
            (self._before, np.where(has_rate, rate, self._previous(gauge))),
            (self._own, np.where(has_rate, rate, gauge)),
            (self._after, gauge),
        )
        total, seconds = np.zeros(gauge.size), np.zeros(gauge.size)
        for part, value in parts:
            is_known = ~np.isnan(value)
            total += np.where(is_known, part * value, 0.0)
            seconds += np.where(is_known, part, 0.0)
        all_seconds = np.add.reduceat(seconds, self.starts)
        # If no time has passed yet, the mean is the last sample.
        ends = np.append(self.starts[1:] - 1, gauge.size - 1)
        latest = np.where(self._is_latest, gauge, np.nan)[ends]
        return np.where(all_seconds > 0, np.add.reduceat(total, self.starts) / all_seconds, latest)
