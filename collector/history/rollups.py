"""Compute the rollup rows that a node's reports add, from one heartbeat to the next. Pure.

Usage comes from `timeline`: which values applied when. Energy is the increase of the counters between two
heartbeats, of the node and of all its containers, spread evenly over that time. Both use the same two times,
so in every bucket idle + system + containers equals the node.

A node can report any counter. Its energy in a bucket, with what the bucket already has, is at most what the
node can use in that time; all parts of the surplus are left out alike.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Self

import numpy as np

from collector.common.arrays import Floats, Numbers
from collector.history.timeline import (
    PRESSURE,
    WIDTH,
    BucketSums,
    Samples,
    bucket_shares,
    columns,
    find,
    hold,
    sum_buckets,
)

FINE_SECONDS = 300
COARSE_SECONDS = 3600
STEPS = (FINE_SECONDS, COARSE_SECONDS)
_MOST_ROWS, _ROWS_PER_SAMPLE = 20_000, 4
"""Most rows of containers per update, and the rows per sample that are always allowed. Only a gap of hours on
a crowded node has more, and reports wait while they are written."""

Row = tuple[float | None, ...]
"""SQLite stores what is not a number as unknown."""
_Key = tuple[int, int]
"""Step and bucket."""
_NO_USAGE: Row = (0.0, *(None,) * (2 * WIDTH))
_NO_ENERGY: Row = (0.0, 0.0, 0.0, None, None)
MILLISECONDS, MILLIONTHS = 1e3, 1e6
"""The units of pressure: sums and maxima."""
_REPORT_WIDTH, _SAMPLE_WIDTH, _END_WIDTH = 5, 5 + WIDTH, 3


class Readings(NamedTuple):
    """Reports of nodes from a first heartbeat on, in columns. Nodes have negative numbers as subjects."""

    reports: Floats
    """Id, time, time of the node's first heartbeat, whether it is one, idle watts; in order for each node."""
    samples: Floats
    """Subject, place of the report, whether it exists, joules and seconds of the window, then its values."""
    ends: Floats
    """Container, place of the report, and joules of a container that ended, before the report's samples."""

    @classmethod
    def of(
        cls, reports: Sequence[Sequence[object]], samples: Sequence[Row], ends: Sequence[Row] = ()
    ) -> Self:
        """The same columns with the ids of reports in place of their places; other reports are left out."""
        rows = columns(reports, _REPORT_WIDTH)
        by_id = np.argsort(rows[:, 0])

        def placed(given: Sequence[Row], width: int) -> Floats:
            found = columns(given, width)
            place, some = find(rows[by_id, 0].astype(np.int64), found[:, 1].astype(np.int64))
            found = found[some]
            found[:, 1] = by_id[place]
            return found[np.argsort(found[:, 1], kind="stable")]

        return cls(rows, placed(samples, _SAMPLE_WIDTH), placed(ends, _END_WIDTH))

    def usage(self) -> Samples:
        """The samples by subject."""
        rows = self.samples[np.argsort(self.samples[:, 0], kind="stable")]
        report = self.reports[rows[:, 1].astype(np.int64)]
        return Samples(
            subject=rows[:, 0].astype(np.int64),
            at=report[:, 1],
            window_seconds=np.nan_to_num(rows[:, 4], nan=0.0),
            exists=rows[:, 2] != 0,
            values=rows[:, 5:],
            from_at=report[:, 2],
        )

    def counters(self) -> Iterator[tuple[int, int, float]]:
        """Subject, place of the report, and value of every energy counter, in order."""
        known = self.samples[~np.isnan(self.samples[:, 3])][:, (0, 1, 3)]
        rows = np.concatenate((self.ends, known))
        for subject, place, joules in rows[np.argsort(rows[:, 1], kind="stable")].tolist():
            yield int(subject), int(place), joules


@dataclass(frozen=True, slots=True)
class RollupRows:
    """Rows to add to the rollups, and the last energy counters of containers that ended."""

    nodes: Sequence[Row]
    """Step, bucket, and the values of `ROLLUP_VALUES`, `NODE_JOULES` and `COVERED`."""
    containers: Sequence[Row]
    """Step, bucket, container id, and the values of `ROLLUP_VALUES` and `CONTAINER_JOULES`."""
    ended: Mapping[int, float]
    bounded_buckets: int = 0
    """Buckets of five minutes in which the node reported more energy than it can have used."""


class _HeartbeatEnergy(NamedTuple):
    """The energy between two heartbeats."""

    begins_at: float
    ends_at: float
    joules: float
    idle_joules: float
    containers_joules: float
    containers: Mapping[int, float]


def roll_up(
    readings: Readings,
    ended_joules: Mapping[int, float],
    room: Mapping[int, float] | None = None,
    ages: Mapping[int, float] | None = None,
) -> RollupRows:
    """The rows for the readings of one node, of which the first heartbeat is already rolled up.

    `ended_joules` has the last energy counters of containers that ended before: a restarted container may
    continue from there. `room` is the energy that buckets of five minutes can still take; others take any.
    `ages` has how long containers ran before their first values, if that is known.
    """
    within = _within_rows(readings)
    usage = _usage(within)
    last: dict[int, float] = {}
    nodes: dict[_Key, list[float]] = {}
    containers: defaultdict[tuple[int, int, int], float] = defaultdict(float)
    found = [
        (energy, bucket_shares(energy.begins_at, energy.ends_at, FINE_SECONDS))
        for energy in _energy(readings, ended_joules, ages or {}, last)
    ]
    factors = _factors(found, room or {})
    first = int(within.reports[0, 1] // FINE_SECONDS)
    for energy, shares in found:
        kept: defaultdict[int, float] = defaultdict(float)
        for bucket, share in shares.items():
            # What was used before the time that has rows is kept as well.
            kept[max(bucket, first)] += factors.get(bucket, 1.0) * share
        for bucket, part in kept.items():
            begins_at, ends_at = bucket * FINE_SECONDS, (bucket + 1) * FINE_SECONDS
            for key in ((FINE_SECONDS, bucket), (COARSE_SECONDS, begins_at // COARSE_SECONDS)):
                node = nodes.setdefault(key, [0.0, 0.0, 0.0, inf, -inf])
                for place, added in enumerate(energy[2:5]):
                    node[place] += part * added
                node[3] = min(node[3], max(energy.begins_at, begins_at))
                node[4] = max(node[4], min(energy.ends_at, ends_at))
                for container_id, added in energy.containers.items():
                    containers[*key, container_id] += part * added
    of_node = {key[:2]: row for key, row in usage.items() if key[2] < 0}
    of_containers = {key: row for key, row in usage.items() if key[2] >= 0}
    return RollupRows(
        nodes=[
            (*key, *of_node.get(key, _NO_USAGE), *nodes.get(key, _NO_ENERGY))
            for key in sorted({*of_node, *nodes})
        ],
        containers=[
            (*key, *of_containers.get(key, _NO_USAGE), containers.get(key, 0.0))
            for key in sorted({*of_containers, *containers})
        ],
        ended=_ended(readings, last),
        bounded_buckets=len(factors),
    )


def _factors(
    found: Sequence[tuple[_HeartbeatEnergy, Mapping[int, float]]], room: Mapping[int, float]
) -> dict[int, float]:
    """The share of the energy that counts, for buckets with more than the node can have used."""
    joules: defaultdict[int, float] = defaultdict(float)
    for energy, shares in found:
        for bucket, share in shares.items():
            joules[bucket] += share * energy.joules
    return {bucket: room[bucket] / whole for bucket, whole in joules.items() if whole > room.get(bucket, inf)}


def _within_rows(readings: Readings) -> Readings:
    """The readings, or if they make too many rows, the same with less time between them.

    A node can report any time in the past and thousands of containers: each would have a row for every five
    minutes since. Then the readings count for the last part of that time.
    """
    reports = readings.reports.copy()
    subjects = np.unique(np.concatenate((readings.samples[:, 0], readings.ends[:, 0]))).size
    most = max(_MOST_ROWS, _ROWS_PER_SAMPLE * (len(readings.samples) + len(readings.ends)))
    begins_at = reports[-1, 1] - FINE_SECONDS * max(1, most // max(1, subjects))
    reports[:, 1:3] = np.maximum(reports[:, 1:3], begins_at)
    return readings._replace(reports=reports)


def _usage(readings: Readings) -> dict[tuple[int, int, int], Row]:
    """The values of `ROLLUP_VALUES` by step, bucket and subject."""
    usage: dict[tuple[int, int, int], Row] = {}
    samples = readings.usage()
    periods = hold(samples)
    for step in STEPS:
        sums = sum_buckets(samples, periods, step)
        keys = zip(sums.bucket.tolist(), sums.subject.tolist(), strict=True)
        for (bucket, subject), row in zip(keys, _stored(sums).tolist(), strict=True):
            usage[step, bucket, subject] = tuple(row)
    return usage


def _stored(sums: BucketSums) -> Floats:
    """The columns of rollups: pressure, which is at most all of the time, as whole numbers."""
    plain, seconds = slice(PRESSURE.start), sums.seconds[:, None]
    waiting = np.round(np.minimum(sums.totals[:, PRESSURE], seconds) * MILLISECONDS)
    highest = np.round(np.minimum(sums.maxima[:, PRESSURE], 1.0) * MILLIONTHS)
    return np.hstack((seconds, sums.totals[:, plain], waiting, sums.maxima[:, plain], highest))


def _energy(
    readings: Readings, ended_joules: Mapping[int, float], ages: Mapping[int, float], last: dict[int, float]
) -> Iterator[_HeartbeatEnergy]:
    """The energy from each heartbeat to the next; `last` gets the last values of the counters."""
    beats: Numbers = np.flatnonzero(readings.reports[:, 3])
    interval = np.searchsorted(beats, np.arange(len(readings.reports))) - 1
    at = readings.reports[:, 1]
    increases: list[defaultdict[int, float]] = [defaultdict(float) for _ in beats[1:]]
    for subject, place, count in readings.counters():
        # A first value is no increase, unless the container started since the last heartbeat.
        is_new = at[place] - ages.get(subject, inf) >= at[beats[interval[place]]]
        start = 0.0 if is_new else count
        before = last.get(subject, ended_joules.get(subject, start))
        if place:
            # A counter that decreased was reset to zero.
            increases[interval[place]][subject] += count - before if count >= before else count
        last[subject] = count
    for increase, begin, end in zip(increases, beats[:-1], beats[1:], strict=True):
        begins_at, ends_at = float(readings.reports[begin, 1]), float(readings.reports[end, 1])
        containers = {subject: joules for subject, joules in increase.items() if subject >= 0 and joules}
        containers_joules = sum(containers.values())
        # If the node's own counter is missing or too low, it used at least what its containers did.
        own_joules = sum(joules for subject, joules in increase.items() if subject < 0)
        joules = max(own_joules, containers_joules)
        idle_joules = min(float(readings.reports[end, 4]) * (ends_at - begins_at), joules - containers_joules)
        yield _HeartbeatEnergy(begins_at, ends_at, joules, idle_joules, containers_joules, containers)


def _ended(readings: Readings, last: Mapping[int, float]) -> dict[int, float]:
    """The last counters of containers that the last heartbeat does not name as running."""
    rows = readings.samples
    is_running = (rows[:, 1] == len(readings.reports) - 1) & (rows[:, 2] != 0)
    running = set(rows[is_running, 0].tolist())
    return {key: joules for key, joules in last.items() if key >= 0 and key not in running}
