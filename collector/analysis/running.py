"""The running containers of each service and their pooled usage, kept from one pass to the next.

Few containers change between two passes. The usage of a service is pooled again only if one of its containers
started, ended or has new samples. The result is the same as that of a full pass.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import structs

from collector.analysis.services import ContainerSlot, pool
from collector.analysis.usage import (
    NOT_MEASURED,
    SLOT_SECONDS,
    SLOTS,
    ObservedContainer,
    UsageWeights,
    slot_at,
)
from collector.common.arrays import Floats

log = logging.getLogger(__name__)

_MAX_SECONDS = 2 * SLOTS * SLOT_SECONDS
"""Twice the time that samples are kept, as the sampling interval is not exact and may have changed."""
_Containers = tuple[ObservedContainer, ...]


class PooledUsage(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """The usage of all containers of a running service; the statistics are of one container.

    There are very many, and none has a reference cycle, so the garbage collector may skip them.
    """

    image: str
    containers: int
    nodes: int
    node: str = ""
    """The node, if there is only one."""
    statistics: Floats = msgspec.field(default_factory=lambda: NOT_MEASURED)
    """Per resource and `Statistic`."""
    observed_seconds: float = 0.0


class RunningServices:
    """The running services. Not thread-safe."""

    def __init__(self, weights: UsageWeights) -> None:
        self._weights = weights
        self._services_of: dict[str, frozenset[str]] = {}
        """The services of each node."""
        self._of: defaultdict[str, dict[str, _Containers]] = defaultdict(dict)
        """The containers of each service, by node."""
        self._stale: set[str] = set()
        self._pooled: dict[str, PooledUsage] = {}
        self.left_out: set[str] = set()
        """Nodes whose usage is invalid and ignored."""

    def put(self, node: str, observed: Sequence[ObservedContainer]) -> None:
        """Replace the containers of a node."""
        found: defaultdict[str, list[ObservedContainer]] = defaultdict(list)
        for each in observed:
            found[each.service].append(each)
        self.left_out.discard(node)
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

    def pool(self, at: float) -> Mapping[str, PooledUsage]:
        """The pooled usage of each running service, by name."""
        several = []
        for name in sorted(self._stale):
            containers = list(self._containers(name))
            if not containers:
                del self._of[name]
                self._pooled.pop(name, None)
                continue
            nodes = self._of[name]
            one = containers[0]
            seconds = one.samples * one.sample_seconds * _plausible_ratio(one)
            # The statistics of a single container were computed when its samples arrived.
            is_known = len(containers) == 1 and bool(one.parts)
            self._pooled[name] = PooledUsage(
                image=_most_common_image(containers),
                containers=len(containers),
                nodes=len(nodes),
                node=next(iter(nodes)) if len(nodes) == 1 else "",
                statistics=one.statistics if is_known else NOT_MEASURED,
                observed_seconds=seconds if is_known else 0.0,
            )
            if len(containers) > 1:
                several.append(name)
        try:
            self._pool(several, at)
        except Exception:
            log.exception("cannot pool the usage of all services at once: pooling them one by one")
            for name in several:
                self._pool_valid(name, at)
        self._stale.clear()
        return MappingProxyType(self._pooled)

    def _pool(self, services: Sequence[str], at: float) -> None:
        for pooled in pool(self._parts(services, slot_at(at)), len(services), self._weights.rule):
            for row, statistics, seconds in zip(
                pooled.services, pooled.statistics, pooled.observed_seconds.tolist(), strict=True
            ):
                name = services[row]
                self._pooled[name] = structs.replace(
                    self._pooled[name], statistics=statistics.copy(), observed_seconds=seconds
                )

    def _pool_valid(self, name: str, at: float) -> None:
        """Pool one service without the containers whose usage is not valid."""
        of = self._of[name]
        for node, containers in of.items():
            of[node] = tuple(each for each in containers if self._is_valid(each))
            if len(of[node]) < len(containers):
                log.warning("ignoring the usage of service %r on node %r: it is invalid", name, node)
                self.left_out.add(node)
        self._pool([name], at)

    def _is_valid(self, container: ObservedContainer) -> bool:
        parts = [ContainerSlot(0, packed, 1.0, 1.0) for _, packed in container.parts]
        try:
            list(pool(parts, 1, self._weights.rule))
        except Exception:  # noqa: BLE001 - any error affects only this container
            return False
        return True

    def _parts(self, services: Sequence[str], newest: int) -> Iterator[ContainerSlot]:
        weight = self._weights.weight
        for row, name in enumerate(services):
            for each in self._containers(name):
                seconds = each.sample_seconds * _plausible_ratio(each)
                for slot, packed in each.parts:
                    yield ContainerSlot(row, packed, seconds, weight(max(0, newest - slot)))

    def _containers(self, name: str) -> Iterator[ObservedContainer]:
        # By node, so that sums do not depend on the order in which nodes report.
        of = self._of[name]
        for node in sorted(of):
            yield from of[node]


def _most_common_image(containers: Sequence[ObservedContainer]) -> str:
    """The image of most of these containers; the first one in a tie."""
    if len(containers) == 1:
        return containers[0].image
    return Counter(each.image for each in containers).most_common(1)[0][0]


def _plausible_ratio(container: ObservedContainer) -> float:
    """The share of a container's samples that fits into the time for which usage is kept.

    It limits the weight of a container whose node reports too many samples.
    """
    claimed_seconds = container.samples * container.sample_seconds
    return 1.0 if claimed_seconds <= _MAX_SECONDS else _MAX_SECONDS / claimed_seconds


def _is_same_usage(before: Sequence[ObservedContainer], now: Sequence[ObservedContainer]) -> bool:
    """Whether no container has new samples: `parts` of unchanged histograms are the same objects."""
    return len(before) == len(now) and all(
        one.parts == other.parts and one.image == other.image and one.sample_seconds == other.sample_seconds
        for one, other in zip(before, now, strict=True)
    )
