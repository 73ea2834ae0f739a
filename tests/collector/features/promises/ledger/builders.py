"""Events and ledgers for tests."""

from collections.abc import Iterable
from typing import Any

import msgspec

from collector.features.promises.ledger.events import Ending, LifecycleEvent, LifecycleKind
from collector.features.promises.ledger.ledger import Ledger
from collector.features.promises.ledger.promises import Promise, ServiceMode
from collector.features.promises.ledger.standing import Standings

GOLD = Promise(name="gold", availability=1.0, importance=1)
SILVER = Promise(name="silver", availability=0.9, importance=2)
BRONZE = Promise(name="bronze", availability=0.5, importance=3)
PROMISES = {each.name: each for each in (GOLD, SILVER, BRONZE)}


def waiting(at: float, incarnation: str, slot: str | None = "1", **more: Any) -> LifecycleEvent:
    return _event(LifecycleKind.WAITING, at, incarnation, slot, **more)


def started(at: float, incarnation: str, slot: str | None = "1", **more: Any) -> LifecycleEvent:
    return _event(LifecycleKind.STARTED, at, incarnation, slot, **more)


def ended(at: float, incarnation: str, slot: str | None = "1", **more: Any) -> LifecycleEvent:
    return _event(LifecycleKind.ENDED, at, incarnation, slot, **more)


def preempted(at: float, incarnation: str, slot: str | None = "1", **more: Any) -> LifecycleEvent:
    return ended(at, incarnation, slot, ending=Ending.PREEMPTED, **more)


def completed(at: float, incarnation: str, slot: str | None = "1", **more: Any) -> LifecycleEvent:
    return ended(at, incarnation, slot, ending=Ending.COMPLETED, **more)


def withdrawn(at: float, slot: str | None = "1", **more: Any) -> LifecycleEvent:
    return _event(LifecycleKind.WITHDRAWN, at, "", slot, **more)


def _event(kind: LifecycleKind, at: float, incarnation: str, slot: str | None, **more: Any) -> LifecycleEvent:
    more.setdefault("service", "web")
    return LifecycleEvent(at=at, kind=kind, incarnation=incarnation, slot=slot, **more)


def ledger_of(
    events: Iterable[LifecycleEvent],
    mode: ServiceMode = ServiceMode.INDEPENDENT,
    promise: str = "silver",
) -> Ledger:
    """A ledger in which all services have the same promise."""
    ledger = Ledger(PROMISES)
    for event in events:
        ledger.set_service(event.service, promise, mode)
        ledger.apply(event)
    return ledger


def by_slot(standings: Standings) -> dict[tuple[str, str], dict[str, Any]]:
    """The columns of each instance."""
    instances = standings.instances
    columns = vars(instances) | vars(instances.columns)
    columns = {name: columns[name] for name in columns.keys() - {"service", "columns", "promises", "waiting"}}
    return {
        (standings.names[service], instances.slots[row]): {
            name: column[row] for name, column in columns.items()
        }
        for row, service in enumerate(instances.service)
    }


def by_service(standings: Standings) -> dict[str, dict[str, Any]]:
    """The amounts of each service."""
    found = {each.service: msgspec.structs.asdict(each) for each in standings.services}
    # Rounding may decide between two states.
    return {
        name: {key: value for key, value in each.items() if key != "state"} for name, each in found.items()
    }
