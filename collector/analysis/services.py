"""The profiles of running services, from the samples of all their containers, kept from one pass to the next.

Few containers change between two passes. The usage of a service is pooled again only if one of its containers
started, ended or has new samples. The result is the same as that of a full pass. A sample is weighted by its
duration, so that a node which samples twice as often does not count twice, and by the share of its node: see
`collector.analysis.contributions`.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import structs

from collector.analysis.contributions import FAR_OUT, node_shares, outlying_nodes
from collector.analysis.dominance import DominantResource
from collector.analysis.envelopes import EnvelopeRule, Statistic, statistics, totals
from collector.analysis.histograms import ROW_BITS, Keys, Packed, stack, sum_by_key
from collector.analysis.usage import (
    BUCKET_SECONDS,
    BUCKETS,
    NOT_MEASURED,
    ObservedContainer,
    UsageWeights,
    bucket_at,
    to_quantities,
)
from collector.common.arrays import Floats
from collector.snapshot.tables import NOWHERE, Services
from wire.resources import RESOURCES, Quantities, Resource

_MAX_SECONDS = 2 * BUCKETS * BUCKET_SECONDS
"""Twice the time that samples are kept, as the sampling interval is not exact and may have changed."""
_BATCH_SIZE = 100
_MEMORY = RESOURCES.index(Resource.MEMORY)
NOTHING_NEGLIGIBLE: Floats = np.zeros(len(RESOURCES))


class ObservedService(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What is known about a service as a whole."""

    name: str
    """Name of the service: a Swarm service, Compose `project/service`, or Kubernetes `namespace/workload`."""
    image: str
    containers: int
    """Number of running containers."""
    nodes: int
    """Number of nodes that its containers run on."""
    profiled: bool = False
    """Whether the envelope comes from enough samples to predict the need of a new container."""
    observed_seconds: float = 0.0
    """Total time over which its containers were observed, as far as their nodes count."""
    last_seen_at: float = 0.0
    """Unix time at which one of its containers last ran."""
    dominant: DominantResource | None = None


class ServiceProfile(ObservedService, frozen=True, eq=False, kw_only=True, gc=False):
    """The profile of a service; the numbers are of one container.

    There are very many, and none has a reference cycle, so the garbage collector may skip them.
    """

    node: str = ""
    """The only node that it ever ran on; empty if there were several."""
    statistics: Floats = msgspec.field(default_factory=lambda: NOT_MEASURED)
    """Per resource and `Statistic`."""

    def quantities(self, statistic: Statistic) -> Quantities:
        """One statistic of each resource; None if unknown."""
        return to_quantities(self.statistics[:, statistic])


def service_table(profiles: Mapping[str, ServiceProfile]) -> Services:
    """The services as policies see them, by name."""
    rows = [profiles[name] for name in sorted(profiles)]
    found = np.array([each.statistics for each in rows]).reshape(-1, *NOT_MEASURED.shape)
    variance = found[:, :, Statistic.VARIANCE]
    for amount in (Statistic.ENVELOPE, Statistic.MEAN):
        # A byte is the smallest amount of memory.
        found[:, _MEMORY, amount] = np.rint(found[:, _MEMORY, amount])
    dominant = [
        NOWHERE if each.dominant is None else RESOURCES.index(each.dominant.resource) for each in rows
    ]
    return Services(
        names=tuple(each.name for each in rows),
        profiled=np.array([each.profiled for each in rows], dtype=np.bool_),
        dominant=np.array(dominant, dtype=np.int8),
        confidence=np.array([0.0 if each.dominant is None else each.dominant.confidence for each in rows]),
        envelope=found[:, :, Statistic.ENVELOPE],
        mean=found[:, :, Statistic.MEAN],
        variance=np.where(np.isnan(variance), 0.0, variance),
        images=tuple(each.image for each in rows),
    )


class ContainerBucket(NamedTuple):
    """The usage of one container in one bucket."""

    service: int
    packed: Packed
    seconds: float
    """Duration of one sample."""
    weight: float
    """Weight of one second; older samples weigh less."""


def pool(
    parts: Iterable[ContainerBucket], services: int, rule: EnvelopeRule
) -> Iterator[tuple[int, Floats, float]]:
    """Pool the usage of each service: its number, statistics and observed seconds, as soon as it is complete.

    `parts` are in the order of their services. Its containers are observed for the time of the resource that
    was measured longest. Only a few are processed at a time: that bounds the memory, and no step holds the
    interpreter lock for long.
    """
    keys: Keys = np.empty(0, np.int64)
    weights: Floats = np.empty(0)
    observed: Floats = np.zeros(services)
    rest = iter(parts)
    while batch := list(islice(rest, _BATCH_SIZE)):
        first, last = batch[0].service, batch[-1].service
        more, counts, sizes = stack([part.packed for part in batch], [part.service for part in batch])
        seconds = counts * np.repeat([part.seconds for part in batch], sizes)
        observed[first : last + 1] += totals(more - (first << ROW_BITS), seconds, last - first + 1)
        weighted = seconds * np.repeat([part.weight for part in batch], sizes)
        # With the sums of a service that continues from the last batch.
        keys, weights = sum_by_key(np.concatenate((keys, more)), np.concatenate((weights, weighted)))
        complete = int(np.searchsorted(keys, last << ROW_BITS))
        yield from _pooled(keys[:complete], weights[:complete], observed, rule)
        keys, weights = keys[complete:], weights[complete:]
    yield from _pooled(keys, weights, observed, rule)


def _pooled(
    keys: Keys, weights: Floats, observed: Floats, rule: EnvelopeRule
) -> Iterator[tuple[int, Floats, float]]:
    services, rows = np.unique(keys >> ROW_BITS, return_inverse=True)
    local = (rows << ROW_BITS) | (keys & ((1 << ROW_BITS) - 1))
    found = statistics(local, weights, len(services), rule)
    # A copy: otherwise every profile would keep the whole array in memory.
    for service, of_service in zip(services.tolist(), found, strict=True):
        yield service, of_service.copy(), float(observed[service])


class RunningServices:
    """The running services. Not thread-safe."""

    def __init__(self, weights: UsageWeights, outlier_ratio: float = FAR_OUT) -> None:
        self._weights, self._outlier_ratio = weights, outlier_ratio
        self._services_of: dict[str, frozenset[str]] = {}
        """The services of each node."""
        self._of: defaultdict[str, dict[str, tuple[ObservedContainer, ...]]] = defaultdict(dict)
        """The containers of each service, by node."""
        self._stale: set[str] = set()
        self._pooled: dict[str, ServiceProfile] = {}
        self._outlying: dict[str, tuple[str, ...]] = {}
        """The nodes that do not count, by service."""

    def put(self, node: str, observed: Sequence[ObservedContainer]) -> None:
        """Replace the containers of a node."""
        found: defaultdict[str, list[ObservedContainer]] = defaultdict(list)
        for each in observed:
            found[each.service].append(each)
        for name in self._services_of.pop(node, frozenset()) - found.keys():
            del self._of[name][node]
            self._stale.add(name)
        for name, containers in found.items():
            of = self._of[name]
            if not _is_same_usage(of.get(node, ()), containers):
                self._stale.add(name)
            of[node] = tuple(containers)
        if found:
            self._services_of[node] = frozenset(found)

    def outliers(self) -> Mapping[str, tuple[str, ...]]:
        """The services of which each node claims far more use than the others do: it does not count there."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for service, nodes in sorted(self._outlying.items()):
            for node in nodes:
                found[node].append(service)
        return {node: tuple(services) for node, services in found.items()}

    def pool(self, at: float, negligible: Floats = NOTHING_NEGLIGIBLE) -> Mapping[str, ServiceProfile]:
        """The profile of each running service, by name: what its containers of now show.

        `negligible` is the use of each resource that makes no node an outlier.
        """
        several = []
        for name in sorted(self._stale):
            containers = list(self._containers(name))
            self._outlying.pop(name, None)
            if not containers:
                del self._of[name]
                self._pooled.pop(name, None)
                continue
            nodes = self._of[name]
            one = containers[0]
            # The statistics of a single container were computed when its samples arrived.
            is_known = len(containers) == 1 and bool(one.parts)
            self._pooled[name] = ServiceProfile(
                name=name,
                image=_most_common_image(nodes),
                containers=len(containers),
                nodes=len(nodes),
                node=next(iter(nodes)) if len(nodes) == 1 else "",
                statistics=one.statistics if is_known else NOT_MEASURED,
                observed_seconds=one.samples * _sample_seconds(one) if is_known else 0.0,
            )
            if len(containers) > 1:
                several.append(name)
        for row, found, seconds in pool(
            self._parts(several, bucket_at(at), negligible), len(several), self._weights.rule
        ):
            name = several[row]
            self._pooled[name] = structs.replace(
                self._pooled[name], statistics=found, observed_seconds=seconds
            )
        self._stale.clear()
        return MappingProxyType(self._pooled)

    def _parts(self, services: Sequence[str], newest: int, negligible: Floats) -> Iterator[ContainerBucket]:
        weight = self._weights.weight
        for row, name in enumerate(services):
            for each, seconds in self._counting(name, negligible):
                for bucket, packed in each.parts:
                    yield ContainerBucket(row, packed, seconds, weight(max(0, newest - bucket)))

    def _counting(self, name: str, negligible: Floats) -> Iterator[tuple[ObservedContainer, float]]:
        """The containers of a service that count, and for how long each of their samples does."""
        of = self._of[name]
        nodes = sorted(node for node, containers in of.items() if any(each.parts for each in containers))
        containers = [[each for each in of[node] if each.parts] for node in nodes]
        seconds = [[each.samples * _sample_seconds(each) for each in some] for some in containers]
        statistics = [[each.statistics for each in some] for some in containers]
        outlying = outlying_nodes(statistics, seconds, negligible, self._outlier_ratio)
        if outlying.any():
            self._outlying[name] = tuple(compress(nodes, outlying))
            containers, seconds = list(compress(containers, ~outlying)), list(compress(seconds, ~outlying))
        for some, share in zip(containers, node_shares(seconds), strict=True):
            for each in some:
                yield each, share * _sample_seconds(each)

    def _containers(self, name: str) -> Iterator[ObservedContainer]:
        # By node, so that sums do not depend on the order in which nodes report.
        of = self._of[name]
        for node in sorted(of):
            yield from of[node]


def _most_common_image(nodes: Mapping[str, Collection[ObservedContainer]]) -> str:
    """The image that most nodes run, however many containers each claims; of several, the most containers."""
    of_nodes = Counter(image for some in nodes.values() for image in {each.image for each in some})
    containers = Counter(each.image for some in nodes.values() for each in some)
    return max(containers, key=lambda image: (of_nodes[image], containers[image], image))


def _sample_seconds(container: ObservedContainer) -> float:
    """The duration of a sample, shorter if all samples would exceed the time for which usage is kept.

    It limits the weight of a container whose node reports too many samples.
    """
    claimed_seconds = container.samples * container.sample_seconds
    return container.sample_seconds * min(1.0, _MAX_SECONDS / max(claimed_seconds, 1.0))


def _is_same_usage(before: Sequence[ObservedContainer], now: Sequence[ObservedContainer]) -> bool:
    """Whether no container has new samples: `parts` of unchanged histograms are the same objects."""
    return len(before) == len(now) and all(
        one.parts == other.parts and one.image == other.image and one.sample_seconds == other.sample_seconds
        for one, other in zip(before, now, strict=True)
    )
