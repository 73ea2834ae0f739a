"""What a history is: the only thing that the rest of the collector knows of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from wire.messages import Report


class Unavailable(Exception):  # noqa: N818 - a state of the disk or store that passes, not a bug
    """The history cannot be written or read now; the message says why, for a person."""


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """What was used on average over the stored samples of a window; null where it is not known."""

    samples: int
    seconds: float
    """The time from the first of these samples to the last."""
    cpu_cores: float | None
    """Of a container: from the difference of its CPU counter, so that nothing between samples is missed."""
    memory_bytes: int | None
    watts: float | None


ContainerKey = tuple[str, str]
"""A node's name and a container's id on it."""


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


class History(Protocol):
    """Remembers reports. Every method that can fail raises `Unavailable`."""

    async def add(self, reports: Sequence[Report], received_at: float) -> Sequence[bool]:
        """Keep reports for good before returning; says of each whether it was new.

        A report whose key `(node, boot, sequence)` is already there changes nothing.
        """

    async def last_reports(self) -> Sequence[Received]:
        """The last report of each boot of each node, in the order in which they came in."""

    async def node_means(self, window_seconds: float, now: float) -> Mapping[str, Mean]:
        """Per node, over its newest samples."""

    async def container_means(
        self, window_seconds: float, now: float, node: str | None = None
    ) -> Mapping[ContainerKey, Mean]:
        """Per container, over its node's newest samples; of one node, or of all."""

    async def forget_old(self, now: float) -> None:
        """Drop what is older than the retention."""

    async def check(self) -> None:
        """Write something, to see whether reports could be kept now."""

    def kept(self) -> Kept: ...
