"""The ledger's record of each service, by number.

Without an orchestrator, most services have one instance: the record of such a service is in columns only.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import inf, isnan, nan

import msgspec
import numpy as np

from collector.common.arrays import Codes, Floats, Rows
from collector.features.promises.ledger.concurrency import Concurrency, Presence, find_concurrency
from collector.features.promises.ledger.instance_state import RunLog, Span, Startup
from collector.features.promises.ledger.instances import InstanceRecords
from collector.features.promises.ledger.promises import ServiceMode
from collector.features.promises.ledger.standing import MODES, NOWHERE
from collector.features.promises.ledger.startups import StartupTimes

_RETIRED_AT_LEAST = 64
_FEW = 16
"""Up to this many instances of a service are searched one by one; an index would take more memory."""
_INDEPENDENT = MODES.index(ServiceMode.INDEPENDENT)


class _Index(msgspec.Struct, gc=False):
    """An index of the instances of a service that has many."""

    rows: dict[str, int]
    """The rows of the instances by slot."""
    incarnations: dict[str, int]
    """The rows of the instances by incarnation, without retired ones."""
    vacant: dict[int, None]
    """The rows of instances without an incarnation."""


class ServiceRecords:
    """The services, their instances, and their start-up times."""

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
        """The rows of the instances of services with several."""
        self._indices: dict[int, _Index] = {}
        """Only for services with many instances."""
        self._startups: dict[int, bytes] = {}
        self._startup_seconds, self._restart_seconds = array("d"), array("d")
        """Expected time of a start on another node and on the same one; NaN if unknown."""
        self._retired: dict[int, array[int]] = {}
        """Hashes of the last retired incarnations, so that late reports of them are recognized."""
        self._concurrent_since: dict[int, float] = {}
        """Since when all instances run, for services whose mode is concurrent."""
        self._changed: dict[int, None] = {}
        """Services whose mode is concurrent and whose concurrent times are out of date."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    @property
    def limit(self) -> int:
        """All numbers are below this one."""
        return len(self._names)

    def number(self, name: str) -> int | None:
        """The number of a service; None if it does not exist."""
        return self._numbers.get(name)

    def get_or_add(self, name: str) -> int:
        """The number of a service, which is added if it is new."""
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
            self._retired,
            self._concurrent_since,
            self._changed,
        ):
            sparse.pop(number, None)
        self._free.append(number)

    def name(self, number: int) -> str:
        return self._names[number]

    def attach(self, number: int, value: object) -> None:
        """Attach a value to a service; a service without instances and without a value is forgotten."""
        self._attached[number] = value
        if value is None and not self.size(number):
            self.release(number)

    def attached(self, number: int) -> object:
        return self._attached[number]

    def promise(self, number: int) -> int:
        """The code of the class of promises of a service; `NOWHERE` without one."""
        return self._promises[number]

    def mode(self, number: int) -> ServiceMode:
        return MODES[self._modes[number]]

    def set(self, number: int, promise: int, mode: ServiceMode) -> None:
        """Set the class of promises of a service by its code (`NOWHERE` for none), and its mode."""
        if self.mode(number) is not mode:
            for row in self.rows(number):
                # Before the checkpoint, it is unknown when siblings ran: all of that time counts.
                self._instances.set_concurrent_seconds(row, self._instances.folded_seconds(row))
        self._promises[number], self._modes[number] = promise, MODES.index(mode)
        self._concurrent_since.pop(number, None)
        self._changed.pop(number, None)
        self.mark_changed(number)

    def mark_changed(self, number: int) -> None:
        """Recompute the concurrent times of a service next time, because an instance changed."""
        if self.mode(number) is ServiceMode.CONCURRENT:
            self._changed[number] = None

    # --- Instances ----------------------------------------------------------------------------------

    def rows(self, number: int) -> Sequence[int]:
        """The rows of the instances of a service."""
        if self._only[number] != NOWHERE:
            return (self._only[number],)
        return self._siblings.get(number, ())

    def size(self, number: int) -> int:
        """The number of instances of a service."""
        return len(self.rows(number))

    def row(self, number: int, slot: str) -> int | None:
        """The row of an instance; None if it does not exist."""
        if (index := self._indices.get(number)) is not None:
            return index.rows.get(slot)
        slot_of = self._instances.slot
        return next((row for row in self.rows(number) if slot_of(row) == slot), None)

    def add(self, number: int, slot: str) -> int:
        """Add an instance; returns its row."""
        row = self._instances.allocate(slot)
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
                {row: None for row in rows if instances.table.is_vacant(row)},
            )

    def drop(self, number: int, ended: Collection[int]) -> None:
        """Drop instances, and the service if it has no others and no value."""
        dropped = frozenset(ended)
        left = [row for row in self.rows(number) if row not in dropped]
        self._set_rows(number, left)
        for row in ended:
            self._instances.release(row)
        if left or self._attached[number] is not None:
            self.mark_changed(number)
        else:
            self.release(number)

    def find(self, number: int, incarnation: str) -> int | None:
        """The row of an incarnation that is not retired; None if it is unknown."""
        if (index := self._indices.get(number)) is not None:
            return index.incarnations.get(incarnation)
        is_known = self._instances.has_incarnation
        return next((row for row in self.rows(number) if is_known(row, incarnation)), None)

    def index_incarnations(self, number: int, row: int, incarnations: Iterable[str]) -> None:
        """Add incarnations of an instance to the index of its service, if it has one."""
        if (index := self._indices.get(number)) is not None:
            index.incarnations.update(dict.fromkeys(incarnations, row))

    def is_retired(self, number: int, incarnation: str) -> bool:
        """Whether an incarnation is among the last ones that retired."""
        return hash(incarnation) in self._retired.get(number, ())

    def index_vacancy(self, number: int, row: int, *, is_vacant: bool) -> None:
        """Update in the index of a service, if it has one, whether an instance waits for an incarnation."""
        if (index := self._indices.get(number)) is None:
            return
        if is_vacant:
            index.vacant[row] = None
        else:
            index.vacant.pop(row, None)

    def vacant(self, number: int) -> list[int]:
        """The rows of instances that wait for an incarnation."""
        if (index := self._indices.get(number)) is not None:
            return list(index.vacant)
        return [row for row in self.rows(number) if self._instances.table.is_vacant(row)]

    def choose_slot(self, number: int) -> str:
        """The slot of a new incarnation whose source names none."""
        if vacant := self.vacant(number):
            table, slot = self._instances.table, self._instances.slot
            return slot(min(vacant, key=lambda row: (table.since(row), slot(row))))
        free = self.size(number) + 1
        while self.row(number, str(free)) is not None:
            free += 1
        return str(free)

    # --- Times --------------------------------------------------------------------------------

    def learn(self, number: int, removed: Sequence[Startup], added: Sequence[Startup]) -> None:
        """Add some start-up times, and remove others."""
        startups = StartupTimes(self._startups.get(number, b""))
        startups.remove(removed)
        startups.add(added)
        self._startups[number] = startups.pack()
        other, same = startups.other_node(), startups.same_node()
        self._startup_seconds[number] = nan if other is None else other
        self._restart_seconds[number] = nan if same is None else same

    def count_concurrent(self) -> None:
        """Update the times in which all instances of a service ran, where something changed."""
        for number in self._changed:
            times, wanted = self._concurrency(number)
            self._concurrent_since[number] = times.since
            for row, span in wanted.items():
                seconds = self._instances.concurrent_seconds(row) + times.closed_seconds(span)
                self._instances.table.store_concurrent(row, seconds)
        self._changed.clear()

    def fold(self, number: int, row: int, before: float) -> None:
        """Fold the transitions of an instance before a time into its checkpoint."""
        folded: Sequence[int] = (row,)
        if self.mode(number) is ServiceMode.CONCURRENT:
            # The concurrent time before a checkpoint needs a checkpoint of every instance at that time.
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
        if (retired := self._retired.get(number)) is not None:
            del retired[: max(len(retired) - max(self.size(number) // 4, _RETIRED_AT_LEAST), 0)]

    def _fold(self, number: int, row: int, before: float) -> None:
        index = self._indices.get(number)
        for incarnation in self._instances.fold(row, before):
            if index is not None:
                index.incarnations.pop(incarnation, None)
            retired = self._retired.setdefault(number, array("q"))
            if hash(incarnation) not in retired:
                retired.append(hash(incarnation))

    def _concurrency(self, number: int) -> tuple[Concurrency, dict[int, Span]]:
        """When all instances of a service ran, and when each was wanted."""
        presences, wanted = [], {}
        for row in self.rows(number):
            log, horizon = RunLog(), self._instances.horizon(row)
            state = self._instances.state(row, log)
            if state.is_running:
                log.spans.append(Span(state.since, inf))
            if state.admitted >= horizon:
                self._instances.set_concurrent_seconds(row, 0.0)
            end = inf if isnan(state.withdrawn) else state.withdrawn
            wanted[row] = Span(max(state.admitted, horizon), end)
            presences.append(Presence(wanted[row], log.spans))
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
        """The codes of the classes of promises of services."""
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
