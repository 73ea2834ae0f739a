"""Resource usage of the containers of one node: histograms of all samples, in memory.

The statistics of a day of samples change little with five minutes more. So new samples are collected, and a
container's histograms and statistics are updated when they are a sixteenth of what it has, or belong to a new
bucket. So a container without a day of samples is updated often, and one with a day every hour and a half.

The history stores the usage of each heartbeat. Now and then, it replaces several of these by their total,
which comes from here: so no histogram is added up twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec import structs

from collector.analysis.envelopes import totals
from collector.analysis.histograms import Packed, add, merge, pack, stack_usage
from collector.analysis.usage import UsageRing, UsageWeights, add_samples, update_statistics
from collector.history.interface import UsageKey, UsageTotal
from wire.messages import ContainerUsage

_CONTAINERS_AT_ONCE = 60
"""The usual number on a node: most of the cost is per call, not per container."""
_COMPACT_FROM = 2
"""Heartbeats whose usage is compacted into a total: adding many up would slow down a restart."""
_COMPACT_BYTES = 1 << 18
"""A node whose total has a multiple of this size waits for as many more heartbeats: totals are rewritten."""
_UPDATE_RATIO = 1 / 16
_RING_BYTES = 1024
"""Memory of a container's usage besides its histograms."""


class _NewUsage(msgspec.Struct, frozen=True, gc=False):
    """The samples of a container since its last update, all in one bucket.

    There are very many, and none has a reference cycle: the garbage collector skips them.
    """

    bucket: int
    samples: int
    packed: Packed


@dataclass(slots=True)
class UsageTracker:
    """The usage of the containers of one node."""

    weights: UsageWeights
    rings: dict[str, UsageRing] = field(default_factory=dict)
    """Rings by container id, as of the last update of each."""
    _new: dict[str, _NewUsage] = field(default_factory=dict)
    _uncompacted: list[UsageKey] = field(default_factory=list)
    """Heartbeats that are here, but not in the totals of the history."""
    _total_bytes: int = 0
    """Size of the last totals."""
    _partial: int = 0
    """Heartbeats that are being added."""
    most_running: int = 0
    """The most containers that ran at once."""
    _ended: dict[str, None] = field(default_factory=dict)
    """The containers that do not run, in the order in which they ended."""

    def collect(self, bucket: int, usage: Sequence[ContainerUsage]) -> list[str]:
        """Collect the samples of a heartbeat; returns the ids of the containers that are to be updated."""
        rows = {name: row for row, name in enumerate(dict.fromkeys(each.id for each in usage))}
        earlier = [name for name in rows if (new := self._new.get(name)) and new.bucket != bucket]
        update([(self, earlier)])
        held = [(new.packed, row) for name, row in rows.items() if (new := self._new.get(name))]
        keys, counts = stack_usage(usage, [rows[each.id] for each in usage], held)
        samples = totals(keys, counts, len(rows)).astype(int).tolist()
        due = dict.fromkeys(earlier)
        for name, count in zip(rows, samples, strict=True):
            if (ring := self.rings.get(name)) is None or count >= _UPDATE_RATIO * ring.samples:
                due[name] = None
        rings = {name: self.rings.get(name) or self.rings.setdefault(name, UsageRing()) for name in due}
        # What is due is added to the rest of its bucket at once.
        stored = [
            (packed, rows[name]) for name, ring in rings.items() if (packed := ring.buckets.get(bucket))
        ]
        keys, counts = add(stored, keys, counts)
        for name, count, packed in zip(rows, samples, pack(keys, counts, len(rows)), strict=True):
            if name in rings:
                rings[name].buckets[bucket] = packed
                self._new.pop(name, None)
            else:
                self._new[name] = _NewUsage(bucket, count, packed)
        return list(due)

    def take_new(self, containers: Iterable[str]) -> list[tuple[UsageRing, _NewUsage]]:
        """The rings of containers and their new samples, which are then no longer new."""
        taken = [(name, self._new.pop(name)) for name in containers if name in self._new]
        return [
            (self.rings.get(name) or self.rings.setdefault(name, UsageRing()), new) for name, new in taken
        ]

    def add_heartbeat(self, key: UsageKey, usage: Sequence[ContainerUsage]) -> Iterator[list[str]]:
        """Add a heartbeat that the history stores, a few containers at a time; yields those updated."""
        self._partial += 1
        for start in range(0, len(usage), _CONTAINERS_AT_ONCE):
            due = self.collect(key.bucket, usage[start : start + _CONTAINERS_AT_ONCE])
            update([(self, due)])
            yield due
        # If this is interrupted, the history keeps the heartbeat itself.
        self._partial -= 1
        self._uncompacted.append(key)

    def has(self, container: str) -> bool:
        return container in self.rings or container in self._new

    def current_of(self, container: str) -> UsageRing | None:
        """The ring of one container with all samples, as `current` returns it."""
        return (
            self.rings.get(container)
            if container not in self._new
            else self._with_new((container,))[container]
        )

    def current(self) -> Mapping[str, UsageRing]:
        """The rings with all samples, by container id; those that have new ones are copies."""
        return {**self.rings, **self._with_new(self._new)} if self._new else self.rings

    def _with_new(self, containers: Iterable[str]) -> dict[str, UsageRing]:
        """Copies of rings, with their new samples."""
        copies = {
            name: structs.replace(ring, buckets=dict(ring.buckets))
            if (ring := self.rings.get(name))
            else UsageRing()
            for name in containers
        }
        _merge([(ring, self._new[name]) for name, ring in copies.items()])
        update_statistics(list(copies.values()), self.weights)
        return copies

    @property
    def uncompacted(self) -> int:
        """How many heartbeats the totals of the history lack."""
        return len(self._uncompacted)

    @property
    def can_compact(self) -> bool:
        """Whether the history should replace heartbeats by their total."""
        enough = _COMPACT_FROM + self._total_bytes // _COMPACT_BYTES
        return len(self._uncompacted) >= enough and not self._partial

    def compact(self, node: str) -> tuple[list[UsageKey], list[UsageTotal]]:
        """The heartbeats that the history can replace, and the totals to replace them by."""
        keys, self._uncompacted = self._uncompacted, []
        rings = self.current()
        totals = []
        for bucket in {key.bucket for key in keys}:
            packed = {name: ring.buckets[bucket] for name, ring in rings.items() if bucket in ring.buckets}
            totals.append(UsageTotal(node, bucket, packed))
        self._total_bytes = sum(len(each) for total in totals for each in total.packed.values())
        return keys, totals

    def requeue(self, key: UsageKey) -> None:
        """The history could not replace this heartbeat: it is compacted next time."""
        self._uncompacted.append(key)

    def restore_total(self, total: UsageTotal) -> None:
        """Restore a total of the history; `update_statistics` must follow."""
        for container, packed in total.packed.items():
            self.rings.setdefault(container, UsageRing()).buckets[total.bucket] = packed

    def restore_heartbeats(
        self, bucket: int, keys: Sequence[UsageKey], usage: Sequence[ContainerUsage]
    ) -> None:
        """Restore the heartbeats of a bucket that no total includes; `update_statistics` must follow."""
        add_samples(self.rings, bucket, usage)
        self._uncompacted += keys

    def update_statistics(self) -> None:
        update_statistics(list(self.rings.values()), self.weights)

    def inherit(self, other: "UsageTracker") -> list[str]:
        """Take over containers that are only in `other`; returns their ids."""
        update([(self, list(self._new))])
        inherited = other.current().keys() - self.rings.keys()
        self.rings |= {name: ring for name, ring in other.current().items() if name in inherited}
        return list(inherited)

    def shrink(self, running: AbstractSet[str], max_bytes: int) -> int:
        """Drop ended containers, the first ones first, until a size is reached; returns the size."""
        sizes = {
            name: _RING_BYTES + sum(map(len, ring.buckets.values())) for name, ring in self.rings.items()
        }
        for name, new in self._new.items():
            sizes[name] = sizes.get(name, _RING_BYTES) + _RING_BYTES + len(new.packed)
        size_bytes = sum(sizes.values())
        for name in [each for each in sizes if each not in running] if size_bytes > max_bytes else ():
            self.rings.pop(name, None)
            self._new.pop(name, None)
            size_bytes -= sizes[name]
            if size_bytes <= max_bytes:
                break
        return size_bytes

    def note_ended(self, containers: Iterable[str]) -> int:
        """Note the order in which containers end; returns how many are noted."""
        for name in containers:
            self._ended.pop(name, None)
            self._ended[name] = None
        return len(self._ended)

    def drop_ended(
        self, running: AbstractSet[str], bucket: int, replaced: AbstractSet[str], most: int
    ) -> None:
        """Drop containers that do not run: those without samples since a bucket, and the first of very many.

        At least `most` are kept, for those that replace them, which may be known later; and as many as ran at
        once, as a restarted agent reports these again. What was `replaced` is stored with these samples.
        """
        held = [name for name in {**self.rings, **self._new} if name not in running]
        known = set(held)
        ended = [
            *(name for name in self._ended if name in known),
            *(name for name in held if name not in self._ended),
        ]
        surplus = set([name for name in ended if name not in replaced][: -max(most, self.most_running)])
        for name in ended:
            new = self._new.get(name)
            newest = new.bucket if new is not None else self.rings[name].newest
            if newest < bucket or name in surplus:
                self.rings.pop(name, None)
                self._new.pop(name, None)
        self._ended = dict.fromkeys(name for name in ended if self.has(name))


def update(due: Sequence[tuple[UsageTracker, Sequence[str]]]) -> None:
    """Put the new samples of containers of some nodes into their rings, and compute their statistics.

    The more at once, the less each costs; the result is the same.
    """
    taken = [both for tracker, containers in due for both in tracker.take_new(containers)]
    if taken:
        _merge(taken)
    rings = [tracker.rings.get(name) for tracker, containers in due for name in containers]
    if some := [ring for ring in rings if ring is not None]:
        update_statistics(some, due[0][0].weights)


class Inheritance(NamedTuple):
    """A container, and the one that it replaced in a move."""

    before: UsageTracker
    predecessor: str
    after: UsageTracker
    container: str


def inherit(pairs: Sequence[Inheritance]) -> list[int]:
    """Let containers inherit the samples of their predecessors; returns the places of those that changed."""
    update([(each.before, [each.predecessor]) for each in pairs])
    inherited: list[dict[int, Packed]] = []
    doubles: list[tuple[dict[int, Packed], int, UsageRing]] = []
    for each in pairs:
        ring = each.before.rings.get(each.predecessor) or UsageRing()
        buckets = {**ring.inherited, **ring.buckets}
        doubles += [(buckets, bucket, ring) for bucket in ring.buckets.keys() & ring.inherited.keys()]
        inherited.append(buckets)
    merged = merge(
        [ring.buckets[bucket] for _, bucket, ring in doubles],
        [ring.inherited[bucket] for _, bucket, ring in doubles],
    )
    for (buckets, bucket, _), packed in zip(doubles, merged, strict=True):
        buckets[bucket] = packed
    changed = []
    for place, (each, buckets) in enumerate(zip(pairs, inherited, strict=True)):
        rings = each.after.rings
        ring = rings.get(each.container) or UsageRing()
        if buckets and ring.inherited != buckets:
            ring.inherited = buckets
            rings[each.container] = ring
            changed.append(place)
    if changed:
        update_statistics(
            [pairs[place].after.rings[pairs[place].container] for place in changed], pairs[0].after.weights
        )
    return changed


def _merge(pairs: Sequence[tuple[UsageRing, _NewUsage]]) -> None:
    """Add new samples to the buckets of rings."""
    held = [(ring, new) for ring, new in pairs if new.bucket in ring.buckets]
    merged = merge([ring.buckets[new.bucket] for ring, new in held], [new.packed for _, new in held])
    for ring, new in pairs:
        ring.buckets.setdefault(new.bucket, new.packed)
    for (ring, new), packed in zip(held, merged, strict=True):
        ring.buckets[new.bucket] = packed
