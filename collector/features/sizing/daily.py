"""The usage of services by day: one histogram per service and day, of CPU and memory.

The registry keeps the histograms that agents report per container, in buckets, and for a day only. Here the
histograms of all containers of a service are added up, and kept for weeks. A bucket is open until no more
samples of it are expected: the latest histogram of a running container replaces the earlier one, and an ended
container is added to a sum. Then the bucket is closed, and added to its day. Days and sums are stored; after
a restart, agents report running containers again. So no sample counts twice.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np

from collector.analysis.histograms import (
    BIN_BITS,
    ROW_BITS,
    Packed,
    pack,
    stack,
    sum_by_key,
    sum_by_key_dense,
)
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
_ROW_SIZE = 1 << ROW_BITS
"""Possible keys of a histogram. To sum more than these, a table of all is faster than sorting."""

_ContainerKey = tuple[str, str]
"""Name of a node, and id of a container on it."""


class UsageSum(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The usage of a bucket or a day."""

    packed: Packed
    """Seconds of container time per bin, as a packed histogram."""
    seconds: float
    """Observed time: for each bucket, the time of the container that was observed longest."""


class _Stored(msgspec.Struct, frozen=True):
    """A service in the history."""

    days: dict[int, UsageSum] = {}
    closed_until: int = -1
    ended: dict[int, UsageSum] = {}
    out_of_memory: dict[int, float] = {}
    node: str = ""


@dataclass(slots=True)
class ServiceDays:
    """The usage of one service."""

    days: dict[int, UsageSum] = field(default_factory=dict)
    """Closed buckets, added up by day."""
    closed_until: int = -1
    """The last closed bucket."""
    ended: dict[int, UsageSum] = field(default_factory=dict)
    """The sum of ended containers, by open bucket."""
    running: set[_ContainerKey] = field(default_factory=set)
    """The running containers."""
    open: dict[int, dict[_ContainerKey, UsageSum]] = field(default_factory=dict)
    """The usage of running containers, by open bucket and container."""
    out_of_memory: dict[int, float] = field(default_factory=dict)
    """The most memory that a container had when the kernel killed it, in bytes, by day."""
    node: str = ""
    """The node that ran the service first."""

    @property
    def size_bytes(self) -> int:
        """Approximate memory of the service, without running containers."""
        return _SERVICE_BYTES + sum(
            _SUM_BYTES + len(each.packed) for sums in (self.days, self.ended) for each in sums.values()
        )

    @property
    def last_day(self) -> int:
        """The last day on which the service was observed."""
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

    def end(self, container: _ContainerKey) -> None:
        """Add a container that no longer runs to the sums."""
        self.running.discard(container)
        for bucket, sums in self.open.items():
            if (total := sums.pop(container, None)) is not None:
                self.ended[bucket] = _merged([total, *([self.ended[bucket]] if bucket in self.ended else [])])

    def _open_buckets(self) -> set[int]:
        return {*self.ended, *(bucket for bucket, sums in self.open.items() if sums)}

    def _bucket(self, bucket: int) -> UsageSum:
        parts = self.open.get(bucket, {}).values()
        return _merged([*parts, *([self.ended[bucket]] if bucket in self.ended else [])])


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
    if keys.size < _ROW_SIZE:
        return pack(*sum_by_key(keys, counts), 1)[0]
    # Whole numbers below 2^53 are exact.
    bins, sums = sum_by_key_dense(keys, counts.astype(np.float64))
    return pack(bins, sums.astype(np.int64), 1)[0]


class _OpenPart(NamedTuple):
    """The samples of a running container in an open bucket."""

    sums: dict[_ContainerKey, UsageSum]
    """The usage of the bucket, by container."""
    container: _ContainerKey
    packed: Packed
    sample_seconds: float


def _count(parts: Iterable[_OpenPart]) -> None:
    """Set the sums of open buckets, many at once: most of the cost is per array operation."""
    remaining = iter(parts)
    while some := list(islice(remaining, _AT_ONCE)):
        totals = sum_usage(
            [each.packed for each in some], [each.sample_seconds for each in some], BUCKET_SECONDS
        )
        for each, total in zip(some, totals, strict=True):
            each.sums[each.container] = total


class DailyUsage:
    """The usage of all services by day. Not thread-safe.

    A node can report any number of services. So the services that no longer run have a memory limit per node
    that ran them first; beyond it, those that ended first are forgotten.
    """

    def __init__(self, keep_days: int, max_bytes: int = 16 << 20) -> None:
        self._keep_days = keep_days
        self._max_bytes = max_bytes
        self.services: dict[str, ServiceDays] = {}
        self._changed: set[str] = set()

    def update(self, observed: Iterable[ObservedContainer], now: float) -> None:
        """Add the usage of all running containers."""
        running: defaultdict[str, dict[_ContainerKey, ObservedContainer]] = defaultdict(dict)
        for each in observed:
            running[each.service][each.node, each.id] = each
        until = int((now - _GRACE_SECONDS) // BUCKET_SECONDS) - 1
        oldest = day_of(now) - self._keep_days
        for name in running.keys() - self.services.keys():
            self.services[name] = ServiceDays(node=next(iter(running[name].values())).node)
        _count(
            part
            for name, of in self.services.items()
            for part in self._open_parts(name, of, running.get(name, {}))
        )
        for name, of in list(self.services.items()):
            if of.close(until):
                self._changed.add(name)
            self._forget(name, of, oldest)
        self._drop_surplus()

    def _drop_surplus(self) -> None:
        """Forget services that no longer run, beyond the memory limit of their node."""
        ended: defaultdict[str, list[str]] = defaultdict(list)
        for name, of in self.services.items():
            if not of.running:
                ended[of.node].append(name)
        for names in ended.values():
            left_bytes = self._max_bytes
            names.sort(key=lambda name: (self.services[name].last_day, name), reverse=True)
            for name in names:
                left_bytes -= len(name) + self.services[name].size_bytes
                if left_bytes < 0:
                    del self.services[name]
                    self._changed.add(name)

    def _open_parts(
        self, name: str, of: ServiceDays, running: Mapping[_ContainerKey, ObservedContainer]
    ) -> Iterator[_OpenPart]:
        """The open buckets of the running containers of a service; those that ended are added to its sums."""
        for container in of.running - running.keys():
            of.end(container)
            self._changed.add(name)
        of.running.update(running)
        for container, each in running.items():
            for bucket, packed in each.own_parts:
                if bucket > of.closed_until:
                    yield _OpenPart(of.open.setdefault(bucket, {}), container, packed, each.sample_seconds)

    def _forget(self, name: str, of: ServiceDays, oldest: int) -> None:
        for days in (of.days, of.out_of_memory):
            for day in [day for day in days if day <= oldest]:
                del days[day]
                self._changed.add(name)
        if not (of.days or of.ended or of.running or of.out_of_memory):
            del self.services[name]
            self._changed.add(name)

    def note_out_of_memory(self, service: str, at: float, memory_bytes: float) -> None:
        """Record the memory of a container that was killed; ignored if its service was not observed."""
        of, day = self.services.get(service), day_of(at)
        if of is not None and memory_bytes > of.out_of_memory.get(day, 0.0):
            of.out_of_memory[day] = memory_bytes
            self._changed.add(service)

    def pack_changes(self) -> dict[str, bytes | None]:
        """The services that changed since the last call, packed for the history; None for forgotten ones."""
        changed, self._changed = self._changed, set()
        return {name: _pack(self.services.get(name)) for name in changed}

    def requeue(self, names: Iterable[str]) -> None:
        """Include services in the next `pack_changes` again, because they could not be stored."""
        self._changed.update(names)

    def restore(self, packed: Mapping[str, bytes]) -> Collection[str]:
        """Restore the state from before a restart; returns the services whose stored state is invalid."""
        invalid: list[str] = []
        decoder = msgspec.msgpack.Decoder(_Stored)
        for name, each in packed.items():
            try:
                stored = decoder.decode(each)
                for total in (*stored.days.values(), *stored.ended.values()):
                    stack([total.packed], [0])
            except (msgspec.DecodeError, ValueError, LookupError):
                invalid.append(name)
                continue
            self.services[name] = ServiceDays(
                days=dict(stored.days),
                closed_until=stored.closed_until,
                ended=dict(stored.ended),
                out_of_memory=dict(stored.out_of_memory),
                node=stored.node,
            )
        return invalid


def _pack(of: ServiceDays | None) -> bytes | None:
    if of is None:
        return None
    return msgspec.msgpack.encode(_Stored(of.days, of.closed_until, of.ended, of.out_of_memory, of.node))
