"""What the ledger keeps of each service, by number.

Without an orchestrator, most services have one instance: everything about such a service is in columns, or
follows from its instance.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import inf, isnan, nan

import msgspec
import numpy as np

from collector.slo.concurrency import Concurrency, Presence, find_concurrency
from collector.slo.instances import InstanceRecords
from collector.slo.life import Span, Startup, Trace
from collector.slo.promises import ServiceMode
from collector.slo.standing import MODES, NOWHERE, Codes, Floats, Rows
from collector.slo.startups import StartupTimes

_PAST_AT_LEAST = 64
_FEW = 16
"""Instances of a service that are looked through one by one; an index takes more memory than they do."""
_INDEPENDENT = MODES.index(ServiceMode.INDEPENDENT)


class _Index(msgspec.Struct, gc=False):
    """The instances of a service that has many."""

    rows: dict[str, int]
    """By slot."""
    incarnations: dict[str, int]
    """The rows of its incarnations, without those that are past."""
    vacant: dict[int, None]
    """Instances without an incarnation."""


class ServiceRecords:
    """The services, their instances and what is learnt about each."""

    def __init__(self, instances: InstanceRecords) -> None:
        self._instances = instances
        self._numbers: dict[str, int] = {}
        self._free: list[int] = []
        self._names: list[str] = []
        self._attached: list[object] = []
        self._promises = array("b")
        self._modes = array("b")
        self._only = array("i")
        """The row of the only instance; `NOWHERE` without one, or with several."""
        self._siblings: dict[int, array[int]] = {}
        """The rows of several instances."""
        self._indices: dict[int, _Index] = {}
        """Of services with many instances."""
        self._startups: dict[int, bytes] = {}
        self._startup_seconds, self._restart_seconds = array("d"), array("d")
        """Expected on another node and on the same one; NaN if unknown."""
        self._past: dict[int, array[int]] = {}
        """Hashes of the last incarnations that are past, so that late reports of them are recognized."""
        self._concurrent_since: dict[int, float] = {}
        """Since when all instances run, of services whose mode is concurrent."""
        self._changed: dict[int, None] = {}
        """Services whose mode is concurrent, since the times of these were last counted."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    @property
    def limit(self) -> int:
        """All numbers are below."""
        return len(self._names)

    def number(self, name: str) -> int | None:
        """The number of a service; None if it does not exist."""
        return self._numbers.get(name)

    def take(self, name: str) -> int:
        """The number of a service, which may be new."""
        number = self._numbers.get(name)
        if number is not None:
            return number
        if self._free:
            number = self._free.pop()
        else:
            number = len(self._names)
            self._names.append("")
            self._attached.append(None)
            for codes in (self._promises, self._modes, self._only):
                codes.append(NOWHERE)
            for seconds in (self._startup_seconds, self._restart_seconds):
                seconds.append(nan)
        self._numbers[name], self._names[number] = number, name
        self._promises[number], self._modes[number] = NOWHERE, _INDEPENDENT
        self._only[number] = NOWHERE
        return number

    def release(self, number: int) -> None:
        """Forget a service without instances."""
        del self._numbers[self._names[number]]
        self._names[number] = ""
        self._startup_seconds[number] = self._restart_seconds[number] = nan
        for sparse in (
            self._siblings,
            self._indices,
            self._startups,
            self._past,
            self._concurrent_since,
            self._changed,
        ):
            sparse.pop(number, None)
        self._free.append(number)

    def name(self, number: int) -> str:
        return self._names[number]

    def attach(self, number: int, value: object) -> None:
        """Attach a value to a service; one without instances and without a value is forgotten."""
        self._attached[number] = value
        if value is None and not self.size(number):
            self.release(number)

    def attached(self, number: int) -> object:
        return self._attached[number]

    def promise(self, number: int) -> int:
        """The code of its class of promises; `NOWHERE` without one."""
        return self._promises[number]

    def mode(self, number: int) -> ServiceMode:
        return MODES[self._modes[number]]

    def set(self, number: int, promise: int, mode: ServiceMode) -> None:
        """Set the class of promises of a service by its code (`NOWHERE` for none), and its mode."""
        if self.mode(number) is not mode:
            for row in self.rows(number):
                # Of the time that is folded, it is unknown when siblings ran: all of it counts.
                self._instances.set_concurrent_seconds(row, self._instances.folded_seconds(row))
        self._promises[number], self._modes[number] = promise, MODES.index(mode)
        self._concurrent_since.pop(number, None)
        self._changed.pop(number, None)
        self.note_change(number)

    def note_change(self, number: int) -> None:
        """An instance of a service changed."""
        if self.mode(number) is ServiceMode.CONCURRENT:
            self._changed[number] = None

    # --- Instances ----------------------------------------------------------------------------------

    def rows(self, number: int) -> Sequence[int]:
        """The rows of its instances."""
        if self._only[number] != NOWHERE:
            return (self._only[number],)
        return self._siblings.get(number, ())

    def size(self, number: int) -> int:
        """How many instances it has."""
        return len(self.rows(number))

    def row(self, number: int, slot: str) -> int | None:
        """The row of an instance; None if it does not exist."""
        if (index := self._indices.get(number)) is not None:
            return index.rows.get(slot)
        slot_of = self._instances.slot
        return next((row for row in self.rows(number) if slot_of(row) == slot), None)

    def add(self, number: int, slot: str) -> int:
        """Add an instance; returns its row."""
        row = self._instances.take(slot)
        if (index := self._indices.get(number)) is not None:
            self._siblings[number].append(row)
            index.rows[self._instances.slot(row)] = row
        else:
            self._set_rows(number, [*self.rows(number), row])
        return row

    def _set_rows(self, number: int, rows: Sequence[int]) -> None:
        """Set the instances of a service."""
        self._only[number] = rows[0] if len(rows) == 1 else NOWHERE
        self._siblings.pop(number, None)
        self._indices.pop(number, None)
        if len(rows) > 1:
            self._siblings[number] = array("i", rows)
        if len(rows) > _FEW:
            instances = self._instances
            self._indices[number] = _Index(
                {instances.slot(row): row for row in rows},
                {name: row for row in rows for name in instances.known_incarnations(row)},
                {row: None for row in rows if instances.lives.is_vacant(row)},
            )

    def drop(self, number: int, past: Collection[int]) -> None:
        """Drop instances, and a service that has neither others nor a value."""
        dropped = frozenset(past)
        left = [row for row in self.rows(number) if row not in dropped]
        self._set_rows(number, left)
        for row in past:
            self._instances.release(row)
        if left or self._attached[number] is not None:
            self.note_change(number)
        else:
            self.release(number)

    def find(self, number: int, incarnation: str) -> int | None:
        """The row of an incarnation that is not past; None if it is unknown."""
        if (index := self._indices.get(number)) is not None:
            return index.incarnations.get(incarnation)
        is_known = self._instances.has_incarnation
        return next((row for row in self.rows(number) if is_known(row, incarnation)), None)

    def note_incarnations(self, number: int, row: int, incarnations: Iterable[str]) -> None:
        """Incarnations of an instance, whose transitions name them."""
        if (index := self._indices.get(number)) is not None:
            index.incarnations.update(dict.fromkeys(incarnations, row))

    def is_past(self, number: int, incarnation: str) -> bool:
        """Whether an incarnation is among the last ones that are past."""
        return hash(incarnation) in self._past.get(number, ())

    def note_vacancy(self, number: int, row: int, *, is_vacant: bool) -> None:
        """Whether an instance is wanted and has no incarnation, as in its life."""
        if (index := self._indices.get(number)) is None:
            return
        if is_vacant:
            index.vacant[row] = None
        else:
            index.vacant.pop(row, None)

    def vacant(self, number: int) -> list[int]:
        """The rows of its instances that wait for an incarnation."""
        if (index := self._indices.get(number)) is not None:
            return list(index.vacant)
        return [row for row in self.rows(number) if self._instances.lives.is_vacant(row)]

    def choose_slot(self, number: int) -> str:
        """The slot of a new incarnation whose source names none."""
        if vacant := self.vacant(number):
            lives, slot = self._instances.lives, self._instances.slot
            return slot(min(vacant, key=lambda row: (lives.since(row), slot(row))))
        free = self.size(number) + 1
        while self.row(number, str(free)) is not None:
            free += 1
        return str(free)

    # --- Times --------------------------------------------------------------------------------

    def learn(self, number: int, removed: Sequence[Startup], added: Sequence[Startup]) -> None:
        """Learn start-up times, and take back others."""
        startups = StartupTimes(self._startups.get(number, b""))
        startups.remove(removed)
        startups.add(added)
        self._startups[number] = startups.pack()
        other, same = startups.other_node(), startups.same_node()
        self._startup_seconds[number] = nan if other is None else other
        self._restart_seconds[number] = nan if same is None else same

    def count_concurrent(self) -> None:
        """Count the times in which all instances of a service ran, where something changed."""
        for number in self._changed:
            times, wanted = self._concurrency(number)
            self._concurrent_since[number] = times.since
            for row, span in wanted.items():
                seconds = self._instances.concurrent_seconds(row) + times.closed_seconds(span)
                self._instances.lives.store_concurrent(row, seconds)
        self._changed.clear()

    def fold(self, number: int, row: int, before: float) -> None:
        """Fold the transitions of an instance before a time into its base."""
        folded: Sequence[int] = (row,)
        if self.mode(number) is ServiceMode.CONCURRENT:
            # When all instances ran is known for a time only if it is known of each of them.
            folded = self.rows(number)
            times, wanted = self._concurrency(number)
            seconds = {
                each: self._instances.concurrent_seconds(each) + times.seconds(wanted[each], before)
                for each in folded
            }
            for each in folded:
                self._fold(number, each, before)
                self._instances.set_concurrent_seconds(each, seconds[each])
        else:
            self._fold(number, row, before)
        if (past := self._past.get(number)) is not None:
            del past[: max(len(past) - max(self.size(number) // 4, _PAST_AT_LEAST), 0)]

    def _fold(self, number: int, row: int, before: float) -> None:
        index = self._indices.get(number)
        for incarnation in self._instances.fold(row, before):
            if index is not None:
                index.incarnations.pop(incarnation, None)
            past = self._past.setdefault(number, array("q"))
            if hash(incarnation) not in past:
                past.append(hash(incarnation))

    def _concurrency(self, number: int) -> tuple[Concurrency, dict[int, Span]]:
        """When all its instances ran, and when each was wanted."""
        presences, wanted = [], {}
        for row in self.rows(number):
            trace, horizon = Trace(), self._instances.horizon(row)
            life = self._instances.life(row, trace)
            if life.is_running:
                trace.spans.append(Span(life.since, inf))
            if life.admitted >= horizon:
                self._instances.set_concurrent_seconds(row, 0.0)
            end = inf if isnan(life.withdrawn) else life.withdrawn
            wanted[row] = Span(max(life.admitted, horizon), end)
            presences.append(Presence(wanted[row], trace.spans))
        return find_concurrency(presences), wanted

    # --- Columns ------------------------------------------------------------------------------

    def promised(self) -> Rows:
        """The numbers of services with a promise and with instances, in the order of their creation."""
        numbers = np.fromiter(self._numbers.values(), dtype=np.intp, count=len(self._numbers))
        is_used = np.asarray(self._only) != NOWHERE
        is_used[list(self._siblings)] = True
        is_used &= np.asarray(self._promises) != NOWHERE
        promised: Rows = numbers[is_used[numbers]]
        return promised

    def names(self, numbers: Rows) -> tuple[str, ...]:
        return tuple([self._names[number] for number in numbers])

    def promises(self, numbers: Rows) -> Codes:
        """Their classes of promises, by code."""
        return np.asarray(self._promises)[numbers]

    def modes(self, numbers: Rows) -> Codes:
        return np.asarray(self._modes)[numbers]

    def startup_seconds(self, numbers: Rows) -> Floats:
        """The expected times that a start takes on another node; NaN if unknown."""
        return np.asarray(self._startup_seconds)[numbers]

    def restart_seconds(self, numbers: Rows) -> Floats:
        """The expected times that a start takes on the same node; NaN if unknown."""
        return np.asarray(self._restart_seconds)[numbers]

    def concurrent_since(self, numbers: Rows) -> Floats:
        """Since when all instances run; NaN if they do not, or if the mode is not concurrent."""
        since = np.full(self.limit, np.nan)
        since[list(self._concurrent_since)] = list(self._concurrent_since.values())
        return since[numbers]
