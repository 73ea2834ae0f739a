"""What a history is asked and answers."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self, TypeVar

import msgspec

from collector.analysis.histograms import Packed
from collector.analysis.usage import report_bucket
from collector.common.report_key import ReportKey
from collector.common.reported_alerts import ReportedAlert
from collector.config import LimitsConfig
from collector.history.timeline import BucketSums
from wire.messages import ContainerUsage, Event, Pressure, Report
from wire.resources import Quantities

log = logging.getLogger(__name__)
Value = TypeVar("Value")

PULLED = "pulled"
"""The boot of reports that were read from a store, which does not record restarts of agents."""
DEFAULT_LIMITS = LimitsConfig()
MOST_GONE, MOST_REPORTS = 20_000, 100_000
"""Containers that ended and reports since the last heartbeat of a run that are remembered: more than any node
has, and a bound for one that sends no heartbeat."""


def is_pulled(report: Report) -> bool:
    """Whether a report was read from a store."""
    return report.boot == PULLED


def decode_values(
    stored: Mapping[str, bytes], decode: Callable[[bytes], Value], what: str
) -> dict[str, Value]:
    """The stored values of a kind, by key. Those that are not valid are left out, and the log says so."""
    found = {}
    for key, packed in stored.items():
        try:
            found[key] = decode(packed)
        except (msgspec.DecodeError, ValueError) as error:
            log.warning("%s %s is invalid, and is ignored: %s", what, key, error)
    return found


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """Mean usage over a window, weighted by time; null if unknown.

    Nodes report only what changed: a value applies until the next sample replaces it.
    """

    samples: int
    """Number of samples, including the one from before the window that applied at its start."""
    seconds: float
    """Seconds of the window that the samples cover."""
    cpu_cores: float | None
    """For a container, computed from its CPU counter where there are two samples."""
    memory_bytes: int | None
    watts: float | None
    """Computed from the energy counter where there are two samples."""


Subject = tuple[str, str | None]
"""Name of a node, and id of a container on it; None for the node itself."""


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """The time of a node's last report, by its own clock: the end of a window."""

    node: str
    boot: str
    at: float


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """What is still to be sent to the store."""

    reports: int
    size_bytes: int
    dropped_reports: int
    """Dropped since the start: the outbox was full, or the store rejected them."""


@dataclass(frozen=True, slots=True)
class HistoryStats:
    """Size of a history."""

    reports: int
    size_bytes: int
    outbox: OutboxStatus | None = None
    """None without a store."""
    damage: str = ""
    """Where the file is damaged; empty if no damage was found."""
    dropped_for_size: int = 0
    """Rows deleted since the start, before their retention was over, to stay below the maximum size."""


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """A report, and when it was received by the collector's clock."""

    report: Report
    received_at: float


EventPosition = tuple[float, int, int]
"""Position of an event among all: by time, then by order of receipt."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event, and the node that reported it."""

    node: str
    event: Event
    position: EventPosition


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """The usage of a node's containers in one bucket, by container id: many heartbeats merged."""

    node: str
    bucket: int
    packed: Mapping[str, Packed]


@dataclass(frozen=True, slots=True)
class UsageKey(ReportKey):
    """The heartbeat that reported some usage, and the bucket that the usage belongs to."""

    bucket: int

    @classmethod
    def received(cls, report: Report, received_at: float) -> Self:
        return cls(report.node, report.boot, report.sequence, report_bucket(report.at, received_at))


@dataclass(frozen=True, slots=True)
class StoredState:
    """What a collector needs to answer after a restart."""

    reports: Sequence[ReceivedReport]
    """Per boot of an agent those since its last heartbeat, in order of receipt.

    Without their events, alerts and usage.
    """
    alerts: Sequence[ReportedAlert]


@dataclass(frozen=True, slots=True)
class StoredHistograms:
    """The usage of the containers of some nodes: every sample of the last day."""

    totals: Sequence[UsageTotal]
    pending: Sequence[tuple[UsageKey, Sequence[ContainerUsage]]]
    """Usage that is not in the totals yet, node by node."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredUsage:
    """Usage in buckets of five minutes."""

    subjects: Sequence[Subject]
    sums: BucketSums
    """Sums per resource, for each bucket of a subject (the place in `subjects`) or for a part of it."""


class SubjectKind(StrEnum):
    """What a series can be about."""

    NODE = "node"
    CONTAINER = "container"
    SERVICE = "service"


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """Usage in one step of a series; null if unknown.

    Means are weighted by time; maxima are the highest sample of the step. For a service, both are sums over
    its containers, and its pressure is absent: shares of time do not add up.
    """

    at: float
    """Start of the step, as Unix time."""
    mean: Quantities
    """Mean use of each resource in the step."""
    max: Quantities
    """Highest use of each resource in the step."""
    mean_watts: float | None
    max_watts: float | None
    mean_pressure: Pressure
    """Mean share of time in which tasks waited for each resource (PSI); a resource is absent if unknown."""
    max_pressure: Pressure
    """The highest share of time of any sample in the step."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A time series with steps of equal length. Steps without data are omitted."""

    step_seconds: float
    """At least the requested step: older data is coarser, and the number of points is limited."""
    points: tuple[Point, ...]


class ClusterPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Power of all nodes together in one step. Idle, system and containers add up to the total."""

    at: float
    """Start of the step, as Unix time."""
    watts: float
    """Mean power of the nodes that reported it, while they reported."""
    idle_watts: float
    """Power of the nodes without any load."""
    system_watts: float
    """Power of processes outside containers."""
    containers_watts: float
    """Power of the containers, without idle power."""
    error_watts: float
    """Expected error of `watts`, if all nodes are wrong in the same direction."""
    nodes: int
    """Number of nodes with data in this step."""


class ClusterSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Power of the cluster over time, in steps of equal length. Steps without data are omitted."""

    step_seconds: float
    """At least the requested step: older data is coarser, and the number of points is limited."""
    points: tuple[ClusterPoint, ...]
    """The power of each step, in order of time."""


class GroupBy(StrEnum):
    """How energy is grouped."""

    NODE = "node"
    CONTAINER = "container"
    SERVICE = "service"
    LABEL = "label"
    DAY = "day"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Energy used in a period by one node, container, service or label value, or on one day (UTC)."""

    key: str | None
    """Node name, container id, service, label value, or day as YYYY-MM-DD.

    Null for the containers that have no service, or not this label.
    """
    joules: float
    """Total energy. For containers and their groups, without the idle power of nodes."""
    idle_joules: float | None = None
    """Nodes and days only: energy of idle nodes, which they use whether or not anything runs."""
    system_joules: float | None = None
    """Nodes and days only: the rest. Idle + system + containers is the total."""
    containers_joules: float | None = None
    """Nodes and days only: energy of all containers, without idle power."""
    covered_seconds: float | None = None
    """Nodes only: time of the period that the energy was used in, as far as the node has reported."""
    node: str | None = None
    """Containers only: the node it ran on."""
    name: str | None = None
    """Containers only: its name in the runtime."""
    service: str | None = None
