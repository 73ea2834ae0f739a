"""From what a node said, one heartbeat after another, to what its rollups gain by it. Pure.

Usage is what held when, as `intervals` tells it. Energy is what the counters grew by from one heartbeat to
the next, of the node and of all containers alike, shared out evenly over the time between. So in every slot,
and in every part of one, idle, system and containers are the node: all have the same two times to go by.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.history.sqlite.timeline import (
    Sample,
    SlotSums,
    coarser,
    counter_increase,
    intervals,
    slot_shares,
    sum_slots,
)

FINE_SECONDS = 300
COARSE_SECONDS = 3600
STEPS = (FINE_SECONDS, COARSE_SECONDS)

Row = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class ContainerReading:
    """What a report says of a container: how it looks, what its energy counter shows, or both."""

    container_id: int
    look: Sample | None
    joules_total: float | None


@dataclass(frozen=True, slots=True)
class NodeReading:
    """What of a report matters here."""

    at: float
    is_heartbeat: bool
    node: Sample | None
    joules_total: float | None
    idle_watts: float
    containers: Sequence[ContainerReading]
    """In the order in which it was so; one may be there twice."""


@dataclass(frozen=True, slots=True)
class RollupRows:
    """Rows to add to what the rollups hold, and what the counters of containers that ended showed."""

    nodes: Sequence[Row]
    """Step, slot, and the values of `ROLLUP_VALUES` and `NODE_JOULES`."""
    containers: Sequence[tuple[int, Row]]
    """The same for a container's number, with `CONTAINER_JOULES`."""
    ended: Mapping[int, float]


@dataclass(slots=True)
class _HeartbeatEnergy:
    """The energy between two heartbeats."""

    slot_shares: Mapping[int, float]
    joules: float
    idle_joules: float
    containers: Mapping[int, float]

    @property
    def containers_joules(self) -> float:
        return sum(self.containers.values())


def roll_up(words: Sequence[NodeReading], ended_joules: Mapping[int, float]) -> RollupRows:
    """What words add, from a first heartbeat, which was rolled up before, to the last word, another one.

    `ended_joules` says what the counters of containers showed that had ended before: started again, they may
    go on from there.
    """
    from_at = words[0].at
    looks: defaultdict[int, list[Sample]] = defaultdict(list)
    for word in words:
        for said in word.containers:
            if said.look is not None:
                looks[said.container_id].append(said.look)
    counters = _Counters(words[0], ended_joules)
    intervals = [counters.count(part) for part in _by_heartbeat(words)]
    node_looks = [word.node for word in words if word.node is not None]
    per_container: defaultdict[int, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    per_node: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for interval in intervals:
        whole = (interval.joules, interval.idle_joules, interval.containers_joules)
        for slot, share in interval.shares.items():
            per_node[slot] = [
                before + share * more for before, more in zip(per_node[slot], whole, strict=True)
            ]
            for container_id, joules in interval.containers.items():
                per_container[container_id][slot] += share * joules
    return RollupRows(
        nodes=list(_rows(_usage(node_looks, from_at), per_node, 3)),
        containers=[
            (container_id, row)
            for container_id in sorted({*looks, *per_container})
            for row in _rows(
                _usage(looks[container_id], from_at),
                {slot: [joules] for slot, joules in per_container[container_id].items()},
                1,
            )
        ],
        ended=counters.ended(),
    )


def _usage(looks: Sequence[Sample], from_at: float) -> dict[int, SlotSums]:
    return sum_slots(intervals(looks, from_at), FINE_SECONDS)


def _rows(usage: dict[int, SlotSums], energy: Mapping[int, list[float]], width: int) -> Iterator[Row]:
    """Rows for every slot of every step of which anything is known."""
    factor = COARSE_SECONDS // FINE_SECONDS
    coarse_energy: dict[int, list[float]] = {}
    for slot, joules in energy.items():
        before = coarse_energy.get(slot // factor, [0.0] * width)
        coarse_energy[slot // factor] = [a + b for a, b in zip(before, joules, strict=True)]
    for step, sums, joules_by_slot in (
        (FINE_SECONDS, usage, energy),
        (COARSE_SECONDS, coarser(usage, factor), coarse_energy),
    ):
        for slot in {*sums, *joules_by_slot}:
            known = sums.get(slot) or SlotSums()
            joules = joules_by_slot.get(slot) or [0.0] * width
            yield (step, slot, known.seconds, *known.totals, *known.most, *joules)


def _by_heartbeat(words: Sequence[NodeReading]) -> Iterator[Sequence[NodeReading]]:
    """The words of each interval, from after a heartbeat to the next one."""
    begin = 1
    for place, word in enumerate(words):
        if place and word.is_heartbeat:
            yield words[begin - 1 : place + 1]
            begin = place + 1


class _Counters:
    """What energy counters showed last, while words are gone through."""

    def __init__(self, first: NodeReading, ended_joules: Mapping[int, float]) -> None:
        self._node = first.joules_total
        self._ended_before = ended_joules
        self._last: dict[int, float] = dict(_readings([first]))
        self._running = {said.container_id for said in first.containers}

    def count(self, words: Sequence[NodeReading]) -> _HeartbeatEnergy:
        """The energy of one interval; its first word is the heartbeat before it."""
        readings: defaultdict[int, list[float]] = defaultdict(list)
        for container_id, joules in _readings(words[1:]):
            readings[container_id].append(joules)
        containers = {}
        for container_id, counts in readings.items():
            begun = self._last.get(container_id, self._ended_before.get(container_id, 0.0))
            if joules := counter_increase(counts, begun):
                containers[container_id] = joules
            self._last[container_id] = counts[-1]
        self._running = {said.container_id for said in words[-1].containers if said.look and said.look.values}
        begins_at, ends_at = words[0].at, max(word.at for word in words)
        of_containers = sum(containers.values())
        # What nobody knows of the node itself, its containers still drew.
        joules = max(self._node_growth(words[1:]), of_containers)
        idle_joules = min(words[-1].idle_watts * (ends_at - begins_at), joules - of_containers)
        return _HeartbeatEnergy(
            slot_shares(begins_at, ends_at, FINE_SECONDS), joules, idle_joules, containers
        )

    def _node_growth(self, words: Sequence[NodeReading]) -> float:
        counts = [word.joules_total for word in words if word.joules_total is not None]
        if not counts:
            return 0.0
        # Without a first count there is nothing to grow from.
        begun = counts[0] if self._node is None else self._node
        self._node = counts[-1]
        return counter_increase(counts, begun)

    def ended(self) -> dict[int, float]:
        """What the counters showed of those that run no longer."""
        return {key: joules for key, joules in self._last.items() if key not in self._running}


def _readings(words: Iterable[NodeReading]) -> Iterator[tuple[int, float]]:
    for word in words:
        for said in word.containers:
            if said.joules_total is not None:
                yield said.container_id, said.joules_total
