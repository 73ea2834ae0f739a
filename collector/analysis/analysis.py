"""One pass over the whole cluster: services, their dominant resources, classes, what is left on each node.

Pure: a snapshot, what services taught, and what was understood before come in; a value that nobody changes
any more goes out. What was learnt of a service outlives its containers, so that the next one starts known.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import msgspec
import numpy as np

from collector.analysis.availability import Availability, availability
from collector.analysis.bottlenecks import Bottleneck
from collector.analysis.dominance import Dominance, Dominant, dominant, shares_of, whole_of
from collector.analysis.envelopes import Statistic
from collector.analysis.groups import Group, group
from collector.analysis.histograms import Floats
from collector.analysis.running import PooledUsage
from collector.analysis.usage import NOT_MEASURED, quantities
from collector.config import AnalysisConfig
from collector.snapshot.columns import Four, ServiceFacts
from collector.snapshot.tables import NOWHERE, Codes, Snapshot
from wire.resources import RESOURCES, Quantities

_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ServiceProfile:
    """What is understood of a service; the numbers are of one container."""

    name: str
    image: str
    containers: int
    """Those that run now."""
    nodes: int
    profiled: bool
    """Whether its need was learnt from enough samples, now or earlier."""
    watched_seconds: float
    statistics: Floats
    """Per resource and `Statistic`."""
    dominant: Dominant | None
    seen_at: float
    """When it last ran."""

    def quantities(self, statistic: Statistic) -> Quantities:
        """One number per resource; absent where it is not known."""
        return quantities(self.statistics[:, statistic])

    def facts(self) -> ServiceFacts:
        """What decisions go by."""
        lead = self.dominant
        return ServiceFacts(
            name=self.name,
            profiled=self.profiled,
            dominant=NOWHERE if lead is None else RESOURCES.index(lead.resource),
            confidence=0.0 if lead is None else lead.confidence,
            envelope=self.quantities(Statistic.ENVELOPE),
            mean=self.quantities(Statistic.MEAN),
            variance=_four(self.statistics[:, Statistic.VARIANCE]),
            image=self.image,
        )


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Analysis:
    """The result of one pass over a snapshot."""

    at: float = 0.0
    """The time of the snapshot; 0 before the first pass."""
    services: Mapping[str, ServiceProfile] = field(default_factory=lambda: MappingProxyType({}))
    """By name, including those that do not run now."""
    groups: tuple[Group, ...] = ()
    task_ids: tuple[str, ...] = ()
    """The containers of the snapshot, in its order."""
    group_of: Codes = field(default_factory=lambda: np.empty(0, np.int8))
    """The number of each container's group; `NOWHERE` without one."""
    changed_groups: Mapping[tuple[str, str], int] = field(default_factory=lambda: MappingProxyType({}))
    """The new group of each container whose group changed, by its node and its id there."""
    availability: Availability = field(default_factory=Availability)
    seconds: float = 0.0
    """Duration of the pass."""


@dataclass(slots=True)
class LatestAnalysis:
    """What is understood by now: each is replaced as a whole, and never changed."""

    latest: Analysis = field(default_factory=Analysis)
    bottlenecks: tuple[Bottleneck, ...] = ()
    """What only the centre sees; nodes' own alerts are the registry's."""


def analyse(
    snapshot: Snapshot, running: Mapping[str, PooledUsage], before: Analysis, settings: AnalysisConfig
) -> Analysis:
    """Think the whole cluster through, from what the containers of each service that runs taught."""
    services = {each.name: each for each in _services(snapshot, running, before.services, settings)}
    tasks = snapshot.tasks
    known = np.array(
        [name in services and services[name].profiled for name in snapshot.services.names], np.bool_
    )
    learnt = tasks.samples > 0
    guessed = ~learnt & (tasks.service != NOWHERE)
    guessed[guessed] = known[tasks.service[guessed]]
    grouping = group(tasks.envelope, learnt, guessed, count=settings.groups, last=before.groups)
    return Analysis(
        at=snapshot.at,
        services=MappingProxyType(services),
        groups=grouping.groups,
        task_ids=tasks.ids,
        group_of=grouping.of,
        changed_groups=MappingProxyType(_changed_groups(snapshot, grouping.of)),
        availability=availability(snapshot),
    )


def _changed_groups(snapshot: Snapshot, group_of: Codes) -> dict[tuple[str, str], int]:
    nodes, tasks = snapshot.nodes.names, snapshot.tasks
    rows = np.flatnonzero((group_of != tasks.group) & (tasks.node != NOWHERE))
    changed = zip(rows.tolist(), tasks.node[rows].tolist(), group_of[rows].tolist(), strict=True)
    # Where two nodes report one id, a snapshot puts the node before it.
    return {
        (nodes[node], tasks.ids[row].removeprefix(f"{nodes[node]}/")): number for row, node, number in changed
    }


def _services(
    snapshot: Snapshot,
    running: Mapping[str, PooledUsage],
    before: Mapping[str, ServiceProfile],
    settings: AnalysisConfig,
) -> Iterator[ServiceProfile]:
    at = snapshot.at
    whole = whole_of(snapshot.nodes.capacity)
    for name in sorted(running):
        learnt, earlier = running[name], before.get(name)
        statistics, watched_seconds = learnt.statistics, learnt.watched_seconds
        profiled = watched_seconds >= settings.profile_seconds
        if not profiled and earlier is not None and earlier.profiled:
            # Its containers are new: what those before them taught holds until these have been watched.
            profiled, statistics, watched_seconds = True, earlier.statistics, earlier.watched_seconds
        yield ServiceProfile(
            name=name,
            image=learnt.image,
            containers=learnt.containers,
            nodes=learnt.nodes,
            profiled=profiled,
            watched_seconds=watched_seconds,
            statistics=statistics,
            dominant=dominant(
                shares_of(statistics[:, Statistic.MEAN].tolist(), whole),
                watched_seconds,
                at,
                None if earlier is None else earlier.dominant,
            ),
            seen_at=at,
        )
    oldest = at - settings.forget_services_after_days * _DAY_SECONDS
    for name, earlier in before.items():
        if name not in running and earlier.profiled and earlier.seen_at >= oldest:
            yield replace(earlier, containers=0, nodes=0)


def _four(row: Floats) -> Four:
    """What is not known varies by nothing."""
    cpu, memory, disk, network = (0.0 if value != value else value for value in row.tolist())  # noqa: PLR0124 - NaN
    return cpu, memory, disk, network


# --- Over a restart -------------------------------------------------------------------------


class _Lesson(msgspec.Struct, frozen=True):
    """What is remembered of a known service."""

    image: str
    watched_seconds: float
    statistics: tuple[tuple[float, ...], ...]
    history: tuple[Dominance, ...]
    shares: tuple[float, float, float, float]
    confidence: float
    explanation: str
    seen_at: float


_decoder = msgspec.msgpack.Decoder(_Lesson)


def lesson(service: ServiceProfile) -> bytes:
    """A known service, to be remembered."""
    lead = service.dominant
    return msgspec.msgpack.encode(
        _Lesson(
            image=service.image,
            watched_seconds=service.watched_seconds,
            statistics=tuple(tuple(row) for row in service.statistics.tolist()),
            history=() if lead is None else lead.history,
            shares=(0.0,) * 4 if lead is None else lead.shares,
            confidence=0.0 if lead is None else lead.confidence,
            explanation="" if lead is None else lead.explanation,
            seen_at=service.seen_at,
        )
    )


def learnt_before(lessons: Mapping[str, bytes]) -> Analysis:
    """What is understood before anything was heard: the services that were known."""
    return Analysis(services=MappingProxyType({each.name: each for each in _recalled(lessons.items())}))


def _recalled(lessons: Iterable[tuple[str, bytes]]) -> Iterator[ServiceProfile]:
    for name, packed in lessons:
        known = _decoder.decode(packed)
        statistics = np.array(known.statistics, dtype=np.float64)
        if statistics.shape != NOT_MEASURED.shape:
            continue  # of a version that told other statistics: it is learnt again soon
        yield ServiceProfile(
            name=name,
            image=known.image,
            containers=0,
            nodes=0,
            profiled=True,
            watched_seconds=known.watched_seconds,
            statistics=statistics,
            dominant=Dominant(
                history=known.history,
                shares=known.shares,
                confidence=known.confidence,
                explanation=known.explanation,
            )
            if known.history
            else None,
            seen_at=known.seen_at,
        )
