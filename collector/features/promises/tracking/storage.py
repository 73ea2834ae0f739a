"""The ledger as values of the history: one per service and per instance, so that only changes are written."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from collector.features.promises.labels import PromiseTraits
from collector.features.promises.ledger.instances import StoredInstance
from collector.features.promises.tracking.book import PromiseBook, TrackedContainer, TrackedService

log = logging.getLogger(__name__)


class StoredService(msgspec.Struct, frozen=True):
    """A service with a promise."""

    traits: PromiseTraits
    is_orchestrated: bool
    pending: frozenset[str]


class StoredSlot(msgspec.Struct, frozen=True):
    """An instance, and its containers by id."""

    instance: StoredInstance
    containers: dict[str, TrackedContainer]


_services = msgspec.msgpack.Decoder(StoredService)
_slots = msgspec.msgpack.Decoder(StoredSlot)


def service_key(service: str) -> str:
    """The key of the value of a service."""
    return msgspec.json.encode([service]).decode()


def instance_key(service: str, slot: str) -> str:
    """The key of the value of an instance."""
    return msgspec.json.encode([service, slot]).decode()


def pack_changes(book: PromiseBook) -> dict[str, bytes | None]:
    """The values that changed since the last call; None for what is gone."""
    values: dict[str, bytes | None] = {}
    for name in book.changed_services:
        service = book.service(name)
        values[service_key(name)] = None if service is None else _packed_service(book, name, service)
    for name, slots in book.changed_slots.items():
        containers = _by_slot(book, name)
        for slot in slots:
            stored = book.ledger.stored(name, slot)
            values[instance_key(name, slot)] = (
                None
                if stored is None
                else msgspec.msgpack.encode(StoredSlot(stored, containers.get(slot, {})))
            )
    book.changed_services.clear()
    book.changed_slots.clear()
    return values


def _packed_service(book: PromiseBook, name: str, service: TrackedService) -> bytes:
    stored = StoredService(book.service_traits(name), service.is_orchestrated, service.pending)
    return msgspec.msgpack.encode(stored)


def _by_slot(book: PromiseBook, service: str) -> Mapping[str, dict[str, TrackedContainer]]:
    found: defaultdict[str, dict[str, TrackedContainer]] = defaultdict(dict)
    for container in book.containers_of(service):
        entry = book.containers[container]
        if entry.slot is not None:
            found[entry.slot][container] = entry
    return found


def requeue(book: PromiseBook, values: Iterable[str]) -> None:
    """Values that could not be stored: the next call of `pack_changes` returns them again."""
    for key in values:
        match msgspec.json.decode(key, type=list[str]):
            case [service]:
                book.changed_services.add(service)
            case [service, slot]:
                book.changed_slots[service][slot] = None


def restore(book: PromiseBook, values: Mapping[str, bytes]) -> None:
    """Restore stored values into an empty book. A value that is not valid is left out."""
    keys = [(msgspec.json.decode(key, type=list[str]), value) for key, value in values.items()]
    for key, value in sorted(keys, key=lambda each: len(each[0])):
        try:
            match key:
                case [service]:
                    stored = _services.decode(value)
                    book.set_service(service, stored.traits, is_orchestrated=stored.is_orchestrated)
                    book.set_pending(service, stored.pending)
                case [service, _]:
                    slot = _slots.decode(value)
                    book.ledger.restore(slot.instance)
                    for container, entry in slot.containers.items():
                        if book.service(service) is not None:
                            book.add(container, entry)
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            log.warning("left out a stored promise of %s that is not valid: %s", key, error)
    book.changed_services.clear()
    book.changed_slots.clear()
