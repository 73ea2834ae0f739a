"""What one node uses of its limits."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from wire.messages import Report
from wire.resources import Quantities

Item = TypeVar("Item")

_HOUR_SECONDS: Final = 3600.0
_FIRST_SECONDS: Final = 3600.0
"""Time that the first samples of a node may cover, which it took before the collector knew it."""
_SURPLUS_RATIO: Final = 1.25
"""Time that a node may claim, relative to that which passed: intervals and clocks are not exact, and a report
may arrive twice."""
_UNKNOWN: Final = Quantities()


class Limit(StrEnum):
    """The limits that a node can exceed."""

    CONTAINERS = "containers"
    NEW_CONTAINERS = "new_containers"
    LABELS = "labels"
    BYTES = "bytes"
    CAPACITY = "capacity"
    """Capacity above the limits of a node, and usage above its capacity; both count as what they exceed."""
    SAMPLES = "samples"
    """Containers with more samples in a heartbeat than time passed; they count for that time."""
    EVENTS = "events"
    ALERTS = "alerts"
    POWER = "power"
    """Watts above `max_node_watts`; they count as that. A power curve above it is dropped."""
    ENERGY = "energy"
    """Slots of five minutes with more energy than `max_node_watts` allows."""
    RATE = "rate"
    """Requests that were answered with 429, because the node sends too much."""


class KnownContainer(msgspec.Struct, gc=False):
    """What is known of a container that counts. There are very many: the garbage collector skips them."""

    size_bytes: int = 0
    fingerprint: int | None = None
    watts: float = 0.0


UNKNOWN_CONTAINER: Final = KnownContainer()
"""Stands for a container that does not count."""


@dataclass(slots=True)
class NodeAccount:
    """What one node uses of its limits."""

    containers: dict[str, KnownContainer] = field(default_factory=dict)
    container_bytes: int = 0
    container_watts: float = 0.0
    usage_bytes: int = 0
    """An upper bound of the size of its usage, until it is measured."""
    capacity: Quantities = _UNKNOWN
    heard_at: float | None = None
    """When its last heartbeat arrived."""
    unobserved_seconds: float = _FIRST_SECONDS
    """Time that passed, and that no sample covers yet: reports may wait in a spool."""
    gaps: int = 0
    """Fingerprint of what the node cannot measure."""
    images: int = 0
    """Fingerprint of the names of its images."""
    hour: int = 0
    hourly: Counter[Limit] = field(default_factory=Counter)
    """What it used in this hour of the limits per hour; of `BYTES`, new names, labels and other texts."""
    refused: Counter[Limit] = field(default_factory=Counter)
    refused_at: float = 0.0

    def begin(self, now: float) -> None:
        """Count from zero if another hour has begun."""
        if (hour := int(now // _HOUR_SECONDS)) != self.hour:
            self.hour, self.hourly = hour, Counter()

    def observe(self, now: float, most_seconds: float) -> None:
        """Add the time since the last heartbeat to that which samples may cover, at most `most_seconds`."""
        passed = 0.0 if self.heard_at is None else max(0.0, now - self.heard_at)
        self.unobserved_seconds = min(most_seconds, self.unobserved_seconds + _SURPLUS_RATIO * passed)
        self.heard_at = now

    def count(self, limit: Limit, most: int, count: int = 1) -> bool:
        """Count something in this hour; False if there was too much of it."""
        if self.hourly[limit] + count > most:
            return False
        self.hourly[limit] += count
        return True

    def first(self, limit: Limit, most: int, items: Sequence[Item]) -> tuple[Item, ...]:
        """The first items, as many as there may be in this hour; the others are refused."""
        if not items:
            return ()
        kept = items[: most - self.hourly[limit]]
        self.hourly[limit] += len(kept)
        self.refuse(limit, len(items) - len(kept))
        return tuple(kept)

    def update(self, report: Report) -> None:
        """Count what a report ends, before its containers count."""
        if report.state is not None:
            self.capacity = report.state.capacity
        self.drop(report.gone)
        if report.heartbeat is not None:
            running = {each.id for each in report.containers}
            self.drop([each for each in self.containers if each not in running])

    def refuse(self, limit: Limit, count: int = 1) -> None:
        if count:
            self.refused[limit] += count

    def put(self, container: str, held: KnownContainer) -> None:
        before = self.containers.get(container, UNKNOWN_CONTAINER)
        self.containers[container] = held
        self.container_bytes += held.size_bytes - before.size_bytes
        self.container_watts += held.watts - before.watts

    def change_watts(self, held: KnownContainer, watts: float) -> None:
        self.container_watts += watts - held.watts
        held.watts = watts

    def drop(self, containers: Iterable[str]) -> None:
        for container in containers:
            held = self.containers.pop(container, UNKNOWN_CONTAINER)
            self.container_bytes -= held.size_bytes
            self.container_watts -= held.watts
        if not self.containers:
            self.container_watts = 0.0  # without the errors of rounding
