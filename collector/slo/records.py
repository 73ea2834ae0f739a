"""What the ledger keeps of one instance, and of one service."""

from dataclasses import dataclass
from math import inf, isnan, nan
from sys import intern

from collector.slo.concurrency import Concurrency, Presence, find_concurrency
from collector.slo.life import Life, Run, Span, Trace, Transition, replay
from collector.slo.promises import ServiceMode
from collector.slo.startups import StartupTimes
from collector.slo.transitions import NodeNames, Transitions

_PAST_AT_LEAST = 64
_NO_RUNS: dict[str, Run] = {}
"""Shared, to save memory: a replay copies it."""
_NEVER = -inf
"""One object for all instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInstance:
    """An instance as it is stored, in msgpack: some numbers are infinite, or NaN."""

    service: str
    slot: str
    base: Life | None
    horizon: float
    concurrent_seconds: float
    transitions: tuple[Transition, ...]


class InstanceRecord(Transitions):
    """An instance: a sum of its past, and its latest transitions."""

    __slots__ = ("base", "concurrent_seconds", "horizon", "incarnation", "node", "row", "slot")

    def __init__(self, slot: str, row: int, nodes: NodeNames) -> None:
        super().__init__(nodes)
        # Most services number their slots from 1.
        self.slot = intern(slot)
        self.row = row
        self.base: Life | None = None
        """Its life up to `horizon`."""
        self.horizon = _NEVER
        """Earlier transitions are folded into `base`; later reports of them change nothing."""
        self.concurrent_seconds = 0.0
        """Up to `horizon`: time in which it ran together with all its siblings."""
        self.incarnation = ""
        self.node = ""

    def life(self, trace: Trace | None = None) -> Life:
        """Its life so far."""
        return replay(self.base, self.unpack(), trace)

    def stored(self, service: str) -> StoredInstance:
        return StoredInstance(
            service=service,
            slot=self.slot,
            base=self.base,
            horizon=self.horizon,
            concurrent_seconds=self.concurrent_seconds,
            transitions=tuple(self.unpack()),
        )

    def restore(self, stored: StoredInstance) -> None:
        self.base, self.horizon = stored.base, stored.horizon
        self.concurrent_seconds = stored.concurrent_seconds
        self.replace(stored.transitions)

    def known_incarnations(self) -> set[str]:
        """Its incarnations that are not past."""
        known = set(self.incarnations)
        if self.base is not None:
            known.update(self.base.runs, (self.base.pending,))
        return known - {""}

    def fold(self, before: float) -> set[str]:
        """Fold the transitions before a time into the base; returns the incarnations that are past."""
        transitions = self.unpack()
        known = self.known_incarnations()
        self.base = replay(self.base, transitions, before=before)
        self.base.runs = self.base.runs or _NO_RUNS
        self.horizon = before
        self.replace(each for each in transitions if each.at >= before)
        return known - self.known_incarnations()


class ServiceRecord:
    """A service: its promise, and its instances by slot."""

    __slots__ = (
        "concurrent_since",
        "incarnations",
        "instances",
        "is_changed",
        "mode",
        "name",
        "number",
        "past",
        "promise",
        "startups",
        "vacant",
    )

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.promise = ""
        self.mode = ServiceMode.INDEPENDENT
        self.instances: dict[str, InstanceRecord] = {}
        self.incarnations: dict[str, str] = {}
        """The slots of its incarnations, without those that are past."""
        self.vacant: dict[str, float] = {}
        """Slots without an incarnation, and since when they wait."""
        self.startups = StartupTimes()
        self.past: dict[int, None] = {}
        """Hashes of the last incarnations that are past, so that late reports of them are recognized."""
        self.concurrent_since = nan
        """Since when all its instances run; NaN if they do not, or if its mode is not concurrent."""
        self.is_changed = True

    def choose_slot(self) -> str:
        """The slot of a new incarnation whose source names none."""
        if self.vacant:
            return min(self.vacant, key=lambda slot: (self.vacant[slot], slot))
        number = len(self.instances) + 1
        while str(number) in self.instances:
            number += 1
        return str(number)

    def count_concurrent(self) -> dict[int, float]:
        """Find since when all instances run, and how long each ran with all others before that, by row."""
        times, wanted = self._concurrency()
        self.concurrent_since = times.since
        return {
            each.row: each.concurrent_seconds + times.closed_seconds(wanted[each.slot])
            for each in self.instances.values()
        }

    def fold(self, instance: InstanceRecord, before: float) -> None:
        """Fold the transitions of an instance before a time into its base."""
        folded = [instance]
        if self.mode is ServiceMode.CONCURRENT:
            # When all instances ran is known for a time only if it is known of each of them.
            folded = list(self.instances.values())
            times, wanted = self._concurrency()
            for each in folded:
                each.concurrent_seconds += times.seconds(wanted[each.slot], before)
        for each in folded:
            for incarnation in each.fold(before):
                self.incarnations.pop(incarnation, None)
                self.past[hash(incarnation)] = None
        while len(self.past) > max(len(self.instances) // 4, _PAST_AT_LEAST):
            del self.past[next(iter(self.past))]

    def _concurrency(self) -> tuple[Concurrency, dict[str, Span]]:
        presences, wanted = [], {}
        for instance in self.instances.values():
            trace = Trace()
            life = instance.life(trace)
            if life.is_running:
                trace.spans.append(Span(life.since, inf))
            if life.admitted >= instance.horizon:
                instance.concurrent_seconds = 0.0
            end = inf if isnan(life.withdrawn) else life.withdrawn
            wanted[instance.slot] = Span(max(life.admitted, instance.horizon), end)
            presences.append(Presence(wanted[instance.slot], trace.spans))
        return find_concurrency(presences), wanted
