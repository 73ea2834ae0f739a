"""The ledger: running and waiting times of all instances, over all their incarnations."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf, isnan, nextafter

import numpy as np

from collector.features.promises.ledger.assessment import Assessment, Block
from collector.features.promises.ledger.events import LifecycleEvent, LifecycleKind
from collector.features.promises.ledger.instance_state import RunLog, Startup
from collector.features.promises.ledger.instances import InstanceRecords, StoredInstance
from collector.features.promises.ledger.promises import Promise, ServiceMode
from collector.features.promises.ledger.services import ServiceRecords
from collector.features.promises.ledger.standing import MODES, NOWHERE, Standings
from collector.features.promises.ledger.startups import ClusterStartups

_KEPT_IN_ALL = 200_000
"""Transitions that are kept one by one, about 6 MB, since late ones may arrive before them. Older ones are
folded into checkpoints."""
_KEPT_AT_LEAST, _KEPT_AT_MOST = 6, 64
"""Transitions of one instance that are kept. The upper bound limits the work for one event."""
_ENDS = (LifecycleKind.ENDED, LifecycleKind.WITHDRAWN)


class Ledger:
    """Applies events, and computes how promises stand. Not thread-safe.

    The result does not depend on the order in which events arrive, nor on how often. An event from before the
    checkpoint of its instance changes nothing.

    Callers may attach a value to a service, which takes less memory than a dictionary of their own.
    """

    def __init__(self, promises: Mapping[str, Promise]) -> None:
        self._promises = tuple(promises.values())
        self._codes = {name: code for code, name in enumerate(promises)}
        self._instances = InstanceRecords()
        self._services = ServiceRecords(self._instances)
        self._startups = ClusterStartups()

    def __len__(self) -> int:
        """The number of instances."""
        return len(self._instances)

    def services(self) -> Iterator[str]:
        """The names of all services."""
        return iter(self._services)

    def set_service(self, service: str, promise: str, mode: ServiceMode) -> None:
        """Set the class of promises of a service (empty for none), and its mode."""
        self._services.set(self._services.get_or_add(service), self._codes.get(promise, NOWHERE), mode)

    def promise_of(self, service: str) -> tuple[str, ServiceMode]:
        """The class of promises of an existing service (empty for none), and its mode."""
        number = self._services.get_or_add(service)
        code = self._services.promise(number)
        return "" if code == NOWHERE else self._promises[code].name, self._services.mode(number)

    def attach(self, service: str, value: object) -> None:
        """Attach a value to a service, which then exists even without instances; None removes the value."""
        self._services.attach(self._services.get_or_add(service), value)

    def attached(self, service: str) -> object:
        """The value attached to a service; None without one."""
        number = self._services.number(service)
        return None if number is None else self._services.attached(number)

    def has_instances(self, service: str) -> bool:
        number = self._services.number(service)
        return number is not None and self._services.size(number) > 0

    def apply(self, event: LifecycleEvent) -> bool:
        """Apply an event; returns whether it is new."""
        number, instances = self._services.get_or_add(event.service), self._instances
        row = self._find(number, event)
        if row is None or event.at < instances.horizon(row):
            return False
        # A start that is not reported last may change which earlier starts were on the same node.
        is_last = event.at > instances.newest_at(row) and event.kind is not LifecycleKind.ENDED
        before = RunLog()
        if not is_last:
            instances.state(row, before)
        is_new = instances.add(row, event)
        if is_new:
            if event.incarnation:
                self._services.index_incarnations(number, row, (event.incarnation,))
            after = self._update(number, row)
            added = [each for each in after.startups if each.at == event.at] if is_last else after.startups
            self._learn(number, before.startups, added)
            self._limit(number, row)
        return is_new

    def slot_of(self, service: str, incarnation: str) -> str | None:
        """The slot of an incarnation that is not retired; None if it is unknown."""
        number = self._services.number(service)
        row = None if number is None else self._services.find(number, incarnation)
        return None if row is None else self._instances.slot(row)

    def row_of(self, service: str, slot: str | None, incarnation: str) -> int:
        """The row, as in `blocks`, of the instance whose current incarnation this is; `NOWHERE` if none.

        `slot` is the slot that is checked first.
        """
        number, current = self._services.number(service), self._instances.incarnation
        if number is None or not incarnation:
            return NOWHERE
        row = None if slot is None else self._services.row(number, slot)
        if row is None or current(row) != incarnation:
            row = self._services.find(number, incarnation)
        return NOWHERE if row is None or current(row) != incarnation else row

    @property
    def row_limit(self) -> int:
        """All rows are below this number."""
        return self._instances.table.limit

    def live_slots(self, service: str) -> list[str]:
        """The slots of a service whose instances run or wait."""
        number = self._services.number(service)
        if number is None:
            return []
        table, is_batch = self._instances.table, self._services.mode(number) is ServiceMode.BATCH
        return [
            self._instances.slot(row)
            for row in self._services.rows(number)
            if isnan(table.ended(row, is_batch=is_batch))
        ]

    def vacant_slots(self, service: str) -> frozenset[str]:
        """The slots of a service that wait for an incarnation."""
        number = self._services.number(service)
        rows = [] if number is None else self._services.vacant(number)
        return frozenset(map(self._instances.slot, rows))

    def newest_vacant_slot(self, service: str) -> str | None:
        """The slot that a service loses when it is scaled down: the newest without an incarnation."""
        number, admitted = self._services.number(service), self._instances.table.admitted
        rows = [] if number is None else self._services.vacant(number)
        if not rows:
            return None
        return max((admitted(row), self._instances.slot(row)) for row in rows)[1]

    def forget(self, before: float) -> list[tuple[str, str]]:
        """Drop the instances that ended before a time, and services without other instances or a value.

        Returns the services and slots of these instances.
        """
        numbers = np.arange(self._services.limit)
        is_batch = self._services.modes(numbers) == MODES.index(ServiceMode.BATCH)
        ended: dict[int, list[int]] = {}
        for row, number in self._instances.table.ended_before(before, is_batch):
            ended.setdefault(number, []).append(row)
        dropped = []
        for number, rows in ended.items():
            name = self._services.name(number)
            dropped += [(name, self._instances.slot(row)) for row in rows]
            self._services.drop(number, rows)
        return dropped

    def discard(self, service: str, slot: str) -> None:
        """Drop an instance that turned out to be another one."""
        number = self._services.get_or_add(service)
        row = self._services.row(number, slot)
        if row is not None:
            self._services.drop(number, [row])

    def stored(self, service: str, slot: str) -> StoredInstance | None:
        """An instance for the history; None if it does not exist."""
        number = self._services.number(service)
        row = None if number is None else self._services.row(number, slot)
        return None if row is None else self._instances.stored(row, service)

    def restore(self, stored: StoredInstance) -> None:
        """Restore an instance that is not in the ledger; `set_service` sets its promise and mode.

        Start-up times are learned again from the stored transitions.
        """
        number = self._services.get_or_add(stored.service)
        row = self._row(number, stored.slot)
        self._instances.restore(row, stored)
        self._services.index_incarnations(number, row, self._instances.known_incarnations(row))
        self._learn(number, (), self._update(number, row).startups)

    def standings(self, now: float) -> Standings:
        """How every promise stands."""
        return self._assessment(now).all_services()

    def blocks(self, now: float) -> Iterator[Block]:
        """How every promise stands, in blocks of services: this takes less memory than all at once."""
        return self._assessment(now).blocks()

    def _assessment(self, now: float) -> Assessment:
        self._services.count_concurrent()
        return Assessment(now, self._promises, self._services, self._instances, self._startups)

    def _find(self, number: int, event: LifecycleEvent) -> int | None:
        """The instance of an event, which may be new; None if the event changes nothing."""
        row = self._services.find(number, event.incarnation)
        if row is not None:
            return row
        if event.slot is not None:
            return self._row(number, event.slot)
        if event.kind in _ENDS or self._services.is_retired(number, event.incarnation):
            return None
        return self._row(number, self._services.choose_slot(number))

    def _row(self, number: int, slot: str) -> int:
        """The row of an instance, which may be new."""
        row = self._services.row(number, slot)
        return self._services.add(number, slot) if row is None else row

    def _learn(self, number: int, removed: Sequence[Startup], added: Sequence[Startup]) -> None:
        if removed != added:
            self._services.learn(number, removed, added)
            self._startups.remove(removed)
            self._startups.add(added)

    def _update(self, number: int, row: int) -> RunLog:
        log = RunLog()
        state = self._instances.state(row, log)
        is_over = self._services.mode(number) is ServiceMode.BATCH and state.is_completed
        is_vacant = state.is_vacant and not is_over
        self._instances.store_state(row, state, service=number, is_vacant=is_vacant)
        self._services.index_vacancy(number, row, is_vacant=is_vacant)
        self._services.mark_changed(number)
        return log

    def _limit(self, number: int, row: int) -> None:
        """Fold the older half of the transitions if they are too many."""
        kept = min(max(_KEPT_IN_ALL // len(self), _KEPT_AT_LEAST), _KEPT_AT_MOST)
        if self._instances.count(row) > kept:
            times = [each.at for each in self._instances.transitions(row)]
            before = times[kept // 2]
            if before == times[0]:
                # Very many at one time: those are folded as well.
                before = next((each for each in times if each > before), nextafter(before, inf))
            self._services.fold(number, row, before)
