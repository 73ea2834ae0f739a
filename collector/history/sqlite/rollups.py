"""Compute the rollup rows that a node's reports add, from one heartbeat to the next. Pure.

Usage comes from `timeline`: which values applied when. Energy is the increase of the counters between two
heartbeats, of the node and of all its containers, spread evenly over that time. Both use the same two times,
so in every slot idle + system + containers equals the node.

A node can report any counter. Its energy in a slot, with what the slot already has, is at most what the node
can use in that time; all parts of the surplus are left out alike.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from collector.history.sqlite.timeline import (
    Sample,
    SlotSums,
    counter_increase,
    intervals,
    merge_slots,
    slot_shares,
    sum_slots,
)

FINE_SECONDS = 300
COARSE_SECONDS = 3600
STEPS = (FINE_SECONDS, COARSE_SECONDS)
_MOST_ROWS, _ROWS_PER_SAMPLE = 20_000, 4
"""Most rows of containers per update, and the rows per sample that are always allowed. Only a gap of hours on
a crowded node has more, and reports wait while they are written."""

Row = tuple[float | None, ...]


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
    """Energy of the node that is already rolled up, by slot of five minutes."""

    def room(self, slot: int) -> float:
        """The energy that a slot can still take."""
        return max(0.0, self.max_watts * FINE_SECONDS - self.held.get(slot, 0.0))


_UNBOUNDED = EnergyBounds()


@dataclass(frozen=True, slots=True)
class RollupRows:
    """Rows to add to the rollups, and the last energy counters of containers that ended."""

    nodes: Sequence[Row]
    """Step, slot, and the values of `ROLLUP_VALUES`, `NODE_JOULES` and `COVERED`."""
    containers: Sequence[tuple[int, Row]]
    """Container id, and the same with `CONTAINER_JOULES`."""
    ended: Mapping[int, float]
    bounded_slots: int = 0
    """Slots of five minutes in which the node reported more energy than it can have used."""


class _SlotEnergy(NamedTuple):
    """Energy in one slot, and the part of the slot that it was used in."""

    joules: Sequence[float]
    covered_from: float
    covered_until: float

    @property
    def covered(self) -> tuple[float, float]:
        return self.covered_from, self.covered_until

    def merged(self, other: "_SlotEnergy") -> "_SlotEnergy":
        return _SlotEnergy(
            [a + b for a, b in zip(self.joules, other.joules, strict=True)],
            min(self.covered_from, other.covered_from),
            max(self.covered_until, other.covered_until),
        )

    def scaled(self, factor: float) -> "_SlotEnergy":
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
    from_at = readings[0].at
    samples = _container_samples(readings)
    counters = _Counters(readings[0], ended_joules)
    node_samples = [reading.sample for reading in readings if reading.sample is not None]
    per_container: defaultdict[int, dict[int, _SlotEnergy]] = defaultdict(dict)
    per_node: dict[int, _SlotEnergy] = {}
    for part in _by_heartbeat(readings):
        energy = counters.update(part)
        added = (energy.joules, energy.idle_joules, energy.containers_joules)
        for slot, share in slot_shares(energy.begins_at, energy.ends_at, FINE_SECONDS).items():
            covered = (
                max(energy.begins_at, slot * FINE_SECONDS),
                min(energy.ends_at, (slot + 1) * FINE_SECONDS),
            )
            _add(per_node, slot, _SlotEnergy([share * joules for joules in added], *covered))
            for container_id, joules in energy.containers.items():
                _add(per_container[container_id], slot, _SlotEnergy([share * joules], *covered))
    bounded = _bound(per_node, per_container, bounds)
    return RollupRows(
        nodes=[
            (*row, *(of_slot.covered if of_slot else (None, None)))
            for row, of_slot in _rows(_usage(node_samples, from_at), per_node, 3)
        ],
        containers=[
            (container_id, row)
            for container_id in sorted({*samples, *per_container})
            for row, _ in _rows(
                _usage(samples.get(container_id, ()), from_at), per_container[container_id], 1
            )
        ],
        ended=counters.ended(),
        bounded_slots=bounded,
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
    per_node: dict[int, _SlotEnergy],
    per_container: Mapping[int, dict[int, _SlotEnergy]],
    bounds: EnergyBounds,
) -> int:
    """Leave out the energy of slots that is above what the node can have used; returns in how many."""
    bounded = 0
    for slot, energy in per_node.items():
        joules, room = energy.joules[0], bounds.room(slot)
        if joules <= room:
            continue
        bounded += 1
        per_node[slot] = energy.scaled(room / joules)
        for slots in per_container.values():
            if slot in slots:
                slots[slot] = slots[slot].scaled(room / joules)
    return bounded


def _container_samples(readings: Sequence[NodeReading]) -> dict[int, list[Sample]]:
    samples: defaultdict[int, list[Sample]] = defaultdict(list)
    for reading in readings:
        for container in reading.containers:
            if container.sample is not None:
                samples[container.container_id].append(container.sample)
    return samples


def _usage(samples: Sequence[Sample], from_at: float) -> dict[int, SlotSums]:
    return sum_slots(intervals(samples, from_at), FINE_SECONDS)


def _add(slots: dict[int, _SlotEnergy], slot: int, energy: _SlotEnergy) -> None:
    slots[slot] = slots[slot].merged(energy) if slot in slots else energy


def _rows(
    usage: dict[int, SlotSums], energy: Mapping[int, _SlotEnergy], width: int
) -> Iterator[tuple[Row, _SlotEnergy | None]]:
    """A row for every slot of every step that has usage or energy."""
    factor = COARSE_SECONDS // FINE_SECONDS
    coarse_energy: dict[int, _SlotEnergy] = {}
    for slot, of_slot in energy.items():
        _add(coarse_energy, slot // factor, of_slot)
    for step, usage_by_slot, energy_by_slot in (
        (FINE_SECONDS, usage, energy),
        (COARSE_SECONDS, merge_slots(usage, factor), coarse_energy),
    ):
        for slot in {*usage_by_slot, *energy_by_slot}:
            sums = usage_by_slot.get(slot) or SlotSums()
            found = energy_by_slot.get(slot)
            joules = found.joules if found else [0.0] * width
            yield (step, slot, *sums.stored(), *joules), found


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
