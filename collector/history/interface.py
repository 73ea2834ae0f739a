"""What a history is: the only thing that the rest of the collector knows of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import msgspec

from collector.analysis.histograms import Packed
from collector.reports.alerts import ReportedAlert
from wire.messages import ContainerUsage, Event, Report
from wire.resources import Quantities


class HistoryUnavailable(Exception):  # noqa: N818 - a state of the disk or store that passes, not a bug
    """The history cannot be written or read now; the message says why, for a person."""


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """What was used on average over a window; null where it is not known.

    A sample tells of the time that it was taken over, and holds until the time that the next one tells
    of: nodes say only what moved. The values are weighted by the time for which they held.
    """

    samples: int
    """How many there are, with the one from before the window that held at its start."""
    seconds: float
    """How much of the window they tell of."""
    cpu_cores: float | None
    """Of a container, between two samples: from the difference of its CPU counter."""
    memory_bytes: int | None
    watts: float | None
    """Between two samples: from the difference of the energy counter."""


ContainerKey = tuple[str, str]
"""A node's name and a container's id on it."""


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """A node's last word, by its own clock: where a window ends."""

    node: str
    boot: str
    at: float


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """What a store elsewhere has not taken."""

    reports: int
    size_bytes: int
    dropped_reports: int
    """Given up since the start: no more room, or refused for good."""


@dataclass(frozen=True, slots=True)
class HistoryStats:
    """How much a history holds."""

    reports: int
    size_bytes: int
    outbox: OutboxStatus | None = None
    """None where there is no store elsewhere."""
    dropped_for_size: int = 0
    """Rows of samples that went before their time, since the start, so that the size stays in its bound."""


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """A report, and when it came in by the collector's clock."""

    report: Report
    received_at: float


EventPosition = tuple[float, int, int]
"""Where an event stands among all: by its time, then in the order in which events came in."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event, and the node that told of it."""

    node: str
    event: Event
    position: EventPosition


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """What a node's containers used in a slot, by their ids: the sum of many words."""

    node: str
    slot: int
    packed: Mapping[str, Packed]


@dataclass(frozen=True, slots=True)
class UsageKey:
    """The heartbeat that told of some usage, and the slot which that belongs to."""

    node: str
    boot: str
    sequence: int
    slot: int


@dataclass(frozen=True, slots=True)
class StoredState:
    """All that a collector needs in order to be as wise as before it was stopped."""

    reports: Sequence[ReceivedReport]
    """Per run of an agent those since its last heartbeat, in the order in which they came in.

    Without the events, alerts and usage that they bore.
    """
    alerts: Sequence[ReportedAlert]
    usage: Sequence[UsageTotal]
    pending_usage: Iterable[tuple[UsageKey, Sequence[ContainerUsage]]]
    """What was said since, and is not in the sums."""


class SubjectKind(StrEnum):
    """Whose history can be asked for."""

    NODE = "node"
    CONTAINER = "container"
    SERVICE = "service"


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What was used in one step of a series; null where it is not known.

    Means are weighted by time; `most` is the highest that any sample of the step said. Of a service, both
    are the sums of its containers'.
    """

    at: float
    """Unix time at which the step begins."""
    mean: Quantities
    max: Quantities
    mean_watts: float | None
    max_watts: float | None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A history in steps of equal length; those of which nothing is known are left out."""

    step_seconds: float
    """At least what was asked for: old samples are kept in coarser steps, and points are bounded."""
    points: tuple[Point, ...]


class GroupBy(StrEnum):
    """What energy is added up by."""

    NODE = "node"
    CONTAINER = "container"
    SERVICE = "service"
    LABEL = "label"
    DAY = "day"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The energy of one node, container, service, label's value or day (UTC) in a period."""

    key: str | None
    """The node's name, the container's id, the service, the label's value, or the day as YYYY-MM-DD.

    Null stands for the containers without a service, or without this label.
    """
    joules: float
    """All of it. Of containers: what they added, idle power apart."""
    idle_joules: float | None = None
    """Of nodes and days: drawn whether or not anything ran."""
    system_joules: float | None = None
    """Of nodes and days: neither idle nor any container's. Idle, system and containers are the whole."""
    containers_joules: float | None = None
    node: str | None = None
    """Of a container: where it ran."""
    name: str | None = None
    service: str | None = None


class History(Protocol):
    """Remembers reports. Every method that can fail raises `HistoryUnavailable`."""

    async def add(self, reports: Sequence[Report], received_at: float) -> Sequence[bool]:
        """Keep reports for good before returning; says of each whether it was new.

        A report whose key `(node, boot, sequence)` is already there changes nothing.
        """

    async def store_usage(self, words: Sequence[UsageKey], sums: Sequence[UsageTotal]) -> None:
        """Keep sums of usage in place of the words that are in them by now."""

    async def load_state(self) -> StoredState:
        """What a collector that starts should know."""

    async def node_means(self, window_seconds: float, window_ends: Sequence[WindowEnd]) -> Mapping[str, Mean]:
        """Per node, over the window that ends where it stands."""

    async def container_means(
        self, window_seconds: float, window_ends: Sequence[WindowEnd]
    ) -> Mapping[ContainerKey, Mean]:
        """Per container of these nodes, over the window that ends where its node stands."""

    async def events(
        self, limit: int, node: str | None = None, before: EventPosition | None = None
    ) -> Sequence[StoredEvent]:
        """The latest events, of one node or of all, the latest first; or the latest before a place."""

    async def series(
        self, kind: SubjectKind, name: str, start: float, end: float, step_seconds: float
    ) -> Series:
        """One node's, container's (by its id) or service's history in `[start, end)`, in bounded steps."""

    async def energy(
        self, start: float, end: float, by: GroupBy, label: str | None = None
    ) -> Sequence[Account]:
        """What was drawn in `[start, end)`, the most first, or by day; `label` is the key to group by.

        Nodes count for as far as their last heartbeat tells.
        """

    async def put_values(self, kind: str, entries: Mapping[str, bytes | None]) -> None:
        """Keep what was understood, by key, for the next run; None forgets a key."""

    async def get_values(self, kind: str) -> Mapping[str, bytes]:
        """All that was remembered of a kind."""

    async def apply_retention(self, now: float) -> None:
        """Drop what is older than the retention."""

    async def check(self) -> None:
        """Write something, to see whether reports could be kept now."""

    def stats(self) -> HistoryStats: ...
