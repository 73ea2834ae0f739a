"""Which containers of each service run, and what they taught, kept from one pass to the next.

Few containers are heard of between two passes. They are put here node by node, and a service is reckoned anew
only where one of its containers came, went or told of more samples; the others are as they were. What comes
out is what thinking everything through from the start would find.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from collector.analysis.histograms import Floats
from collector.analysis.services import ContainerSlot, pool
from collector.analysis.usage import NOT_MEASURED, ObservedContainer, UsageWeights, slot_at

_Containers = tuple[ObservedContainer, ...]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PooledUsage:
    """What the containers of a service that runs taught; the statistics are of one container."""

    image: str
    containers: int
    nodes: int
    statistics: Floats = field(default_factory=lambda: NOT_MEASURED)
    """Per resource and `Statistic`."""
    watched_seconds: float = 0.0


class RunningServices:
    """The services that run. Not for several threads at once."""

    def __init__(self, reckoning: UsageWeights) -> None:
        self._reckoning = reckoning
        self._on: dict[str, frozenset[str]] = {}
        """The services of each node."""
        self._of: defaultdict[str, dict[str, _Containers]] = defaultdict(dict)
        """The containers of each service, by node."""
        self._stale: set[str] = set()
        self._learnt: dict[str, PooledUsage] = {}

    def put(self, node: str, watched: Sequence[ObservedContainer]) -> None:
        """Know what runs on a node now, in place of what did."""
        found: defaultdict[str, list[ObservedContainer]] = defaultdict(list)
        for each in watched:
            found[each.service].append(each)
        for name in self._on.pop(node, frozenset()) - found.keys():
            del self._of[name][node]
            self._stale.add(name)
        for name, containers in found.items():
            of = self._of[name]
            if not _same(of.get(node, ()), containers):
                self._stale.add(name)
            of[node] = tuple(containers)
        if found:
            self._on[node] = frozenset(found)

    def learn(self, at: float) -> Mapping[str, PooledUsage]:
        """What is known by now of each service that runs, by name."""
        several = []
        for name in sorted(self._stale):
            containers = list(self._containers(name))
            if not containers:
                del self._of[name]
                self._learnt.pop(name, None)
                continue
            images = Counter(each.image for each in containers)
            found = PooledUsage(
                image=images.most_common(1)[0][0], containers=len(containers), nodes=len(self._of[name])
            )
            if len(containers) > 1:
                several.append(name)
            elif containers[0].slots:
                # It was reckoned when its samples came.
                [one] = containers
                seconds = one.samples * one.sample_seconds
                found = replace(found, statistics=one.statistics, watched_seconds=seconds)
            self._learnt[name] = found
        for pooled in pool(self._parts(several, slot_at(at)), len(several), self._reckoning.need):
            for row, statistics, seconds in zip(
                pooled.services, pooled.statistics, pooled.watched_seconds.tolist(), strict=True
            ):
                name = several[row]
                self._learnt[name] = replace(
                    self._learnt[name], statistics=statistics.copy(), watched_seconds=seconds
                )
        self._stale.clear()
        return MappingProxyType(self._learnt)

    def _parts(self, services: Sequence[str], newest: int) -> Iterator[ContainerSlot]:
        weight = self._reckoning.weight
        for row, name in enumerate(services):
            for each in self._containers(name):
                for slot, packed in each.slots.items():
                    yield ContainerSlot(row, packed, each.sample_seconds, weight(max(0, newest - slot)))

    def _containers(self, name: str) -> Iterator[ObservedContainer]:
        for containers in self._of[name].values():
            yield from containers


def _same(before: Sequence[ObservedContainer], now: Sequence[ObservedContainer]) -> bool:
    """Whether these would teach the same: histograms that nothing was added to are the very same objects."""
    return len(before) == len(now) and all(
        one.slots == other.slots and one.image == other.image and one.sample_seconds == other.sample_seconds
        for one, other in zip(before, now, strict=True)
    )
