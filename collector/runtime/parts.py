"""The parts of one running collector, and its counters."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from prometheus_client import Histogram

from collector.analysis.analysis import LatestAnalysis
from collector.common.errors import HistoryUnavailable
from collector.common.outages import Dependency, Outages
from collector.config import CollectorConfig
from collector.decide.policies.admission.record import ShortageRecord
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.reservations import Reservations
from collector.history.sqlite.history import History
from collector.observe.live_tables import LiveTables
from collector.observe.registry import Registry
from collector.runtime.applied import AppliedReports
from collector.runtime.event_stream import EventStream
from collector.runtime.tariff import TariffSource
from collector.runtime.worker import Worker
from collector.snapshot.tables import Snapshot

_OLDEST_RATIO = 5.0
"""How much older a snapshot may be while a newer one is being taken."""
_WAIT_SECONDS = 0.003
"""The snapshot of a small cluster takes less; for a large one, the last snapshot is used meanwhile."""
INGEST_DURATION = (
    "wattpack_collector_ingest_duration_seconds",
    "Time from the headers of a request with reports to its response.",
)
_INGEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


Part = TypeVar("Part")


class ReportOutcome(StrEnum):
    """The outcome of a received report."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    DELAYED = "delayed"


class ReportKind(StrEnum):
    """The kinds of reports."""

    HEARTBEAT = "heartbeat"
    CHANGE = "change"
    BEACON = "beacon"


@dataclass(slots=True)
class IngestCounters:
    """Counters of the ingestion."""

    reports: Counter[ReportOutcome] = field(default_factory=Counter)
    accepted: Counter[ReportKind] = field(default_factory=Counter)
    sequence_gaps: int = 0
    ingest_duration: Histogram = field(
        default_factory=lambda: Histogram(*INGEST_DURATION, buckets=_INGEST_BUCKETS, registry=None)
    )


class SnapshotCache:
    """The newest snapshot, built in a thread so that requests seldom wait for it, one at a time."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._building: asyncio.Task[None] | None = None
        self.warm_up: Callable[[Snapshot], object] | None = None
        """Answers the last question again on each new snapshot, to cache what the next question needs."""

    async def snapshot(
        self, tables: LiveTables, now: float, *, fresh_seconds: float, oldest_seconds: float
    ) -> Snapshot:
        """A snapshot no older than `fresh_seconds` if there is one at once, else than `oldest_seconds`."""
        while not self._is_younger(now, fresh_seconds):
            building, is_new = self._building, False
            if building is None or building.done():
                building = asyncio.create_task(asyncio.to_thread(self._build, tables, now))
                is_new = True
                self._building = building
            is_usable = self._is_younger(now, oldest_seconds)
            await asyncio.wait({building}, timeout=_WAIT_SECONDS if is_usable else None)
            if building.done():
                building.result()
            # One that an earlier request started may be too old as well.
            if is_usable or is_new:
                break
        assert self._last is not None
        return self._last

    def _is_younger(self, now: float, seconds: float) -> bool:
        return self._last is not None and 0 <= now - self._last.at < seconds

    def _build(self, tables: LiveTables, now: float) -> None:
        snapshot = tables.snapshot(now)
        if self.warm_up is not None:
            self.warm_up(snapshot)
        self._last = snapshot


@dataclass(frozen=True, slots=True)
class Core:
    """One collector: its settings, its state, its history and its clock."""

    config: CollectorConfig
    registry: Registry
    history: History
    clock: Callable[[], float]
    counters: IngestCounters = field(default_factory=IngestCounters)
    analysis: LatestAnalysis = field(default_factory=LatestAnalysis)
    outages: Outages = field(default_factory=Outages)
    applied: AppliedReports = field(default_factory=AppliedReports)
    events: EventStream = field(default_factory=EventStream)
    reservations: Reservations = field(default_factory=Reservations)
    """Recent placements that no node has reported yet."""
    shortages: ShortageRecord = field(default_factory=ShortageRecord)
    """How often nodes were short, compared with the predictions."""
    snapshots: SnapshotCache = field(default_factory=SnapshotCache)
    tariffs: TariffSource | None = None
    """Price and emissions of energy."""
    worker: Worker = field(default_factory=Worker)
    """Where analyses and plans are computed."""
    planning: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a requested plan is made: many at once would take all threads and the CPU."""

    _parts: dict[Any, Any] = field(default_factory=dict)

    def part(self, kind: Callable[["Core"], Part]) -> Part:
        """The part of this collector that a feature keeps: created on first use, one of each kind."""
        if kind not in self._parts:
            self._parts[kind] = kind(self)
        found: Part = self._parts[kind]
        return found

    @property
    def admission(self) -> AdmissionRule | None:
        """The rule that refuses placements with too high a risk of a shortage; None if all are admitted."""
        limit = self.config.placement.risk_max
        return AdmissionRule(limit, self.shortages) if limit < 1 else None

    @property
    def restoring(self) -> str:
        """What a start still restores; empty once all is there."""
        return self.outages.by_dependency.get(Dependency.STATE, "")

    def require_state(self) -> None:
        """Raise `HistoryUnavailable` while a start restores usage: nothing is decided or added until then."""
        if self.restoring:
            raise HistoryUnavailable(self.restoring)

    async def snapshot(self) -> Snapshot:
        """The newest snapshot that is available without a long wait, with pending placements.

        Raises `HistoryUnavailable` while a start restores usage.
        """
        self.require_state()
        now, placement = self.clock(), self.config.placement
        snapshot = await self.snapshots.snapshot(
            self.registry.tables,
            now,
            fresh_seconds=placement.snapshot_seconds,
            oldest_seconds=_OLDEST_RATIO * placement.snapshot_seconds,
        )
        return self.reservations.fold(snapshot, now)
