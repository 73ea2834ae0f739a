"""One pass over the whole cluster: service profiles, dominant resources, groups, availability of the nodes.

Pure: a snapshot, the pooled usage of services and the last analysis in, a new analysis out. The profile of a
service outlives its containers, so that the next one starts with it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec
import numpy as np
from msgspec import structs

from collector.analysis.availability import Availability, availability
from collector.analysis.bottlenecks import Bottleneck
from collector.analysis.dominance import (
    Dominance,
    ServiceDominance,
    capacity_shares,
    cluster_capacity,
    update_dominance,
)
from collector.analysis.envelopes import Statistic
from collector.analysis.groups import Group, group
from collector.analysis.running import PooledUsage
from collector.analysis.usage import NOT_MEASURED, to_quantities
from collector.common.arrays import Codes, Floats
from collector.config import AnalysisConfig
from collector.snapshot.columns import Four, ServiceFacts
from collector.snapshot.tables import NOWHERE, Snapshot, Tasks
from wire.resources import RESOURCES, Quantities

_DAY_SECONDS = 86_400.0
_REFIT_RATIO = 1 / 16
"""Groups are fitted again when more containers than this share are new, gone or have a new envelope."""
_RENEW_SECONDS = 3600.0
"""Maximum age of `last_seen_at` of a running service."""


class ServiceProfile(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """The profile of a service; the numbers are of one container.

    There are very many, and none has a reference cycle, so the garbage collector may skip them.
    """

    name: str
    image: str
    containers: int
    """Running now."""
    nodes: int
    profiled: bool
    """Whether its need was learned from enough samples, now or earlier."""
    observed_seconds: float
    statistics: Floats
    """Per resource and `Statistic`."""
    dominant: ServiceDominance | None
    last_seen_at: float
    """When it last ran."""
    node: str = ""
    """The only node that it ever ran on; empty if there were several."""

    def quantities(self, statistic: Statistic) -> Quantities:
        """One statistic of each resource; None if unknown."""
        return to_quantities(self.statistics[:, statistic])

    def facts(self) -> ServiceFacts:
        """The facts that policies use."""
        dominant = self.dominant
        return ServiceFacts(
            name=self.name,
            profiled=self.profiled,
            dominant=NOWHERE if dominant is None else RESOURCES.index(dominant.resource),
            confidence=0.0 if dominant is None else dominant.confidence,
            envelope=self.quantities(Statistic.ENVELOPE),
            mean=self.quantities(Statistic.MEAN),
            variance=_known_or_zero(self.statistics[:, Statistic.VARIANCE]),
            image=self.image,
        )


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Analysis:
    """The result of one pass over a snapshot."""

    at: float = 0.0
    """The time of the snapshot; 0 before the first pass."""
    capacity: tuple[float | None, ...] = ()
    """The capacity of all nodes, per resource; None is unknown."""
    services: Mapping[str, ServiceProfile] = field(default_factory=lambda: MappingProxyType({}))
    """By name, including those that do not run now."""
    groups: tuple[Group, ...] = ()
    task_ids: tuple[str, ...] = ()
    """The containers of the snapshot, in its order."""
    group_of: Codes = field(default_factory=lambda: np.empty(0, np.int8))
    """The number of each container's group; `NOWHERE` without one."""
    fitted: "_FittedContainers | None" = None
    """The containers and envelopes of the last fit of the groups."""
    changed_groups: Mapping[tuple[str, str], int] = field(default_factory=lambda: MappingProxyType({}))
    """The new group of each container whose group changed, by its node and its id there."""
    availability: Availability = field(default_factory=Availability)
    seconds: float = 0.0
    """Duration of the pass."""
    left_out: tuple[str, ...] = ()
    """Nodes whose usage is invalid and ignored."""


@dataclass(frozen=True, eq=False, slots=True)
class _FittedContainers:
    """The containers that groups were fitted to."""

    task_ids: tuple[str, ...]
    envelope: Floats

    def count_changed(self, tasks: Tasks) -> int:
        """How many containers are new, gone, or have another envelope."""
        if self.task_ids == tasks.ids:
            return int(np.count_nonzero((self.envelope != tasks.envelope).any(axis=1)))
        before = {name: row for row, name in enumerate(self.task_ids)}
        rows = [(before[name], row) for row, name in enumerate(tasks.ids) if name in before]
        old, new = np.array(rows, dtype=np.intp).reshape(-1, 2).T
        differ = (self.envelope[old] != tasks.envelope[new]).any(axis=1)
        return len(self.task_ids) + len(tasks.ids) - 2 * len(rows) + int(np.count_nonzero(differ))


@dataclass(slots=True)
class LatestAnalysis:
    """The latest results: each is replaced as a whole, and never changed."""

    latest: Analysis = field(default_factory=Analysis)
    bottlenecks: tuple[Bottleneck, ...] = ()
    """Bottlenecks that no single node can detect; the alerts of nodes are in the registry."""


def analyse(
    snapshot: Snapshot, running: Mapping[str, PooledUsage], before: Analysis, settings: AnalysisConfig
) -> Analysis:
    """Analyse the whole cluster; `running` is the pooled usage of each service that runs."""
    capacity = cluster_capacity(snapshot.nodes.capacity)
    # NaN does not equal itself.
    known_capacity = tuple(None if each != each else each for each in capacity)  # noqa: PLR0124 - NaN
    is_same_capacity = known_capacity == before.capacity
    services = {
        each.name: each
        for each in _profile_services(
            snapshot, running, before.services, settings, capacity, is_same_capacity
        )
    }
    tasks = snapshot.tasks
    profiled = np.array(
        [name in services and services[name].profiled for name in snapshot.services.names], np.bool_
    )
    measured = tasks.observed_seconds > 0
    estimated = ~measured & (tasks.service != NOWHERE)
    estimated[estimated] = profiled[tasks.service[estimated]]
    fitted = before.fitted
    is_fitted = fitted is not None and fitted.count_changed(tasks) <= _REFIT_RATIO * len(tasks.ids)
    grouping = group(
        tasks.envelope, measured, estimated, count=settings.groups, last=before.groups, refit=not is_fitted
    )
    return Analysis(
        at=snapshot.at,
        capacity=known_capacity,
        services=MappingProxyType(services),
        groups=grouping.groups,
        task_ids=tasks.ids,
        group_of=grouping.group_of,
        fitted=fitted if is_fitted else _FittedContainers(tasks.ids, tasks.envelope),
        changed_groups=MappingProxyType(_changed_groups(snapshot, grouping.group_of)),
        availability=availability(snapshot),
    )


def _changed_groups(snapshot: Snapshot, group_of: Codes) -> dict[tuple[str, str], int]:
    nodes, tasks = snapshot.nodes.names, snapshot.tasks
    rows = np.flatnonzero((group_of != tasks.group) & (tasks.node != NOWHERE))
    changed = zip(rows.tolist(), tasks.node[rows].tolist(), group_of[rows].tolist(), strict=True)
    # If two nodes report the same id, the snapshot prefixes it with the node.
    return {
        (nodes[node], tasks.ids[row].removeprefix(f"{nodes[node]}/")): number for row, node, number in changed
    }


def _profile_services(  # noqa: PLR0913, PLR0917 - all that a profile depends on
    snapshot: Snapshot,
    running: Mapping[str, PooledUsage],
    before: Mapping[str, ServiceProfile],
    settings: AnalysisConfig,
    capacity: Sequence[float],
    is_same_capacity: bool,  # noqa: FBT001 - private to this module
) -> Iterator[ServiceProfile]:
    at = snapshot.at
    for name in sorted(running):
        pooled, earlier = running[name], before.get(name)
        if earlier is not None and is_same_capacity and _is_current(earlier, pooled, at):
            yield earlier
            continue
        statistics, observed_seconds = pooled.statistics, pooled.observed_seconds
        profiled = observed_seconds >= settings.profile_seconds
        if not profiled and earlier is not None and earlier.profiled:
            # Its containers are new: the earlier profile holds until these are observed for long enough.
            profiled, statistics, observed_seconds = True, earlier.statistics, earlier.observed_seconds
        yield ServiceProfile(
            name=name,
            image=pooled.image,
            containers=pooled.containers,
            nodes=pooled.nodes,
            profiled=profiled,
            observed_seconds=observed_seconds,
            statistics=statistics,
            dominant=update_dominance(
                capacity_shares(statistics[:, Statistic.MEAN].tolist(), capacity),
                observed_seconds,
                at,
                None if earlier is None else earlier.dominant,
            ),
            last_seen_at=at,
            node=pooled.node if earlier is None or earlier.node == pooled.node else "",
        )
    oldest = at - settings.forget_services_after_days * _DAY_SECONDS
    ended = [
        each
        for name, each in before.items()
        if name not in running and each.profiled and each.last_seen_at >= oldest
    ]
    for each in _limit_per_node(ended, settings.max_ended_services_per_node):
        yield structs.replace(each, containers=0, nodes=0)


def _limit_per_node(services: Iterable[ServiceProfile], max_count: int) -> Iterator[ServiceProfile]:
    """Drop the oldest services of each node that has too many services of its own.

    A node can invent names of services. A service that ran on several nodes is not counted for any of them.
    """
    of_node: defaultdict[str, list[ServiceProfile]] = defaultdict(list)
    for each in services:
        of_node[each.node].append(each)
    for node, own in of_node.items():
        if node and len(own) > max_count:
            own.sort(key=_last_seen_at, reverse=True)
            yield from own[:max_count]
        else:
            yield from own


def _last_seen_at(service: ServiceProfile) -> float:
    return service.last_seen_at


def _is_current(profile: ServiceProfile, pooled: PooledUsage, at: float) -> bool:
    """Whether a profile still matches the usage, and is not older than `_RENEW_SECONDS`."""
    return (
        profile.statistics is pooled.statistics
        and profile.containers == pooled.containers
        and profile.nodes == pooled.nodes
        and profile.image == pooled.image
        and 0 <= at - profile.last_seen_at < _RENEW_SECONDS
    )


def _known_or_zero(row: Floats) -> Four:
    """A row of variances; 0 where unknown."""
    cpu, memory, disk, network = (0.0 if value != value else value for value in row.tolist())  # noqa: PLR0124 - NaN
    return cpu, memory, disk, network


# --- Stored profiles -------------------------------------------------------------------------


class _StoredProfile(msgspec.Struct, frozen=True):
    """A service profile in the history."""

    image: str
    observed_seconds: float
    statistics: tuple[tuple[float, ...], ...]
    history: tuple[Dominance, ...]
    shares: tuple[float, float, float, float]
    confidence: float
    explanation: str
    last_seen_at: float
    node: str = ""


_decoder = msgspec.msgpack.Decoder(_StoredProfile)


def pack_profile(service: ServiceProfile) -> bytes:
    """A service profile, for the history."""
    dominant = service.dominant
    return msgspec.msgpack.encode(
        _StoredProfile(
            image=service.image,
            observed_seconds=service.observed_seconds,
            statistics=tuple(tuple(row) for row in service.statistics.tolist()),
            history=() if dominant is None else dominant.history,
            shares=(0.0,) * 4 if dominant is None else dominant.shares,
            confidence=0.0 if dominant is None else dominant.confidence,
            explanation="" if dominant is None else dominant.explanation,
            last_seen_at=service.last_seen_at,
            node=service.node,
        )
    )


def restore_analysis(packed: Mapping[str, bytes]) -> Analysis:
    """The analysis after a restart: the service profiles of the history."""
    return Analysis(services=MappingProxyType({each.name: each for each in _unpack_profiles(packed.items())}))


def _unpack_profiles(items: Iterable[tuple[str, bytes]]) -> Iterator[ServiceProfile]:
    for name, packed in items:
        try:
            stored = _decoder.decode(packed)
        except (msgspec.DecodeError, ValueError):
            continue  # not valid: the profile is learned again
        statistics = np.array(stored.statistics, dtype=np.float64)
        if statistics.shape != NOT_MEASURED.shape:
            continue  # written by another version: the profile is learned again
        yield ServiceProfile(
            name=name,
            image=stored.image,
            containers=0,
            nodes=0,
            profiled=True,
            observed_seconds=stored.observed_seconds,
            statistics=statistics,
            dominant=ServiceDominance(
                history=stored.history,
                shares=stored.shares,
                confidence=stored.confidence,
                explanation=stored.explanation,
            )
            if stored.history
            else None,
            last_seen_at=stored.last_seen_at,
            node=stored.node,
        )
