"""The ledger as values of the history: one per service and per instance, so that only changes are written."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from collector.features.promises.ledger.instances import Record
from collector.features.promises.tracking.book import PromiseBook, TrackedContainer, TrackedService

log = logging.getLogger(__name__)


class StoredSlot(msgspec.Struct, frozen=True):
    """An instance, and its containers by id."""

    record: Record
    containers: dict[str, TrackedContainer]


_services = msgspec.msgpack.Decoder(TrackedService)
_slots = msgspec.msgpack.Decoder(StoredSlot)


def _key(*names: str) -> str:
    """The key of the value of a service, or of a slot of a service."""
    return msgspec.json.encode(names).decode()


def pack_changes(book: PromiseBook) -> dict[str, bytes | None]:
    """The values that changed since the last call; None for what is gone."""
    values: dict[str, TrackedService | StoredSlot | None] = {
        _key(name): book.services.get(name) for name in book.changed_services
    }
    for name, slots in book.changed_slots.items():
        containers: defaultdict[str | None, dict[str, TrackedContainer]] = defaultdict(dict)
        for container in book.containers_of(name):
            entry = book.containers[container]
            containers[entry.slot][container] = entry
        for slot in slots:
            record = book.ledger.record(name, slot)
            values[_key(name, slot)] = None if record is None else StoredSlot(record, containers[slot])
    book.changed_services.clear()
    book.changed_slots.clear()
    return {key: None if value is None else msgspec.msgpack.encode(value) for key, value in values.items()}


def requeue(book: PromiseBook, keys: Iterable[str]) -> None:
    """Values that could not be stored: the next call of `pack_changes` returns them again."""
    for key in keys:
        match msgspec.json.decode(key, type=list[str]):
            case [service]:
                book.changed_services.add(service)
            case [service, slot]:
                book.changed_slots[service].add(slot)


def restore(book: PromiseBook, values: Mapping[str, bytes]) -> None:
    """Restore stored values into an empty book. A value that is not valid is left out."""
    keys = [(msgspec.json.decode(key, type=list[str]), value) for key, value in values.items()]
    for key, value in sorted(keys, key=lambda each: len(each[0])):
        try:
            _restore_value(book, key, value)
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            log.warning("left out a stored promise of %s that is not valid: %s", key, error)
    book.changed_services.clear()
    book.changed_slots.clear()


def _restore_value(book: PromiseBook, key: list[str], value: bytes) -> None:
    match key:
        case [service]:
            book.set_service(service, _services.decode(value))
        case [service, slot]:
            stored = _slots.decode(value)
            book.ledger.restore(service, slot, stored.record)
            if service in book.services:
                for container, entry in stored.containers.items():
                    book.add(container, entry)
