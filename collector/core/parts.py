"""What every part of a running collector works with."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from prometheus_client import Histogram

from collector.analysis.analysis import Understood
from collector.common.outages import Troubles
from collector.config import CollectorConfig
from collector.core.snapshots import Sight
from collector.history.interface import History
from collector.live.registry import Registry
from collector.placement.reservations import Ledger
from collector.web.event_stream import Stream

if TYPE_CHECKING:
    from collector.control.loop import Loop

INGEST_DURATION = (
    "wattpack_collector_ingest_duration_seconds",
    "Time from the head of a request with reports to its answer.",
)
_INGEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Outcome(StrEnum):
    """What became of a report."""

    TAKEN = "taken"
    KNOWN = "known"
    REFUSED = "refused"
    DELAYED = "delayed"


class Kind(StrEnum):
    """What a report is about."""

    HEARTBEAT = "heartbeat"
    NEWS = "news"
    BEACON = "beacon"


@dataclass(slots=True)
class Tally:
    """What the collector counts about its own work."""

    reports: Counter[Outcome] = field(default_factory=Counter)
    taken: Counter[Kind] = field(default_factory=Counter)
    sequence_gaps: int = 0
    ingest_duration: Histogram = field(
        default_factory=lambda: Histogram(*INGEST_DURATION, buckets=_INGEST_BUCKETS, registry=None)
    )


@dataclass(slots=True)
class Will:
    """What acts for a collector, once it has begun to."""

    loop: "Loop | None" = None


@dataclass(frozen=True, slots=True)
class Core:
    """One collector: its settings, what it knows now, what it remembers, and the time."""

    config: CollectorConfig
    registry: Registry
    history: History
    clock: Callable[[], float]
    tally: Tally = field(default_factory=Tally)
    understood: Understood = field(default_factory=Understood)
    troubles: Troubles = field(default_factory=Troubles)
    stream: Stream = field(default_factory=Stream)
    acting: Will = field(default_factory=Will)
    ledger: Ledger = field(default_factory=Ledger)
    """What was decided lately and is not seen yet."""
    sight: Sight = field(default_factory=Sight)
