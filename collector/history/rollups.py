"""Compute the rollup rows that a node's reports add, from one heartbeat to the next. Pure.

Usage comes from `timeline`: which values applied when. Energy is the increase of the counters between two
heartbeats, of the node and of all its containers, spread evenly over that time. Both use the same two times,
so in every bucket idle + system + containers equals the node.

A node can report any counter. Its energy in a bucket, with what the bucket already has, is at most what the
node can use in that time; all parts of the surplus are left out alike.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple, TypeVar

import numpy as np

from collector.common.arrays import Floats
from collector.history.timeline import (
    PRESSURE,
    WIDTH,
    BucketSums,
    Sample,
    Samples,
    bucket_shares,
    counter_increase,
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
Key = TypeVar("Key")
_Usage = dict[tuple[int, int], Row]
_NO_USAGE: Row = (0.0, *(None,) * (2 * WIDTH))
_NODE = 0
"""The node among the containers, whose numbers begin with 1."""
MILLISECONDS, MILLIONTHS = 1e3, 1e6
"""The units of pressure: sums and maxima."""


@dataclass(frozen=True, slots=True)
class ContainerReading:
    """A container in a report: its sample, its energy counter, or both."""

    container_id: int
    sample: Sample | None
    joules_total: float | None


@dataclass(frozen=True, slots=True)
class NodeReading:
    """The parts of a report that rollups need."""

    at: float
    is_heartbeat: bool
    sample: Sample | None
    joules_total: float | None
    idle_watts: float
    containers: Sequence[ContainerReading]
    """Containers in order of time; the same one can occur twice."""


@dataclass(frozen=True, slots=True)
class EnergyBounds:
    """The energy that a node can have used."""

    max_watts: float = inf
    held: Mapping[int, float] = field(default_factory=dict)
    """Energy of the node that is already rolled up, by bucket of five minutes."""

    def room(self, bucket: int) -> float:
        """The energy that a bucket can still take."""
        return max(0.0, self.max_watts * FINE_SECONDS - self.held.get(bucket, 0.0))


_UNBOUNDED = EnergyBounds()


@dataclass(frozen=True, slots=True)
class RollupRows:
    """Rows to add to the rollups, and the last energy counters of containers that ended."""

    nodes: Sequence[Row]
    """Step, bucket, and the values of `ROLLUP_VALUES`, `NODE_JOULES` and `COVERED`."""
    containers: Sequence[tuple[int, Row]]
    """Container id, and the same with `CONTAINER_JOULES`."""
    ended: Mapping[int, float]
    bounded_buckets: int = 0
    """Buckets of five minutes in which the node reported more energy than it can have used."""


class _BucketEnergy(NamedTuple):
    """Energy in one bucket, and the part of the bucket that it was used in."""

    joules: Sequence[float]
    covered_from: float
    covered_until: float

    @property
    def covered(self) -> tuple[float, float]:
        return self.covered_from, self.covered_until

    def merged(self, other: "_BucketEnergy") -> "_BucketEnergy":
        return _BucketEnergy(
            [a + b for a, b in zip(self.joules, other.joules, strict=True)],
            min(self.covered_from, other.covered_from),
            max(self.covered_until, other.covered_until),
        )

    def scaled(self, factor: float) -> "_BucketEnergy":
        return self._replace(joules=[factor * each for each in self.joules])


@dataclass(frozen=True, slots=True)
class _HeartbeatEnergy:
    """The energy between two heartbeats."""

    begins_at: float
    ends_at: float
    joules: float
    idle_joules: float
    containers: Mapping[int, float]

    @property
    def containers_joules(self) -> float:
        return sum(self.containers.values())


def roll_up(
    readings: Sequence[NodeReading], ended_joules: Mapping[int, float], bounds: EnergyBounds = _UNBOUNDED
) -> RollupRows:
    """The rows for readings from a first heartbeat, which is already rolled up, to a last one.

    `ended_joules` has the last energy counters of containers that ended before: a restarted container may
    continue from there.
    """
    readings = _within_rows(readings)
    usage = _usage(readings)
    usage_of_node = usage.pop(_NODE, {})
    counters = _Counters(readings[0], ended_joules)
    per_container: defaultdict[int, dict[int, _BucketEnergy]] = defaultdict(dict)
    per_node: dict[int, _BucketEnergy] = {}
    for part in _by_heartbeat(readings):
        energy = counters.update(part)
        added = (energy.joules, energy.idle_joules, energy.containers_joules)
        for bucket, share in bucket_shares(energy.begins_at, energy.ends_at, FINE_SECONDS).items():
            covered = (
                max(energy.begins_at, bucket * FINE_SECONDS),
                min(energy.ends_at, (bucket + 1) * FINE_SECONDS),
            )
            _add(per_node, bucket, _BucketEnergy([share * joules for joules in added], *covered))
            for container_id, joules in energy.containers.items():
                _add(per_container[container_id], bucket, _BucketEnergy([share * joules], *covered))
    bounded = _bound(per_node, per_container, bounds)
    return RollupRows(
        nodes=[
            (*row, *(of_bucket.covered if of_bucket else (None, None)))
            for row, of_bucket in _rows(usage_of_node, per_node, 3)
        ],
        containers=[
            (container_id, row)
            for container_id in sorted({*usage, *per_container})
            for row, _ in _rows(usage.get(container_id, {}), per_container[container_id], 1)
        ],
        ended=counters.ended(),
        bounded_buckets=bounded,
    )


def _within_rows(readings: Sequence[NodeReading]) -> Sequence[NodeReading]:
    """The readings, or if they make too many rows, the same with less time between them.

    A node can report any time in the past and thousands of containers: each would have a row for every five
    minutes since. Then the readings count for the last part of that time.
    """
    containers = {each.container_id for reading in readings for each in reading.containers}
    latest_at = max(reading.at for reading in readings)
    most = max(_MOST_ROWS, _ROWS_PER_SAMPLE * sum(len(reading.containers) for reading in readings))
    begins_at = latest_at - FINE_SECONDS * max(1, most // max(1, len(containers)))
    if readings[0].at >= begins_at:
        return readings
    return [_not_before(reading, begins_at) for reading in readings]


def _not_before(reading: NodeReading, at: float) -> NodeReading:
    if reading.at >= at:
        return reading

    def moved(sample: Sample | None) -> Sample | None:
        return None if sample is None else sample._replace(at=at)

    containers = [replace(each, sample=moved(each.sample)) for each in reading.containers]
    return replace(reading, at=at, sample=moved(reading.sample), containers=containers)


def _bound(
    per_node: dict[int, _BucketEnergy],
    per_container: Mapping[int, dict[int, _BucketEnergy]],
    bounds: EnergyBounds,
) -> int:
    """Leave out the energy of buckets that is above what the node can have used; returns in how many."""
    bounded = 0
    for bucket, energy in per_node.items():
        joules, room = energy.joules[0], bounds.room(bucket)
        if joules <= room:
            continue
        bounded += 1
        per_node[bucket] = energy.scaled(room / joules)
        for buckets in per_container.values():
            if bucket in buckets:
                buckets[bucket] = buckets[bucket].scaled(room / joules)
    return bounded


def _usage(readings: Sequence[NodeReading]) -> dict[int, _Usage]:
    """The usage of the node and of each container, by step and bucket: values of `ROLLUP_VALUES`."""
    subjects: defaultdict[int, list[Sample]] = defaultdict(list)
    for reading in readings:
        if reading.sample is not None:
            subjects[_NODE].append(reading.sample)
        for container in reading.containers:
            if container.sample is not None:
                subjects[container.container_id].append(container.sample)
    usage: defaultdict[int, _Usage] = defaultdict(dict)
    if subjects:
        samples = Samples.of(subjects, readings[0].at)
        periods = hold(samples)
        for step in STEPS:
            sums = sum_buckets(samples, periods, step)
            keys = zip(sums.subject.tolist(), sums.bucket.tolist(), strict=True)
            for (subject, bucket), row in zip(keys, _stored(sums).tolist(), strict=True):
                usage[subject][step, bucket] = tuple(row)
    return usage


def _stored(sums: BucketSums) -> Floats:
    """The columns of rollups: pressure, which is at most all of the time, as whole numbers."""
    plain, seconds = slice(PRESSURE.start), sums.seconds[:, None]
    waiting = np.round(np.minimum(sums.totals[:, PRESSURE], seconds) * MILLISECONDS)
    highest = np.round(np.minimum(sums.maxima[:, PRESSURE], 1.0) * MILLIONTHS)
    return np.hstack((seconds, sums.totals[:, plain], waiting, sums.maxima[:, plain], highest))


def _add(buckets: dict[Key, _BucketEnergy], key: Key, energy: _BucketEnergy) -> None:
    buckets[key] = buckets[key].merged(energy) if key in buckets else energy


def _rows(
    usage: _Usage, energy: Mapping[int, _BucketEnergy], width: int
) -> Iterator[tuple[Row, _BucketEnergy | None]]:
    """A row for every bucket of every step that has usage or energy."""
    by_step = {(FINE_SECONDS, bucket): of_bucket for bucket, of_bucket in energy.items()}
    for bucket, of_bucket in energy.items():
        _add(by_step, (COARSE_SECONDS, bucket * FINE_SECONDS // COARSE_SECONDS), of_bucket)
    for key in {*usage, *by_step}:
        found = by_step.get(key)
        joules = found.joules if found else [0.0] * width
        yield (*key, *usage.get(key, _NO_USAGE), *joules), found


def _by_heartbeat(readings: Sequence[NodeReading]) -> Iterator[Sequence[NodeReading]]:
    """The readings from each heartbeat to the next, both included."""
    begin = 0
    for index, reading in enumerate(readings):
        if index and reading.is_heartbeat:
            yield readings[begin : index + 1]
            begin = index


class _Counters:
    """The last values of the energy counters."""

    def __init__(self, first: NodeReading, ended_joules: Mapping[int, float]) -> None:
        self._node = first.joules_total
        self._ended_before = ended_joules
        self._last: dict[int, float] = dict(_container_counters([first]))
        self._running = {each.container_id for each in first.containers}

    def update(self, readings: Sequence[NodeReading]) -> _HeartbeatEnergy:
        """The energy from one heartbeat, the first reading, to the next."""
        counts: defaultdict[int, list[float]] = defaultdict(list)
        for container_id, joules in _container_counters(readings[1:]):
            counts[container_id].append(joules)
        containers = {}
        for container_id, values in counts.items():
            start = self._last.get(container_id, self._ended_before.get(container_id, 0.0))
            if joules := counter_increase(values, start):
                containers[container_id] = joules
            self._last[container_id] = values[-1]
        self._running = {
            each.container_id for each in readings[-1].containers if each.sample and each.sample.values
        }
        begins_at, ends_at = readings[0].at, max(reading.at for reading in readings)
        containers_joules = sum(containers.values())
        # If the node's own counter is missing or too low, it used at least what its containers did.
        joules = max(self._node_increase(readings[1:]), containers_joules)
        idle_joules = min(readings[-1].idle_watts * (ends_at - begins_at), joules - containers_joules)
        return _HeartbeatEnergy(begins_at, ends_at, joules, idle_joules, containers)

    def _node_increase(self, readings: Sequence[NodeReading]) -> float:
        counts = [reading.joules_total for reading in readings if reading.joules_total is not None]
        if not counts:
            return 0.0
        # The first value of a counter is no increase.
        start = counts[0] if self._node is None else self._node
        self._node = counts[-1]
        return counter_increase(counts, start)

    def ended(self) -> dict[int, float]:
        """The last counters of containers that no longer run."""
        return {key: joules for key, joules in self._last.items() if key not in self._running}


def _container_counters(readings: Iterable[NodeReading]) -> Iterator[tuple[int, float]]:
    for reading in readings:
        for container in reading.containers:
            if container.joules_total is not None:
                yield container.container_id, container.joules_total
