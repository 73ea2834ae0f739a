"""The ledger: running and waiting times of all instances, over all their incarnations."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import isnan

from collector.features.promises.ledger.events import LifecycleEvent, LifecycleKind, Transition
from collector.features.promises.ledger.instances import Instance, Record, Startup
from collector.features.promises.ledger.promises import Promise, ServiceMode
from collector.features.promises.ledger.services import ServiceRecord, StartupTimes, median_of
from collector.features.promises.ledger.standing import Standings

_ENDS = (LifecycleKind.ENDED, LifecycleKind.WITHDRAWN)


class Ledger:
    """Applies events, and computes how promises stand. Not thread-safe.

    The result does not depend on the order in which events arrive, nor on how often. An event from before the
    horizon of its instance changes nothing.
    """

    def __init__(self, promises: Mapping[str, Promise]) -> None:
        self._promises = promises
        self._services: defaultdict[str, ServiceRecord] = defaultdict(ServiceRecord)
        self._nodes: defaultdict[str, StartupTimes] = defaultdict(StartupTimes)
        """Start-up times by node."""

    def set_service(self, service: str, promise: str, mode: ServiceMode) -> None:
        """Set the class of promises of a service (empty for none), and its mode."""
        self._services[service].set_promise(self._promises.get(promise), mode)

    def apply(self, event: LifecycleEvent) -> bool:
        """Apply an event; returns whether it is new."""
        service = self._services[event.service]
        instance = self._find(service, event)
        new = Transition(
            event.at, event.kind, event.incarnation, event.node, event.startup_seconds, event.ending
        )
        if instance is None or not instance.record.add(new):
            return False
        if event.incarnation:
            service.incarnations[event.incarnation] = instance
        self._update(service, instance)
        service.limit(instance)
        return True

    def slot_of(self, service: str, incarnation: str) -> str | None:
        """The slot of an incarnation that is not retired; None if it is unknown."""
        known = self._services.get(service)
        instance = None if known is None else known.incarnations.get(incarnation)
        return None if instance is None else instance.slot

    def live_slots(self, service: str) -> list[str]:
        """The slots of a service whose instances run or wait."""
        known = self._services.get(service) or ServiceRecord()
        return [slot for slot, each in known.instances.items() if isnan(known.ended(each))]

    def vacant_slots(self, service: str) -> list[str]:
        """The slots of a service that wait for an incarnation, the newest first."""
        known = self._services.get(service) or ServiceRecord()
        return sorted(
            known.vacant, key=lambda slot: (known.instances[slot].state.admitted, slot), reverse=True
        )

    def forget(self, before: float) -> dict[str, set[str]]:
        """Drop the instances that ended before a time; returns their slots by service.

        A service that loses its last instance is dropped as well.
        """
        dropped = {}
        for name, service in list(self._services.items()):
            slots = {slot for slot, each in service.instances.items() if service.ended(each) < before}
            if slots:
                dropped[name] = slots
                service.drop(slots)
                self.forget_service(name)
        return dropped

    def forget_service(self, service: str) -> bool:
        """Drop a service unless it has instances; returns whether it is dropped."""
        if self._services[service].instances:
            return False
        del self._services[service]
        return True

    def discard(self, service: str, slot: str) -> None:
        """Drop an instance that turned out to be another one."""
        self._services[service].drop({slot})

    def record(self, service: str, slot: str) -> Record | None:
        """All that is known about an instance; None if it does not exist."""
        known = self._services.get(service)
        instance = None if known is None else known.instances.get(slot)
        return None if instance is None else instance.record

    def restore(self, service: str, slot: str, record: Record) -> None:
        """Restore an instance that is not in the ledger; `set_service` sets its promise and mode.

        Start-up times are learned again from the transitions.
        """
        known = self._services[service]
        instance = known.get_or_add(slot)
        instance.record = record
        known.incarnations.update(dict.fromkeys(record.incarnations(), instance))
        self._update(known, instance)

    def standings(self, now: float) -> Standings:
        """How every promise stands."""
        nodes = self._nodes.values()
        other_node, same_node = (
            median_of(each.other_node for each in nodes),
            median_of(each.same_node for each in nodes),
        )
        # Nodes report these times, and some may lie: the median over nodes counts.
        return Standings(now, tuple(self._promises.values()), self._services, other_node, same_node)

    def _find(self, service: ServiceRecord, event: LifecycleEvent) -> Instance | None:
        """The instance of an event, which may be new; None if the event changes nothing."""
        instance = service.incarnations.get(event.incarnation)
        if instance is not None:
            return instance
        slot = event.slot
        if slot is None:
            if event.kind in _ENDS or event.incarnation in service.retired:
                return None
            slot = service.choose_slot()
        return service.get_or_add(slot)

    def _update(self, service: ServiceRecord, instance: Instance) -> None:
        before = instance.startups
        service.refresh(instance)
        after = instance.startups
        if before != after:
            service.startups = service.startups or StartupTimes()
            service.startups.update(before, after)
            for node in {each.node for each in (*before, *after)}:
                self._nodes[node].update(_on(before, node), _on(after, node))


def _on(startups: Sequence[Startup], node: str) -> list[Startup]:
    return [each for each in startups if each.node == node]
