"""The usage of services by day: one histogram per service and day, of CPU and memory.

The histograms that agents report are kept per container, in slots, and for a day only. Here those of all
containers of a service are added up, and kept for weeks. A slot is open until no more samples of it are
expected: its running containers are counted by their latest histograms, which replace the earlier ones; a
container that ended is added to a sum. Then the slot is closed, and added to its day. Days and sums are
stored; running containers come from the reports again after a restart. So no sample counts twice.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from collector.analysis.histograms import BIN_BITS, ROW_BITS, Keys, Numbers, Packed, pack, stack, sum_by_key
from collector.analysis.usage import SLOT_SECONDS, ObservedContainer

DAY_SECONDS = 86_400.0
RESOURCES = 2
"""Those that have sizes: the first of `wire.resources.RESOURCES`, CPU and memory."""
_SLOTS_PER_DAY = round(DAY_SECONDS / SLOT_SECONDS)
_GRACE_SECONDS = 3600.0
"""Time after the end of a slot in which samples of it still count: reports wait in agents and in spools."""
_SERVICE_BYTES, _SUM_BYTES = 1024, 256
"""Memory besides names and histograms."""
_PLACE_MASK = (1 << (ROW_BITS - BIN_BITS)) - 1


class UsageSum(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The usage of a slot or a day."""

    packed: Packed
    """Seconds of container time per bin, as a packed histogram."""
    seconds: float
    """Observed time: that of the container that was observed longest, slot by slot."""


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
    """Closed slots, added up by day."""
    closed_until: int = -1
    """The last closed slot."""
    ended: dict[int, UsageSum] = field(default_factory=dict)
    """By open slot: the sum of containers that ended."""
    running: dict[str, dict[int, UsageSum]] = field(default_factory=dict)
    """By container and open slot."""
    out_of_memory: dict[int, float] = field(default_factory=dict)
    """By day on which the kernel killed a container of it: the most memory that one had then, in bytes."""
    node: str = ""
    """The node that ran it first."""

    @property
    def size_bytes(self) -> int:
        """About the memory that it takes without running containers."""
        return _SERVICE_BYTES + sum(
            _SUM_BYTES + len(each.packed) for sums in (self.days, self.ended) for each in sums.values()
        )

    @property
    def last_day(self) -> int:
        """The last day on which it was observed."""
        return max((*self.days, *(slot // _SLOTS_PER_DAY for slot in self.ended)), default=-1)

    def totals(self) -> dict[int, UsageSum]:
        """The usage of each day, open slots included."""
        found: defaultdict[int, list[UsageSum]] = defaultdict(list)
        for day, total in self.days.items():
            found[day].append(total)
        for slot in {*self.ended, *(slot for slots in self.running.values() for slot in slots)}:
            found[slot // _SLOTS_PER_DAY].append(self._slot(slot))
        return {day: _added(found[day]) for day in sorted(found)}

    def close(self, until: int) -> bool:
        """Close the slots up to this one; returns whether there were any."""
        due = {*self.ended, *(slot for slots in self.running.values() for slot in slots)}
        due = {slot for slot in due if slot <= until}
        for slot in sorted(due):
            day = slot // _SLOTS_PER_DAY
            before = [self.days[day]] if day in self.days else []
            self.days[day] = _added([*before, self._slot(slot)])
            self.ended.pop(slot, None)
            for slots in self.running.values():
                slots.pop(slot, None)
        self.closed_until = max(self.closed_until, until)
        return bool(due)

    def end(self, container: str) -> None:
        """Count a container that does not run any more."""
        for slot, total in self.running.pop(container).items():
            self.ended[slot] = _merged([total, *([self.ended[slot]] if slot in self.ended else [])])

    def _slot(self, slot: int) -> UsageSum:
        parts = [slots[slot] for slots in self.running.values() if slot in slots]
        return _merged([*parts, *([self.ended[slot]] if slot in self.ended else [])])


def day_of(at: float) -> int:
    """The number of a day, in UTC."""
    return int(at // DAY_SECONDS)


def usage_total(keys: Keys, counts: Numbers, sample_seconds: float, most_seconds: float) -> UsageSum:
    """The samples of one container: keys as in `collector.analysis.histograms`, and the number of each.

    Whatever its node claims, a container is not observed for longer than `most_seconds`.
    """
    place = keys >> BIN_BITS & _PLACE_MASK
    sized = place < RESOURCES
    keys, counts, place = keys[sized], counts[sized], place[sized]
    samples = float(np.bincount(place, weights=counts, minlength=RESOURCES).max(initial=0.0))
    seconds = min(most_seconds, samples * sample_seconds)
    weight = seconds / samples if samples else 0.0
    [packed] = pack(*sum_by_key(keys, np.maximum(1, np.rint(counts * weight).astype(np.int64))), 1)
    return UsageSum(packed, seconds)


def _merged(parts: Sequence[UsageSum]) -> UsageSum:
    """The sum of containers in the same slot."""
    return UsageSum(_sum(parts), max(each.seconds for each in parts))


def _added(parts: Sequence[UsageSum]) -> UsageSum:
    """The sum of different slots."""
    return UsageSum(_sum(parts), sum(each.seconds for each in parts))


def _sum(parts: Sequence[UsageSum]) -> Packed:
    if len(parts) == 1:
        return parts[0].packed
    keys, counts, _ = stack([each.packed for each in parts], [0] * len(parts))
    return pack(*sum_by_key(keys, counts), 1)[0]


class DailyUsage:
    """The usage of all services by day. Not thread-safe.

    A node can run containers of a new service at any time. So services that no longer run have a limit of
    memory per node that ran them first; those that ended first are forgotten.
    """

    def __init__(self, keep_days: int, max_bytes: int = 16 << 20) -> None:
        self._keep_days = keep_days
        self._max_bytes = max_bytes
        self.services: dict[str, ServiceDays] = {}
        self._changed: set[str] = set()

    def update(self, observed: Iterable[ObservedContainer], now: float) -> None:
        """Take over the usage of all containers that run now."""
        running: defaultdict[str, dict[str, ObservedContainer]] = defaultdict(dict)
        for each in observed:
            running[each.service][f"{each.node}/{each.id}"] = each
        until = int((now - _GRACE_SECONDS) // SLOT_SECONDS) - 1
        oldest = day_of(now) - self._keep_days
        for name in running.keys() | self.services.keys():
            of = self.services.get(name)
            if of is None:
                of = self.services[name] = ServiceDays(node=next(iter(running[name].values())).node)
            self._update(name, of, running.get(name, {}))
            if of.close(until):
                self._changed.add(name)
            self._forget(name, of, oldest)
        self._drop_surplus()

    def _drop_surplus(self) -> None:
        """Forget services that no longer run, of nodes that had too many of them."""
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

    def _update(self, name: str, of: ServiceDays, running: Mapping[str, ObservedContainer]) -> None:
        for container in of.running.keys() - running.keys():
            of.end(container)
            self._changed.add(name)
        for container, each in running.items():
            known = of.running.setdefault(container, {})
            for slot, packed in each.own_parts:
                if slot > of.closed_until:
                    keys, counts, _ = stack([packed], [0])
                    known[slot] = usage_total(keys, counts, each.sample_seconds, SLOT_SECONDS)

    def _forget(self, name: str, of: ServiceDays, oldest: int) -> None:
        for days in (of.days, of.out_of_memory):
            for day in [day for day in days if day <= oldest]:
                del days[day]
                self._changed.add(name)
        if not (of.days or of.ended or of.running or of.out_of_memory):
            del self.services[name]
            self._changed.add(name)

    def note_out_of_memory(self, service: str, at: float, memory_bytes: float) -> None:
        """A container was killed while it had this much memory; ignored if its service was not observed."""
        of, day = self.services.get(service), day_of(at)
        if of is not None and memory_bytes > of.out_of_memory.get(day, 0.0):
            of.out_of_memory[day] = memory_bytes
            self._changed.add(service)

    def pack_changes(self) -> dict[str, bytes | None]:
        """What changed since the last call, for the history; None for a service that is forgotten."""
        changed, self._changed = self._changed, set()
        return {name: _pack(self.services.get(name)) for name in changed}

    def requeue(self, names: Iterable[str]) -> None:
        """Include these in the next `pack_changes`: they could not be stored."""
        self._changed.update(names)

    def restore(self, packed: Mapping[str, bytes]) -> Collection[str]:
        """Restore the state of before a restart; returns the services whose state is not valid."""
        refused: list[str] = []
        decoder = msgspec.msgpack.Decoder(_Stored)
        for name, each in packed.items():
            try:
                stored = decoder.decode(each)
                for total in (*stored.days.values(), *stored.ended.values()):
                    stack([total.packed], [0])
            except (msgspec.DecodeError, ValueError, LookupError):
                refused.append(name)
                continue
            self.services[name] = ServiceDays(
                days=dict(stored.days),
                closed_until=stored.closed_until,
                ended=dict(stored.ended),
                out_of_memory=dict(stored.out_of_memory),
                node=stored.node,
            )
        return refused


def _pack(of: ServiceDays | None) -> bytes | None:
    if of is None:
        return None
    return msgspec.msgpack.encode(_Stored(of.days, of.closed_until, of.ended, of.out_of_memory, of.node))
