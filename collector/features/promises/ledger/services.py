"""A service of the ledger: its instances, the times in which all of them ran, and measured start-up times."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from math import ceil, inf, isnan, nan, nextafter
from operator import itemgetter
from statistics import median_high

import msgspec
import numpy as np

from collector.common.arrays import Floats
from collector.features.promises.ledger.instances import (
    Instance,
    InstanceState,
    Record,
    Replay,
    Span,
    Startup,
)
from collector.features.promises.ledger.promises import Promise, ServiceMode

_MOST_TRANSITIONS = 32
"""Transitions of an instance that are kept one by one, since late ones may arrive before them."""
_MOST_RETIRED = 256
_PERCENTILE = 0.95


class StartupTimes:
    """Counts of start-up times, rounded to two digits: memory stays small, and the order does not matter."""

    __slots__ = ("_counts", "other_node", "same_node")

    def __init__(self) -> None:
        self._counts: Counter[tuple[bool, float]] = Counter()
        self.other_node = self.same_node = nan
        """The 95th percentile on another node or at the first start, and on the node of the last run."""

    def update(self, removed: Iterable[Startup], added: Iterable[Startup]) -> None:
        """Add start-up times, and remove some that were added before."""
        for change, startups in ((-1, removed), (1, added)):
            for each in startups:
                self._counts[each.is_same_node, float(f"{each.seconds:.2g}")] += change
        self._counts = +self._counts
        self.other_node, self.same_node = (
            _percentile(
                {seconds: count for (is_same, seconds), count in self._counts.items() if is_same is kind}
            )
            for kind in (False, True)
        )


def _percentile(counts: Mapping[float, int]) -> float:
    rank = ceil(_PERCENTILE * sum(counts.values()))
    for seconds in sorted(counts):
        rank -= counts[seconds]
        if rank <= 0:
            return seconds
    return nan


def median_of(values: Iterable[float]) -> float:
    """The median of values that are known; 0 without any."""
    known = [each for each in values if not isnan(each)]
    return median_high(known) if known else 0.0


class ServiceRecord(msgspec.Struct, gc=False, eq=False):
    """A service, and the instances of its slots."""

    promise: Promise | None = None
    mode: ServiceMode = ServiceMode.INDEPENDENT
    instances: dict[str, Instance] = {}
    """By slot."""
    incarnations: dict[str, Instance] = {}
    """The instances by incarnation, without retired ones."""
    vacant: dict[str, None] = {}
    """The slots that are wanted and have no incarnation."""
    retired: tuple[str, ...] = ()
    """The last incarnations that no record names any more, so that late reports of them are recognized."""
    startups: StartupTimes | None = None
    concurrent_since: float = nan
    """Since when all instances run; only for the mode concurrent."""
    is_outdated: bool = False
    """Whether its concurrent times are."""

    def set_promise(self, promise: Promise | None, mode: ServiceMode) -> None:
        """Set the promise of the service (None for none), and its mode."""
        if self.mode is not mode:
            for record in (each.record for each in self.instances.values()):
                # Before the horizon, it is unknown when siblings ran: all of that time counts.
                record.concurrent_seconds = 0.0 if record.base is None else record.base.running_seconds
        self.promise, self.mode, self.is_outdated = promise, mode, True

    def get_or_add(self, slot: str) -> Instance:
        """The instance of a slot, which may be new."""
        instance = self.instances.get(slot)
        if instance is None:
            instance = self.instances[slot] = Instance(slot, Record(), InstanceState())
        return instance

    def choose_slot(self) -> str:
        """The slot of a new incarnation whose source names none: the one that waits longest, or a new one."""
        if self.vacant:
            return min(self.vacant, key=lambda slot: (self.instances[slot].state.since, slot))
        free = len(self.instances) + 1
        while str(free) in self.instances:
            free += 1
        return str(free)

    def ended(self, instance: Instance) -> float:
        """When an instance ended for good; NaN if it runs or waits."""
        return instance.state.ended(is_batch=self.mode is ServiceMode.BATCH)

    def refresh(self, instance: Instance) -> None:
        """Compute what follows from a record that changed."""
        replay = Replay(instance.record.base, instance.record.transitions)
        instance.state, instance.startups = replay.state, tuple(replay.startups)
        if not replay.state.incarnation and isnan(self.ended(instance)):
            self.vacant[instance.slot] = None
        else:
            self.vacant.pop(instance.slot, None)
        self.is_outdated = True

    def drop(self, slots: set[str]) -> None:
        """Drop instances."""
        for slot in slots:
            del self.instances[slot]
            self.vacant.pop(slot, None)
        self.incarnations = {name: each for name, each in self.incarnations.items() if each.slot not in slots}
        self.is_outdated = True

    def limit(self, instance: Instance) -> None:
        """Fold the older half of the transitions of an instance if they are too many."""
        times = [each.at for each in instance.record.transitions]
        if len(times) <= _MOST_TRANSITIONS:
            return
        before = times[_MOST_TRANSITIONS // 2]
        if before == times[0]:
            # Very many at one time: those are folded as well.
            before = next((each for each in times if each > before), nextafter(before, inf))
        folded = [instance]
        if self.mode is ServiceMode.CONCURRENT:
            # The concurrent time before a horizon needs the same horizon for every instance.
            folded = [each for each in self.instances.values() if each.record.horizon < before]
            spans, wanted = self._concurrency()
            for each in folded:
                start, end = wanted[each.slot]
                each.record.concurrent_seconds += _overlap(spans, start, min(end, before))
        for each in folded:
            known = each.record.incarnations()
            each.record.fold(before)
            retired = known - each.record.incarnations()
            for name in retired:
                self.incarnations.pop(name, None)
            self.retired = (*self.retired, *retired)[-_MOST_RETIRED:]
            self.refresh(each)

    def count_concurrent(self) -> None:
        """Update the times in which all instances ran, if something changed: for the mode concurrent."""
        if not self.is_outdated:
            return
        spans, wanted = self._concurrency()
        is_open = bool(len(spans)) and spans[-1, 1] == inf
        self.concurrent_since = float(spans[-1, 0]) if is_open else nan
        closed = spans[:-1] if is_open else spans
        for slot, instance in self.instances.items():
            since = instance.record.concurrent_seconds
            instance.concurrent_seconds = since + _overlap(closed, *wanted[slot])
        self.is_outdated = False

    def _concurrency(self) -> tuple[Floats, dict[str, Span]]:
        """When every instance that was wanted ran, as rows of start and end; and when each was wanted."""
        changes: list[tuple[float, int, int]] = []
        wanted = {}
        for slot, instance in self.instances.items():
            record, state = instance.record, instance.state
            if state.admitted >= record.horizon:
                record.concurrent_seconds = 0.0
            begin, until = max(state.admitted, record.horizon), state.withdrawn
            wanted[slot] = Span(begin, inf if isnan(until) else until)
            changes += [(begin, 1, 0), (wanted[slot].end, -1, 0)]
            spans = Replay(record.base, record.transitions).spans
            for span in (*spans, Span(state.since, inf)) if state.runs else spans:
                start, end = max(span.start, begin), min(span.end, wanted[slot].end)
                if start < end:
                    changes += [(start, 0, 1), (end, 0, -1)]
        bounds: list[float] = []
        present = running = 0
        for at, group in groupby(sorted(changes), key=itemgetter(0)):
            if at == inf:
                break
            for _, more_present, more_running in group:
                present += more_present
                running += more_running
            if (0 < present == running) is (len(bounds) % 2 == 0):
                bounds.append(at)
        if len(bounds) % 2:
            bounds.append(inf)
        return np.array(bounds).reshape(-1, 2), wanted


def _overlap(spans: Floats, start: float, end: float) -> float:
    """The seconds of spans between two times."""
    return float(np.maximum(np.minimum(spans[:, 1], end) - np.maximum(spans[:, 0], start), 0.0).sum())
