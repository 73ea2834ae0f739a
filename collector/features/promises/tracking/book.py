"""The containers and services with a promise, and the ledger that they are entered in.

The history has a value per service and per instance, so that only changes are written.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from math import isnan, nan
from sys import intern

import msgspec

from collector.config import CollectorConfig
from collector.features.promises.labels import PromiseTraits, promise_traits
from collector.features.promises.ledger.events import Ending, LifecycleEvent, LifecycleKind
from collector.features.promises.ledger.instances import Record
from collector.features.promises.ledger.ledger import Ledger
from collector.features.promises.settings import SLO_LABEL, PromisesConfig, promise_classes

log = logging.getLogger(__name__)


class TrackedContainer(msgspec.Struct, gc=False):
    """A container of a service with a promise. Times are by the collector's clock; NaN is none."""

    node: str
    service: str
    incarnation: str
    """The task or pod that an orchestrator runs it for; without one, its own id."""
    slot: str | None = None
    """None if its source names none, until the ledger chose one."""
    since: float = nan
    """When it got its state; NaN if it is expected."""
    is_running: bool = False
    is_lost: bool = False
    """Whether its node, which is silent since, reported it last."""
    is_listed: bool = False
    """Whether an orchestrator lists it."""
    is_reported: bool = True
    """Whether its node reports when it runs; otherwise only the orchestrator does."""

    def put(self, at: float, *, is_running: bool = False, is_lost: bool = False) -> None:
        """Note that the container runs, or does not, since a time."""
        self.since, self.is_running, self.is_lost = at, is_running, is_lost


class TrackedService(msgspec.Struct, frozen=True, gc=False):
    """A service with a promise."""

    traits: PromiseTraits
    is_orchestrated: bool
    pending: frozenset[str] = frozenset()
    """Ids of its tasks that have no container."""


class _StoredSlot(msgspec.Struct, frozen=True):
    """An instance, and its containers by id."""

    record: Record
    containers: dict[str, TrackedContainer]


class PromiseBook:
    """The tracked containers and services. Not thread-safe."""

    def __init__(self, config: CollectorConfig) -> None:
        self.promises = promise_classes(config)
        self._default = config.section(PromisesConfig).default_class
        self.ledger = Ledger(self.promises)
        self.services: dict[str, TrackedService] = {}
        self.containers: dict[str, TrackedContainer] = {}
        self._containers_of: defaultdict[str, list[str]] = defaultdict(list)
        """Ids of the containers of each service."""
        self.changed: set[tuple[str, ...]] = set()
        """What changed since it was stored: services by name, instances by service and slot."""
        self.unknown_classes: dict[str, str] = {}
        """Orchestrated services whose label names no class, with that name."""
        self.viewed_at: float | None = None
        """When an orchestrator last reported its state."""
        self.stopped: set[str] = set()
        """Containers that the collector stops, or stopped."""

    def traits(self, labels: Mapping[str, str]) -> PromiseTraits:
        """What labels promise."""
        return promise_traits(labels, self.promises, self._default)

    def may_promise(self, labels: Mapping[str, str]) -> bool:
        """Whether labels can promise something: a quick check."""
        return SLO_LABEL in labels or bool(self._default)

    def is_orchestrated(self, service: str) -> bool:
        """Whether an orchestrator runs a service, which has a promise."""
        return service in self.services and self.services[service].is_orchestrated

    def set_service(self, name: str, service: TrackedService) -> None:
        """Set the promise and the pending tasks of a service."""
        if self.services.get(name) != service:
            self.services[name] = service
            self.ledger.set_service(name, *service.traits)
            self.changed.add((name,))

    def drop_service(self, name: str) -> None:
        """Forget a service and its containers."""
        for container in self.containers_of(name):
            self.drop(container)
        self.services.pop(name, None)
        self.ledger.forget_service(name)
        self.changed.add((name,))

    def add(self, container: str, entry: TrackedContainer) -> TrackedContainer:
        """Track a container, in place of an earlier entry."""
        if container in self.containers:
            self.drop(container)
        # Equal strings are kept once: there are very many entries.
        entry.node = intern(entry.node)
        entry.slot = None if entry.slot is None else intern(entry.slot)
        self.containers[container] = entry
        self._containers_of[entry.service].append(container)
        return entry

    def drop(self, container: str) -> None:
        """Forget a container."""
        entry = self.containers.pop(container)
        self._containers_of[entry.service].remove(container)
        if not self._containers_of[entry.service]:
            del self._containers_of[entry.service]
        if entry.slot is not None:
            self.changed.add((entry.service, entry.slot))

    def containers_of(self, service: str) -> tuple[str, ...]:
        """Ids of the tracked containers of a service."""
        return tuple(self._containers_of.get(service, ()))

    def reassign(self, container: str, service: str, slot: str | None) -> None:
        """Let a container continue an instance of another service: it belongs to that one after all."""
        entry = self.containers[container]
        self.drop(container)
        if entry.slot is not None:
            self.ledger.discard(entry.service, entry.slot)
        if not self.containers_of(entry.service):
            self.drop_service(entry.service)
        self.add(container, TrackedContainer(entry.node, service, entry.incarnation, slot))
        if entry.is_running:
            self.run(container, entry.since)

    def run(self, container: str, at: float, startup_seconds: float | None = None) -> None:
        """Note that a tracked container runs from a time on."""
        entry = self.containers[container]
        self.enter(entry, LifecycleKind.STARTED, at, startup_seconds=startup_seconds)
        entry.put(at, is_running=True)
        self.stopped.discard(container)

    def end(self, container: str, at: float, ending: Ending | None = None) -> None:
        """Note that a tracked container ended; a late report may be about an earlier run."""
        entry = self.containers[container]
        if container in self.stopped:
            ending = Ending.PREEMPTED
        self.enter(entry, LifecycleKind.ENDED, at, ending=ending)
        if entry.is_running and at >= entry.since:
            entry.put(at)
        elif not entry.is_running:
            entry.put(at if isnan(entry.since) else min(at, entry.since), is_lost=entry.is_lost)

    def withdraw(self, service: str, slot: str, at: float) -> None:
        """Remove an instance that is no longer expected to run."""
        self.enter(TrackedContainer("", service, "", slot), LifecycleKind.WITHDRAWN, at)

    def enter(
        self,
        entry: TrackedContainer,
        kind: LifecycleKind,
        at: float,
        *,
        startup_seconds: float | None = None,
        ending: Ending | None = None,
    ) -> None:
        """Enter an event into the ledger."""
        self.ledger.apply(
            LifecycleEvent(
                at=at,
                kind=kind,
                service=entry.service,
                incarnation=entry.incarnation,
                slot=entry.slot,
                node=entry.node,
                startup_seconds=startup_seconds,
                ending=ending,
            )
        )
        if entry.slot is None:
            entry.slot = self.ledger.slot_of(entry.service, entry.incarnation)
        if entry.slot is not None:
            self.changed.add((entry.service, entry.slot))

    # --- The history --------------------------------------------------------------------------

    def pack(self, keys: Collection[tuple[str, ...]]) -> dict[str, bytes | None]:
        """The values of services and instances; None for those that are gone."""
        containers: defaultdict[tuple[str, str | None], dict[str, TrackedContainer]] = defaultdict(dict)
        for service in {key[0] for key in keys}:
            for container in self.containers_of(service):
                entry = self.containers[container]
                containers[service, entry.slot][container] = entry
        values: dict[str, bytes | None] = {}
        for key in keys:
            found: TrackedService | _StoredSlot | None
            match key:
                case (service,):
                    found = self.services.get(service)
                case (service, slot):
                    record = self.ledger.record(service, slot)
                    found = None if record is None else _StoredSlot(record, containers[service, slot])
            values[msgspec.json.encode(key).decode()] = (
                None if found is None else msgspec.msgpack.encode(found)
            )
        return values

    def restore(self, values: Mapping[str, bytes]) -> None:
        """Restore stored values into an empty book. A value that is not valid is left out."""
        keys = [(msgspec.json.decode(key, type=list[str]), value) for key, value in values.items()]
        for key, value in sorted(keys, key=lambda each: len(each[0])):
            try:
                self._restore(key, value)
            except (msgspec.DecodeError, ValueError, TypeError) as error:
                log.warning("left out a stored promise of %s that is not valid: %s", key, error)
        self.changed.clear()

    def _restore(self, key: list[str], value: bytes) -> None:
        match key:
            case [service]:
                self.set_service(service, msgspec.msgpack.decode(value, type=TrackedService))
            case [service, slot]:
                stored = msgspec.msgpack.decode(value, type=_StoredSlot)
                self.ledger.restore(service, slot, stored.record)
                if service in self.services:
                    for container, entry in stored.containers.items():
                        self.add(container, entry)
