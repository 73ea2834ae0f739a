"""The usage of services by day: one histogram per service and day, of CPU and memory.

The registry keeps the histograms that agents report per container, in buckets, and for a day only. Here the
histograms of all containers of a service are added up, and kept for weeks. A bucket is open until no more
samples of it are expected: the latest histogram of a running container replaces the earlier one, and an ended
container is added to a sum. Then the bucket is closed, and added to its day. Days and sums are stored; after
a restart, agents report running containers again. So no sample counts twice. Each node counts for no more
than its share: see `collector.analysis.contributions`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
import numpy as np

from collector.analysis.contributions import node_shares
from collector.analysis.histograms import BIN_BITS, ROW_BITS, Packed, pack, stack, sum_by_key
from collector.analysis.usage import BUCKET_SECONDS, ObservedContainer

DAY_SECONDS = 86_400.0
RESOURCES = 2
"""Number of resources that have sizes: the first of `wire.resources.RESOURCES`, CPU and memory."""
_BUCKETS_PER_DAY = round(DAY_SECONDS / BUCKET_SECONDS)
_GRACE_SECONDS = 3600.0
"""Time after the end of a bucket in which its samples still count, since reports may wait in spools."""
_SERVICE_BYTES, _SUM_BYTES = 1024, 256
"""Memory of a service and of a sum, besides names and histograms."""
_AT_ONCE = 500
"""Containers that are counted at once: more would save little time."""
_PLACE_MASK = (1 << (ROW_BITS - BIN_BITS)) - 1

Kept = TypeVar("Kept")
_ContainerKey = tuple[str, str]
"""Name of a node, and id of a container on it."""


class UsageSum(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The usage of a bucket or a day."""

    packed: Packed
    """Seconds of container time per bin, as a packed histogram."""
    seconds: float
    """Observed time: for each bucket, the time of the container that was observed longest."""


@dataclass(slots=True)
class ServiceDays:
    """The usage of one service. All but `open` is stored, in this order."""

    days: dict[int, UsageSum] = field(default_factory=dict)
    """Closed buckets, added up by day."""
    closed_until: int = -1
    """The last closed bucket."""
    ended: dict[int, dict[str, UsageSum]] = field(default_factory=dict)
    """The sum of the ended containers of each node, by open bucket."""
    out_of_memory: dict[int, dict[str, float]] = field(default_factory=dict)
    """The most memory that a container of each node had when the kernel killed it, in bytes, by day."""
    node: str = ""
    """The node that ran the service first."""
    open: dict[int, dict[_ContainerKey, UsageSum]] = field(default_factory=dict)
    """The usage of running containers, by open bucket and container."""

    def pack(self) -> bytes:
        return msgspec.msgpack.encode(
            (self.days, self.closed_until, self.ended, self.out_of_memory, self.node)
        )

    @classmethod
    def unpack(cls, packed: bytes) -> "ServiceDays":
        """Decode a service of the history. Raise `ValueError` or `LookupError` if it is invalid."""
        found = cls(*_stored.decode(packed))
        for total in found.sums:
            stack([total.packed], [0])
        return found

    @property
    def size_bytes(self) -> int:
        """Approximate memory of the service, without running containers."""
        return _SERVICE_BYTES + sum(_SUM_BYTES + len(each.packed) for each in self.sums)

    @property
    def sums(self) -> Iterator[UsageSum]:
        """All sums that are stored."""
        yield from self.days.values()
        for of_nodes in self.ended.values():
            yield from of_nodes.values()

    def remove_node(self, node: str) -> bool:
        """Take out the open buckets and the kills of a node; returns whether there were any."""
        keys = {key for sums in self.open.values() for key in sums if key[0] == node}
        has_sums = bool(keys) or any(node in each for each in self.ended.values())
        has_kills = any(node in each for each in self.out_of_memory.values())
        self.open = {
            bucket: kept
            for bucket, sums in self.open.items()
            if (kept := {key: each for key, each in sums.items() if key not in keys})
        }
        self.ended = _without(self.ended, node)
        self.out_of_memory = _without(self.out_of_memory, node)
        if self.node == node and not self.open:
            # No other node runs it.
            self.days, self.ended = {}, {}
        return has_sums or has_kills or self.node == node

    @property
    def last_day(self) -> int:
        return max((*self.days, *(bucket // _BUCKETS_PER_DAY for bucket in self.ended)), default=-1)

    def totals(self) -> dict[int, UsageSum]:
        """The usage of each day, open buckets included."""
        found: defaultdict[int, list[UsageSum]] = defaultdict(list)
        for day, total in self.days.items():
            found[day].append(total)
        for bucket in self._open_buckets():
            found[bucket // _BUCKETS_PER_DAY].append(self._bucket(bucket))
        return {day: _added(found[day]) for day in sorted(found)}

    def close(self, until: int) -> bool:
        """Close the buckets up to this one; returns whether any was open."""
        due = sorted(bucket for bucket in self._open_buckets() if bucket <= until)
        for bucket in due:
            day = bucket // _BUCKETS_PER_DAY
            before = [self.days[day]] if day in self.days else []
            self.days[day] = _added([*before, self._bucket(bucket)])
            self.ended.pop(bucket, None)
            self.open.pop(bucket, None)
        self.closed_until = max(self.closed_until, until)
        return bool(due)

    def end_others(self, running: Collection[_ContainerKey]) -> bool:
        """Add the containers that no longer run to the sums; returns whether there are any."""
        has_ended = False
        for bucket, sums in self.open.items():
            if gone := [container for container in sums if container not in running]:
                ended = self.ended.setdefault(bucket, {})
                for node, of_node in groupby(sorted(gone), key=itemgetter(0)):
                    found = [sums[container] for container in of_node]
                    ended[node] = _merged([*found, ended[node]] if node in ended else found)
                self.open[bucket] = {each: total for each, total in sums.items() if each in running}
                has_ended = True
        return has_ended

    def _open_buckets(self) -> set[int]:
        return {*self.ended, *(bucket for bucket, sums in self.open.items() if sums)}

    def _bucket(self, bucket: int) -> UsageSum:
        of_nodes: defaultdict[str, list[UsageSum]] = defaultdict(list)
        for (node, _), total in self.open.get(bucket, {}).items():
            of_nodes[node].append(total)
        for node, total in self.ended.get(bucket, {}).items():
            of_nodes[node].append(total)
        shares = node_shares([[each.seconds for each in some] for some in of_nodes.values()])
        return _merged(
            [
                _scaled(each, share)
                for some, share in zip(of_nodes.values(), shares, strict=True)
                for each in some
            ]
        )


_stored = msgspec.msgpack.Decoder(
    tuple[dict[int, UsageSum], int, dict[int, dict[str, UsageSum]], dict[int, dict[str, float]], str]
)


def _without(of_nodes: Mapping[int, Mapping[str, Kept]], node: str) -> dict[int, dict[str, Kept]]:
    """The same without a node, and without what is empty then."""
    kept = {
        key: {name: each for name, each in values.items() if name != node} for key, values in of_nodes.items()
    }
    return {key: values for key, values in kept.items() if values}


def day_of(at: float) -> int:
    """The number of a day, in UTC."""
    return int(at // DAY_SECONDS)


def sum_usage(
    packed: Sequence[Packed], sample_seconds: Sequence[float], most_seconds: float
) -> list[UsageSum]:
    """Sum the samples of each container, from its histogram and the duration of one of its samples.

    The observed time is at most `most_seconds`, even if the node reports more.
    """
    rows = len(packed)
    keys, counts, _ = stack(packed, range(rows))
    sized = keys >> BIN_BITS & _PLACE_MASK < RESOURCES
    keys, counts = keys[sized], counts[sized]
    by_resource = np.bincount(keys >> BIN_BITS, weights=counts, minlength=rows * (_PLACE_MASK + 1))
    samples = by_resource.reshape(rows, _PLACE_MASK + 1).max(axis=1)
    seconds = np.minimum(most_seconds, samples * np.asarray(sample_seconds))
    weight = seconds / np.maximum(samples, 1)
    weighed = np.maximum(1, np.rint(counts * weight[keys >> ROW_BITS]).astype(np.int64))
    # Each histogram has its own row, so the keys are sorted and unique already.
    return list(map(UsageSum, pack(keys, weighed, rows), seconds.tolist()))


def _scaled(total: UsageSum, share: float) -> UsageSum:
    """The same with this share of its time; values that occurred for a moment stay."""
    if share >= 1:
        return total
    keys, counts, _ = stack([total.packed], [0])
    (packed,) = pack(keys, np.maximum(1, np.rint(share * counts).astype(np.int64)), 1)
    return UsageSum(packed, total.seconds)


def _merged(parts: Sequence[UsageSum]) -> UsageSum:
    """The sum of containers in the same bucket."""
    return UsageSum(_sum(parts), max(each.seconds for each in parts))


def _added(parts: Sequence[UsageSum]) -> UsageSum:
    """The sum of different buckets."""
    return UsageSum(_sum(parts), sum(each.seconds for each in parts))


def _sum(parts: Sequence[UsageSum]) -> Packed:
    if len(parts) == 1:
        return parts[0].packed
    keys, counts, _ = stack([each.packed for each in parts], [0] * len(parts))
    return pack(*sum_by_key(keys, counts), 1)[0]


class DailyUsage:
    """The usage of all services by day. Not thread-safe.

    A node can report any number of services. So the services that no longer run have a memory limit per node
    that ran them first; beyond it, those that ended first are forgotten.
    """

    def __init__(self, keep_days: int, max_bytes: int = 16 << 20) -> None:
        self._keep_days = keep_days
        self._max_bytes = max_bytes
        self.services: dict[str, ServiceDays] = {}
        self.changed: set[str] = set()
        """Services that must be stored, or deleted from the history."""

    def update(self, observed: Iterable[ObservedContainer], now: float) -> None:
        """Add the usage of all running containers."""
        running: defaultdict[str, dict[_ContainerKey, ObservedContainer]] = defaultdict(dict)
        for each in observed:
            running[each.service][each.node, each.id] = each
        for name in running.keys() - self.services.keys():
            self.services[name] = ServiceDays(node=next(iter(running[name].values())).node)
        for name, of in self.services.items():
            if of.end_others(running.get(name, {})):
                self.changed.add(name)
        self._count(running)
        until = int((now - _GRACE_SECONDS) // BUCKET_SECONDS) - 1
        for name, of in self.services.items():
            if of.close(until):
                self.changed.add(name)
        self._forget(running.keys(), day_of(now) - self._keep_days)

    def _count(self, running: Mapping[str, Mapping[_ContainerKey, ObservedContainer]]) -> None:
        """Set the sums of open buckets, many at once: most of the cost is per array operation."""
        parts = [
            (of.open.setdefault(bucket, {}), container, packed, each.sample_seconds)
            for name, containers in running.items()
            for of in (self.services[name],)
            for container, each in containers.items()
            for bucket, packed in each.own_parts
            if bucket > of.closed_until
        ]
        for start in range(0, len(parts), _AT_ONCE):
            sums, containers, packed, seconds = zip(*parts[start : start + _AT_ONCE], strict=True)
            totals = sum_usage(packed, seconds, BUCKET_SECONDS)
            for of_bucket, container, total in zip(sums, containers, totals, strict=True):
                of_bucket[container] = total

    def _forget(self, running: Collection[str], oldest: int) -> None:
        """Forget old days, and services that no longer run beyond the memory limit of their node."""
        for name, of in self.services.items():
            stored: tuple[dict[int, Any], ...] = (of.days, of.out_of_memory)
            for days in stored:
                for day in [day for day in days if day <= oldest]:
                    del days[day]
                    self.changed.add(name)
        left_bytes: defaultdict[str, int] = defaultdict(lambda: self._max_bytes)
        ended = [name for name in self.services if name not in running]
        for name in sorted(ended, key=lambda name: (self.services[name].last_day, name), reverse=True):
            of = self.services[name]
            left_bytes[of.node] -= len(name) + of.size_bytes
            if left_bytes[of.node] < 0 or not (of.days or of.ended or of.out_of_memory):
                del self.services[name]
                self.changed.add(name)

    def note_out_of_memory(self, service: str, node: str, at: float, memory_bytes: float) -> None:
        """Record the memory of a container that was killed; ignored if its service was not observed."""
        of, day = self.services.get(service), day_of(at)
        if of is not None and memory_bytes > of.out_of_memory.get(day, {}).get(node, 0.0):
            of.out_of_memory.setdefault(day, {})[node] = memory_bytes
            self.changed.add(service)

    def remove_node(self, node: str, services: Iterable[str] | None = None) -> None:
        """Take out what a node reported of these services, or of all, since the last closed bucket."""
        for name in self.services if services is None else services:
            if (of := self.services.get(name)) is not None and of.remove_node(node):
                self.changed.add(name)

    def pack_changes(self) -> dict[str, bytes | None]:
        """The changed services, packed for the history; None for forgotten ones."""
        return {name: self.services[name].pack() if name in self.services else None for name in self.changed}

    def restore(self, packed: Mapping[str, bytes]) -> Collection[str]:
        """Restore the state from before a restart; returns the services whose stored state is invalid."""
        invalid: list[str] = []
        for name, each in packed.items():
            try:
                self.services[name] = ServiceDays.unpack(each)
            except (msgspec.DecodeError, ValueError, LookupError):
                invalid.append(name)
        return invalid
