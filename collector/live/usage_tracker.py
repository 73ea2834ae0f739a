"""Resource usage of the containers of one node: histograms of all samples, in memory.

The history stores the usage of each heartbeat. Now and then, it replaces several of these by their total,
which comes from here: so no histogram is added up twice.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from collector.analysis.usage import UsageRing, UsageWeights, add, count, settle
from collector.history.interface import UsageKey, UsageTotal
from wire.messages import ContainerUsage

_CONTAINERS_AT_ONCE = 60
"""The usual number on a node: most of the cost is per call, not per container."""
_COMPACT_FROM = 2
"""Heartbeats whose usage is compacted into a total: adding many up would slow down a restart."""


@dataclass(slots=True)
class UsageTracker:
    """The usage of the containers of one node."""

    weights: UsageWeights
    rings: dict[str, UsageRing] = field(default_factory=dict)
    """By container id."""
    _uncompacted: list[UsageKey] = field(default_factory=list)
    """Heartbeats that are in `rings`, but not in the totals of the history."""
    _partial: int = 0
    """Heartbeats that are being added."""

    def add(self, slot: int, usage: Sequence[ContainerUsage]) -> Sequence[str]:
        """Add the samples of a heartbeat; returns the ids of its containers."""
        return count(self.rings, slot, usage, self.weights)

    def add_heartbeat(self, key: UsageKey, usage: Sequence[ContainerUsage]) -> Iterator[Sequence[str]]:
        """Add a heartbeat that the history stores, a few containers at a time; yields their ids."""
        self._partial += 1
        for start in range(0, len(usage), _CONTAINERS_AT_ONCE):
            yield self.add(key.slot, usage[start : start + _CONTAINERS_AT_ONCE])
        # If this is interrupted, the history keeps the heartbeat itself.
        self._partial -= 1
        self._uncompacted.append(key)

    @property
    def can_compact(self) -> bool:
        """Whether the history should replace heartbeats by their total."""
        return len(self._uncompacted) >= _COMPACT_FROM and not self._partial

    def compact(self, node: str) -> tuple[list[UsageKey], list[UsageTotal]]:
        """The heartbeats that the history can replace, and the totals to replace them by."""
        keys, self._uncompacted = self._uncompacted, []
        totals = []
        for slot in {key.slot for key in keys}:
            packed = {name: ring.slots[slot] for name, ring in self.rings.items() if slot in ring.slots}
            totals.append(UsageTotal(node, slot, packed))
        return keys, totals

    def requeue(self, key: UsageKey) -> None:
        """The history could not replace this heartbeat: it is compacted next time."""
        self._uncompacted.append(key)

    def restore_total(self, total: UsageTotal) -> None:
        """Restore a total of the history; `settle` must follow."""
        for container, packed in total.packed.items():
            self.rings.setdefault(container, UsageRing()).slots[total.slot] = packed

    def restore_heartbeats(
        self, slot: int, keys: Sequence[UsageKey], usage: Sequence[ContainerUsage]
    ) -> None:
        """Restore the heartbeats of a slot that no total includes; `settle` must follow."""
        add(self.rings, slot, usage)
        self._uncompacted += keys

    def settle(self) -> None:
        """Compute the statistics of all containers."""
        settle(list(self.rings.values()), self.weights)

    def inherit(self, other: "UsageTracker") -> list[str]:
        """Take over containers that are only in `other`; returns their ids."""
        inherited = other.rings.keys() - self.rings.keys()
        self.rings |= {name: other.rings[name] for name in inherited}
        return list(inherited)

    def drop_ended(self, running: AbstractSet[str], slot: int) -> None:
        """Drop the containers that do not run and have no samples since a slot."""
        for name in self.rings.keys() - running:
            if self.rings[name].newest < slot:
                del self.rings[name]
