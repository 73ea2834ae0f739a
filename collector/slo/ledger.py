"""The ledger: the lives of all instances over all their incarnations."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan

import numpy as np

from collector.slo.events import LifecycleEvent, LifecycleKind
from collector.slo.life import Startup, Trace, Transition
from collector.slo.penalties import penalty
from collector.slo.promises import Promise, ServiceMode
from collector.slo.records import InstanceRecord, ServiceRecord, StoredInstance
from collector.slo.standing import (
    MODES,
    NOWHERE,
    Accounts,
    Figures,
    Floats,
    InstanceStandings,
    Rows,
    ServiceStandings,
    Standings,
    compute_figures,
    preemption_ratio,
)
from collector.slo.startups import StartupTimes
from collector.slo.table import LifeTable, LivesAt
from collector.slo.transitions import NodeNames

_KEPT_IN_ALL = 200_000
"""Transitions that late ones may join, about 5 MB; older ones are folded into sums."""
_KEPT_AT_LEAST, _KEPT_AT_MOST = 6, 64
"""Of one instance. The upper bound limits the work for one event."""
_ENDS = (LifecycleKind.ENDED, LifecycleKind.WITHDRAWN)


class Ledger:
    """Applies events, and computes how promises stand. Not thread-safe.

    The result does not depend on the order in which events arrive, nor on how often. An event that arrives so
    late that its time is already folded into sums changes nothing.
    """

    def __init__(self, promises: Mapping[str, Promise]) -> None:
        self._promises = tuple(promises.values())
        self._codes = {name: code for code, name in enumerate(promises)}
        self._services: dict[str, ServiceRecord] = {}
        self._numbers = _Numbers()
        self._instances: list[InstanceRecord | None] = []
        """By row."""
        self._table = LifeTable()
        self._nodes = NodeNames()
        self._startups = StartupTimes()

    def __len__(self) -> int:
        """How many instances it holds."""
        return len(self._table)

    def services(self) -> Iterator[str]:
        """The names of all services."""
        return iter(self._services)

    def set_service(self, service: str, promise: str, mode: ServiceMode) -> None:
        """Set the class of promises of a service (empty for none), and its mode."""
        record = self._service(service)
        if record.mode is not mode:
            for instance in record.instances.values():
                # Of the time that is folded, it is unknown when siblings ran: all of it counts.
                instance.concurrent_seconds = instance.base.running_seconds if instance.base else 0.0
        record.promise, record.mode, record.is_changed = promise, mode, True

    def apply(self, event: LifecycleEvent) -> bool:
        """Apply an event; returns whether it is new."""
        service = self._service(event.service)
        instance = self._find(service, event)
        if instance is None or event.at < instance.horizon:
            return False
        # A start that is not reported last may change which earlier starts were on the same node.
        is_last = event.at > instance.last_at and event.kind is not LifecycleKind.ENDED
        before = Trace()
        if not is_last:
            instance.life(before)
        is_new = instance.add(
            Transition(
                event.at, event.kind, event.incarnation, event.node or "", event.startup_seconds, event.ending
            )
        )
        if is_new:
            after = self._update(service, instance)
            added = [each for each in after.startups if each.at == event.at] if is_last else after.startups
            self._learn(service, before.startups, added)
            self._limit(service, instance)
        return is_new

    def slot_of(self, service: str, incarnation: str) -> str | None:
        """The slot of an incarnation that runs or waits, or did so lately; None if it is unknown."""
        record = self._services.get(service)
        return None if record is None else record.incarnations.get(incarnation)

    def live_slots(self, service: str) -> list[str]:
        """The slots of a service whose instances run or wait."""
        record = self._services.get(service)
        if record is None:
            return []
        is_batch = record.mode is ServiceMode.BATCH
        return [
            slot
            for slot, each in record.instances.items()
            if isnan(self._table.ended(each.row, is_batch=is_batch))
        ]

    def vacant_slots(self, service: str) -> frozenset[str]:
        """The slots of a service that wait for an incarnation."""
        record = self._services.get(service)
        return frozenset() if record is None else frozenset(record.vacant)

    def newest_vacant(self, service: str) -> str | None:
        """The slot that a service loses when it is scaled down: the newest without an incarnation."""
        record = self._services.get(service)
        if record is None or not record.vacant:
            return None
        rows = {slot: record.instances[slot].row for slot in record.vacant}
        return max(rows, key=lambda slot: (self._table.admitted(rows[slot]), slot))

    def forget(self, before: float) -> list[tuple[str, str]]:
        """Drop the instances that ended before a time, and services that have none left.

        Returns the services and slots of these instances.
        """
        dropped = []
        for service in list(self._services.values()):
            is_batch = service.mode is ServiceMode.BATCH
            past = [
                each
                for each in service.instances.values()
                if self._table.ended(each.row, is_batch=is_batch) < before
            ]
            if past:
                self._drop(service, past)
                dropped += [(service.name, each.slot) for each in past]
                self._release_if_empty(service)
        return dropped

    def discard(self, service: str, slot: str) -> None:
        """Drop an instance that turned out to be another one."""
        record = self._services[service]
        self._drop(record, [record.instances[slot]])
        self._release_if_empty(record)

    def stored(self, service: str, slot: str) -> StoredInstance | None:
        """An instance as it is stored; None if there is none."""
        record = self._services.get(service)
        instance = None if record is None else record.instances.get(slot)
        return None if instance is None else instance.stored(service)

    def restore(self, stored: StoredInstance) -> None:
        """Restore an instance that is not in the ledger; its promise and mode are set by `set_service`.

        Start-up times are learnt again from the transitions that were kept.
        """
        service = self._service(stored.service)
        instance = self._instance(service, stored.slot)
        instance.restore(stored)
        service.incarnations |= dict.fromkeys(instance.known_incarnations(), instance.slot)
        self._learn(service, (), self._update(service, instance).startups)

    def standings(self, now: float) -> Standings:
        """How every promise stands."""
        for service in self._services.values():
            if service.is_changed and service.mode is ServiceMode.CONCURRENT:
                for row, seconds in service.count_concurrent().items():
                    self._table.store_concurrent(row, seconds)
            service.is_changed = False
        promised = [
            each for each in self._services.values() if each.promise in self._codes and each.instances
        ]
        return self._standings(now, promised)

    def _standings(self, now: float, services: Sequence[ServiceRecord]) -> Standings:
        numbers = np.array([each.number for each in services], dtype=np.intp)
        row_of = np.full(self._numbers.limit, NOWHERE, dtype=np.intp)
        row_of[numbers] = np.arange(len(services))
        modes = np.array([MODES.index(each.mode) for each in services], dtype=np.int8)
        promise = np.array([self._codes[each.promise] for each in services], dtype=np.int8)
        targets = np.array([each.availability for each in self._promises], dtype=np.float64)[promise]
        is_batch = np.zeros(self._numbers.limit, dtype=np.bool_)
        is_batch[numbers] = modes == MODES.index(ServiceMode.BATCH)

        lives = self._table.at(now, row_of != NOWHERE, is_batch)
        service = row_of[lives.service]
        figures = compute_figures(_accounts(now, lives, service, services), modes, targets)
        startup, restart = self._expected_startups(services)
        instances = self._instances_at(lives, figures, service, startup, restart)

        def lowest(values: Floats, default: float) -> Floats:
            found = np.full(len(services), default)
            np.minimum.at(found, instances.service, values)
            return found

        delivered = figures.services
        of_services = ServiceStandings(
            names=tuple(each.name for each in services),
            promise=promise,
            mode=modes,
            target=targets,
            availability=delivered.availability,
            slack_seconds=lowest(instances.slack_seconds, np.inf),
            breaks_in_seconds=delivered.breaks_in_seconds,
            deficit_seconds=delivered.deficit_seconds,
            total_seconds=figures.total_seconds,
            penalty=penalty(targets, delivered.availability, figures.total_seconds),
            preemption_ratio=-lowest(-instances.preemption_ratio, 0.0),
            startup_seconds=startup,
            trend=delivered.trend,
            running_instances=figures.running_instances,
            live_instances=figures.live_instances,
            preemptions=np.bincount(service, lives.preemptions, len(services)).astype(np.intp),
        )
        return Standings(at=now, promises=self._promises, services=of_services, instances=instances)

    def _instances_at(
        self, lives: LivesAt, figures: Figures, service: Rows, startup: Floats, restart: Floats
    ) -> InstanceStandings:
        """The instances that have not ended. `startup` and `restart` are per service."""
        shown = np.flatnonzero(lives.is_live)
        of = service[shown]
        records = [each for row in lives.rows[shown].tolist() if (each := self._instances[row]) is not None]
        return InstanceStandings(
            service=of,
            slots=tuple(each.slot for each in records),
            incarnations=tuple(each.incarnation for each in records),
            nodes=tuple(each.node for each in records),
            is_running=lives.is_running[shown],
            running_seconds=figures.counted_seconds[shown],
            waiting_seconds=lives.waiting_seconds[shown],
            discarded_seconds=figures.discarded_seconds[shown],
            availability=figures.availability[shown],
            slack_seconds=figures.slack_seconds[shown] - np.maximum(startup, restart)[of],
            preemption_ratio=preemption_ratio(lives.preempted_startup_seconds, lives.ran_seconds)[shown],
            preemptions=lives.preemptions[shown],
            startup_seconds=startup[of],
            restart_seconds=restart[of],
            waited_seconds=lives.waited_seconds[shown],
            run_seconds=lives.run_seconds[shown],
            admitted=lives.admitted[shown],
            is_spare=figures.is_spare[shown],
        )

    def _expected_startups(self, services: Sequence[ServiceRecord]) -> tuple[Floats, Floats]:
        """Expected start-up times on another node and on the same one, per service."""
        cluster_other = self._startups.other_node() or 0.0
        cluster_same = self._startups.same_node() or 0.0
        others = (each.startups.other_node() for each in services)
        same = (each.startups.same_node() for each in services)
        return (
            np.array([cluster_other if each is None else each for each in others], dtype=np.float64),
            np.array([cluster_same if each is None else each for each in same], dtype=np.float64),
        )

    def _service(self, name: str) -> ServiceRecord:
        service = self._services.get(name)
        if service is None:
            service = self._services[name] = ServiceRecord(name, self._numbers.take())
        return service

    def _find(self, service: ServiceRecord, event: LifecycleEvent) -> InstanceRecord | None:
        """The instance of an event, which may be new; None if the event changes nothing."""
        slot = service.incarnations.get(event.incarnation, event.slot)
        if slot is None:
            if event.kind in _ENDS or hash(event.incarnation) in service.past:
                return None
            slot = service.choose_slot()
        instance = self._instance(service, slot)
        if event.incarnation and event.at >= instance.horizon:
            service.incarnations[event.incarnation] = instance.slot
        return instance

    def _instance(self, service: ServiceRecord, slot: str) -> InstanceRecord:
        instance = service.instances.get(slot)
        if instance is None:
            instance = InstanceRecord(slot, self._table.take(), self._nodes)
            service.instances[instance.slot] = instance
            if instance.row == len(self._instances):
                self._instances.append(instance)
            else:
                self._instances[instance.row] = instance
        return instance

    def _release_if_empty(self, service: ServiceRecord) -> None:
        if not service.instances:
            del self._services[service.name]
            self._numbers.release(service.number)

    def _drop(self, service: ServiceRecord, past: Sequence[InstanceRecord]) -> None:
        for instance in past:
            del service.instances[instance.slot]
            service.vacant.pop(instance.slot, None)
            self._instances[instance.row] = None
            self._table.release(instance.row)
        service.incarnations = {
            incarnation: slot
            for incarnation, slot in service.incarnations.items()
            if slot in service.instances
        }
        service.is_changed = True

    def _learn(self, service: ServiceRecord, removed: Sequence[Startup], added: Sequence[Startup]) -> None:
        if removed != added:
            for startups in (service.startups, self._startups):
                startups.remove(removed)
                startups.add(added)

    def _update(self, service: ServiceRecord, instance: InstanceRecord) -> Trace:
        trace = Trace()
        life = instance.life(trace)
        instance.incarnation, instance.node = life.incarnation, life.node
        self._table.store(instance.row, service.number, life)
        if life.is_vacant and not (service.mode is ServiceMode.BATCH and life.is_completed):
            service.vacant[instance.slot] = life.since
        else:
            service.vacant.pop(instance.slot, None)
        service.is_changed = True
        return trace

    def _limit(self, service: ServiceRecord, instance: InstanceRecord) -> None:
        """Fold the older half of the transitions if they are too many."""
        kept = min(max(_KEPT_IN_ALL // len(self), _KEPT_AT_LEAST), _KEPT_AT_MOST)
        if len(instance) > kept:
            service.fold(instance, instance.unpack()[kept // 2].at)


class _Numbers:
    """Numbers of services, each used again once it is free."""

    def __init__(self) -> None:
        self.limit = 0
        """All numbers are below."""
        self._free: list[int] = []

    def take(self) -> int:
        if self._free:
            return self._free.pop()
        self.limit += 1
        return self.limit - 1

    def release(self, number: int) -> None:
        self._free.append(number)


def _accounts(now: float, lives: LivesAt, service: Rows, services: Sequence[ServiceRecord]) -> Accounts:
    since = np.array([each.concurrent_since for each in services], dtype=np.float64)[service]
    # Of an instance that joined its running siblings, only its own time counts.
    lasting = np.where(np.isnan(since), 0.0, np.maximum(now - np.maximum(since, lives.admitted), 0.0))
    return Accounts(
        service=service,
        is_live=lives.is_live,
        is_completed=lives.is_completed,
        is_running=lives.is_running,
        ran_seconds=lives.ran_seconds,
        waiting_seconds=lives.waiting_seconds,
        concurrent_seconds=lives.concurrent_seconds + np.where(lives.is_live, lasting, 0.0),
        failed_seconds=lives.failed_seconds,
        run_seconds=lives.run_seconds,
    )
