"""What a history is: the only thing that the rest of the collector knows of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from collector.alerts import AlertSaid
from collector.usage import Packed
from wire.messages import Event, Report


class Unavailable(Exception):  # noqa: N818 - a state of the disk or store that passes, not a bug
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
class Standing:
    """A node's last word, by its own clock: where a window ends."""

    node: str
    boot: str
    at: float


@dataclass(frozen=True, slots=True)
class Kept:
    """How much a history holds."""

    reports: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Received:
    """A report, and when it came in by the collector's clock."""

    report: Report
    received_at: float


@dataclass(frozen=True, slots=True)
class Happened:
    """An event, and the node that told of it."""

    node: str
    event: Event


@dataclass(frozen=True, slots=True)
class Used:
    """What a slot holds of a container's usage."""

    node: str
    container: str
    slot: int
    packed: Packed


@dataclass(frozen=True, slots=True)
class Recollection:
    """All that a collector needs in order to be as wise as before it was stopped."""

    reports: Sequence[Received]
    """Per run of an agent those since its last heartbeat, in the order in which they came in.

    Without the events, alerts and usage that they bore.
    """
    alerts: Sequence[AlertSaid]
    usage: Sequence[Used]


class History(Protocol):
    """Remembers reports. Every method that can fail raises `Unavailable`."""

    async def add(self, reports: Sequence[Report], received_at: float) -> Sequence[bool]:
        """Keep reports for good before returning; says of each whether it was new.

        A report whose key `(node, boot, sequence)` is already there changes nothing.
        """

    async def recall(self) -> Recollection:
        """What a collector that starts should know."""

    async def node_means(self, window_seconds: float, standings: Sequence[Standing]) -> Mapping[str, Mean]:
        """Per node, over the window that ends where it stands."""

    async def container_means(
        self, window_seconds: float, standings: Sequence[Standing]
    ) -> Mapping[ContainerKey, Mean]:
        """Per container of these nodes, over the window that ends where its node stands."""

    async def events(self, limit: int, node: str | None = None) -> Sequence[Happened]:
        """The latest events, of one node or of all, the latest first."""

    async def forget_old(self, now: float) -> None:
        """Drop what is older than the retention."""

    async def check(self) -> None:
        """Write something, to see whether reports could be kept now."""

    def kept(self) -> Kept: ...
