"""The analysis of the whole cluster: service profiles, dominant resources and groups.

One pass is pure: a snapshot, the profiles of running services and the last analysis in, a new analysis out.
The profile of a service outlives its containers, so that the next one starts with it. From pass to pass, the
analysis runs in another process than its caller: changes of nodes go in, and changes of the result come out,
in small parts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import structs

from collector.analysis.bottlenecks import Bottleneck
from collector.analysis.capacity import (
    NO_DISK_TIME,
    UNKNOWN_CAPACITY,
    ClusterCapacity,
    DiskTime,
    cluster_capacity,
)
from collector.analysis.contributions import negligible_use
from collector.analysis.dominance import capacity_shares, dominant_before, update_dominance
from collector.analysis.envelopes import Statistic
from collector.analysis.groups import Group, group
from collector.analysis.services import RunningServices, ServiceProfile, service_table
from collector.analysis.usage import NOT_MEASURED, ObservedContainer, UsageWeights
from collector.common.arrays import Codes, Floats
from collector.config import AnalysisConfig, EnvelopeConfig
from collector.snapshot.tables import NOWHERE, Services, Snapshot, Tasks

_DAY_SECONDS = 86_400.0
_REFIT_RATIO = 1 / 16
"""Groups are fitted again when more containers than this share are new, gone or have a new envelope."""
_RENEW_SECONDS = 3600.0
"""Maximum age of `last_seen_at` of a running service."""


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


NOT_FITTED = _FittedContainers((), np.empty((0, 4)))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Analysis:
    """The result of one pass over a snapshot."""

    at: float = 0.0
    """The time of the snapshot; 0 before the first pass."""
    capacity: ClusterCapacity = UNKNOWN_CAPACITY
    disks: DiskTime = NO_DISK_TIME
    services: Mapping[str, ServiceProfile] = field(default_factory=dict)
    """By name, including those that do not run now."""
    groups: tuple[Group, ...] = ()
    fitted: _FittedContainers = field(default=NOT_FITTED)
    """The containers and envelopes of the last fit of the groups."""
    changed_groups: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The new group of each container whose group changed, by its node and its id there."""
    outliers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By node: the services of which it claims far more use than the others, and does not count."""
    seconds: float = 0.0
    """Duration of the pass."""


@dataclass(slots=True)
class LatestAnalysis:
    """The latest results: each is replaced as a whole, and never changed."""

    latest: Analysis = field(default_factory=Analysis)
    bottlenecks: tuple[Bottleneck, ...] = ()
    """Bottlenecks that no single node can detect; the alerts of nodes are in the registry."""


def analyse(
    snapshot: Snapshot, running: Mapping[str, ServiceProfile], before: Analysis, settings: AnalysisConfig
) -> Analysis:
    """Analyse the whole cluster; `running` is what the containers of each running service show."""
    nodes, elapsed = snapshot.nodes, snapshot.at - before.at
    disks = before.disks.add(nodes, min(max(elapsed, 0.0), settings.interval_seconds) if before.at else 0.0)
    capacity = cluster_capacity(
        nodes.capacity, nodes.learned, disks, settings.profile_seconds, before.capacity
    )
    services = dict(_update_running(snapshot.at, running, before, settings, capacity))
    services |= _keep_ended(snapshot.at, running, before.services, settings)
    tasks = snapshot.tasks
    profiled = np.array(
        [name in services and services[name].profiled for name in snapshot.services.names], np.bool_
    )
    measured = tasks.observed_seconds > 0
    estimated = ~measured & (tasks.service != NOWHERE)
    estimated[estimated] = profiled[tasks.service[estimated]]
    is_fitted = before.fitted.count_changed(tasks) <= _REFIT_RATIO * len(tasks.ids)
    groups, group_of = group(
        tasks.envelope, measured, estimated, count=settings.groups, last=before.groups, refit=not is_fitted
    )
    return Analysis(
        at=snapshot.at,
        capacity=capacity,
        disks=disks,
        services=MappingProxyType(services),
        groups=groups,
        fitted=before.fitted if is_fitted else _FittedContainers(tasks.ids, tasks.envelope),
        changed_groups=MappingProxyType(_changed_groups(snapshot, group_of)),
    )


def _changed_groups(snapshot: Snapshot, group_of: Codes) -> dict[tuple[str, str], int]:
    nodes, tasks = snapshot.nodes.names, snapshot.tasks
    rows = np.flatnonzero((group_of != tasks.group) & (tasks.node != NOWHERE))
    changed = zip(rows.tolist(), tasks.node[rows].tolist(), group_of[rows].tolist(), strict=True)
    # If two nodes report the same id, the snapshot prefixes it with the node.
    return {
        (nodes[node], tasks.ids[row].removeprefix(f"{nodes[node]}/")): number for row, node, number in changed
    }


def _update_running(
    at: float,
    running: Mapping[str, ServiceProfile],
    last: Analysis,
    settings: AnalysisConfig,
    capacity: ClusterCapacity,
) -> Iterator[tuple[str, ServiceProfile]]:
    is_same_capacity = capacity.equals(last.capacity)
    for name in sorted(running):
        now, before = running[name], last.services.get(name)
        if before is not None and is_same_capacity and _is_current(before, now, at):
            yield name, before
            continue
        known = now
        profiled = now.observed_seconds >= settings.profile_seconds
        if not profiled and before is not None and before.profiled:
            # Its containers are new: the earlier profile holds until these are observed for long enough.
            profiled, known = True, before
        shares = capacity_shares(known.statistics[:, Statistic.MEAN].tolist(), capacity.amounts)
        yield (
            name,
            structs.replace(
                now,
                profiled=profiled,
                observed_seconds=known.observed_seconds,
                statistics=known.statistics,
                dominant=update_dominance(
                    shares,
                    known.observed_seconds,
                    at,
                    None if before is None else before.dominant,
                    capacity.known,
                ),
                last_seen_at=at,
                node=now.node if before is None or before.node == now.node else "",
            ),
        )


def _is_current(profile: ServiceProfile, now: ServiceProfile, at: float) -> bool:
    """Whether a profile still matches the usage, and is not older than `_RENEW_SECONDS`."""
    return (
        profile.statistics is now.statistics
        and profile.containers == now.containers
        and profile.nodes == now.nodes
        and profile.image == now.image
        and 0 <= at - profile.last_seen_at < _RENEW_SECONDS
    )


def _keep_ended(
    at: float, running: Mapping[str, object], last: Mapping[str, ServiceProfile], settings: AnalysisConfig
) -> dict[str, ServiceProfile]:
    """The services that ended and are not forgotten yet, without the oldest of a node that has too many.

    A node can invent names of services. A service that ran on several nodes is not counted for any of them.
    """
    oldest = at - settings.forget_services_after_days * _DAY_SECONDS
    of_node: defaultdict[str, list[ServiceProfile]] = defaultdict(list)
    for name, each in last.items():
        if name not in running and each.profiled and each.last_seen_at >= oldest:
            ended = structs.replace(each, containers=0, nodes=0) if each.containers else each
            of_node[each.node].append(ended)
    for node, own in of_node.items():
        if node and len(own) > settings.max_ended_services_per_node:
            own.sort(key=lambda each: each.last_seen_at, reverse=True)
            del own[settings.max_ended_services_per_node :]
    return {each.name: each for own in of_node.values() for each in own}


def without_node(before: Analysis, node: str, since: float | None, services: Collection[str]) -> Analysis:
    """An analysis from which the next pass continues as if a node had contributed nothing since a time.

    What its services need follows from their other containers. Their dominant resources are those of before;
    groups, and what disks can do, are found anew.
    """
    kept = {name: each for name, each in before.services.items() if each.node != node}
    for name in services:
        if (profile := kept.get(name)) is not None and profile.containers:
            kept[name] = structs.replace(
                profile, profiled=False, dominant=dominant_before(profile.dominant, since)
            )
    return replace(
        before,
        services=MappingProxyType(kept),
        disks=NO_DISK_TIME,
        groups=(),
        fitted=NOT_FITTED,
        outliers={},
    )


# --- Stored profiles -------------------------------------------------------------------------


def pack_profile(service: ServiceProfile) -> bytes:
    """A service profile, for the history."""
    return msgspec.msgpack.encode(service, enc_hook=np.ndarray.tolist)


def restore_analysis(packed: Iterable[bytes]) -> Analysis:
    """The analysis after a restart: the service profiles of the history."""
    return Analysis(services=MappingProxyType({each.name: each for each in _unpack_profiles(packed)}))


_decoder = msgspec.msgpack.Decoder(ServiceProfile, dec_hook=lambda _, rows: np.array(rows, np.float64))


def _unpack_profiles(profiles: Iterable[bytes]) -> Iterator[ServiceProfile]:
    for packed in profiles:
        try:
            profile = _decoder.decode(packed)
        except (msgspec.DecodeError, ValueError):
            continue  # not valid: the profile is learned again
        if profile.statistics.shape == NOT_MEASURED.shape:
            yield structs.replace(profile, containers=0, nodes=0)


Key = TypeVar("Key")
Value = TypeVar("Value")
_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisChanges:
    """A part of what a pass changed."""

    services: Mapping[str, ServiceProfile | None] = field(default_factory=dict)
    """The services that changed; None for those that are forgotten."""
    groups: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """As `Analysis.changed_groups`."""
    result: Analysis | None = None
    """The rest, once, as the last part."""
    table: Services | None = None
    """All services as columns, with the last part; None if they did not change."""


class AnalysisPass:
    """Analyses the cluster; all of it, or only what changed. Not thread-safe."""

    def __init__(self) -> None:
        self._settings = AnalysisConfig()
        self._running: RunningServices | None = None
        self._last = Analysis()

    def restart(self, last: Analysis) -> Iterator[None]:
        """Continue from a result that another one found; its services follow."""
        self._running, self._last = None, last
        yield None

    def restore(self, services: Mapping[str, ServiceProfile]) -> Iterator[None]:
        """Add services to the last result."""
        self._last = replace(self._last, services={**self._last.services, **services})
        yield None

    def begin(self, settings: AnalysisConfig, envelopes: EnvelopeConfig) -> Iterator[None]:
        """Begin a full pass: the containers of all nodes follow."""
        self._settings = settings
        self._running = RunningServices(UsageWeights.of(envelopes), settings.outlier_ratio)
        yield None

    def put(self, observed: Mapping[str, Sequence[ObservedContainer]]) -> Iterator[None]:
        """Replace the containers of these nodes."""
        assert self._running is not None
        for node, containers in observed.items():
            self._running.put(node, containers)
        yield None

    def run(self, snapshot: Snapshot) -> Iterator[AnalysisChanges]:
        """Analyse, and yield what changed."""
        before, running = self._last, self._running
        # A pass that fails could leave half of its changes.
        self._running = None
        assert running is not None
        profiles = running.pool(snapshot.at, negligible_use(snapshot.nodes.capacity))
        found = replace(analyse(snapshot, profiles, before, self._settings), outliers=running.outliers())
        self._last, self._running = found, running
        forgotten = before.services.keys() - found.services.keys()
        changed: dict[str, ServiceProfile | None] = dict.fromkeys(forgotten)
        changed |= {
            name: each for name, each in found.services.items() if before.services.get(name) is not each
        }
        for services in in_parts(changed):
            yield AnalysisChanges(services=services)
        for groups in in_parts(found.changed_groups):
            yield AnalysisChanges(groups=groups)
        # Profiles that did not change are the same objects.
        table = service_table(found.services) if changed else None
        rest = replace(found, services={}, changed_groups={}, fitted=NOT_FITTED)
        yield AnalysisChanges(result=rest, table=table)


def merged(before: Analysis, changes: Sequence[AnalysisChanges]) -> Analysis:
    """Return the result of a pass, from the last one and what changed."""
    services = dict(before.services)
    for name, profile in chain.from_iterable(each.services.items() for each in changes):
        if profile is None:
            del services[name]
        else:
            services[name] = profile
    result = changes[-1].result
    assert result is not None
    return replace(result, services=MappingProxyType(services))


def in_parts(values: Mapping[Key, Value]) -> Iterator[dict[Key, Value]]:
    """Yield a mapping in parts that are small enough to be handed over at once."""
    items = iter(values.items())
    while part := dict(islice(items, _AT_ONCE)):
        yield part
