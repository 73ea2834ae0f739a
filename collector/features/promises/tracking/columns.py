"""How promises stand, as columns next to the tasks of a snapshot."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from collector.common.arrays import Rows
from collector.features.promises.ledger.standing import Standings
from collector.features.promises.snapshot import TaskPromises, WaitingPromises
from collector.features.promises.tracking.book import PromiseBook
from collector.snapshot.tables import NOWHERE


def read_promises(book: PromiseBook, containers: Sequence[str], now: float) -> TaskPromises | None:
    """Columns of containers, by id, and the promises of instances that wait; None without instances."""
    standings = book.ledger.standings(now)
    instances = standings.instances
    services = [standings.services.names[row] for row in instances.service.tolist()]
    if not services:
        return None
    place = dict(zip(zip(services, instances.incarnations, strict=True), range(len(services)), strict=True))
    entries = (book.containers.get(each) for each in containers)
    found = [
        NOWHERE if each is None else place.get((each.service, each.incarnation), NOWHERE) for each in entries
    ]
    return replace(columns_of(standings, found), waiting=_waiting(book, standings, services))


def _waiting(book: PromiseBook, standings: Standings, services: Sequence[str]) -> WaitingPromises | None:
    """The promises of pending tasks and of stopped containers; None if no instance waits."""
    instances = standings.instances
    waiting = np.flatnonzero(~instances.is_running).tolist()
    if not waiting:
        return None
    places: dict[str, int] = {}
    by_slot: dict[str, dict[str | None, int]] = {}
    for place, row in enumerate(waiting):
        if instances.incarnations[row]:
            places[instances.incarnations[row]] = place
        by_slot.setdefault(services[row], {})[instances.slots[row]] = place
    for service, of_slot in by_slot.items():
        for container in book.containers_of(service):
            slot = book.containers[container].slot
            if slot in of_slot:
                places[container] = of_slot[slot]
    return WaitingPromises(places, columns_of(standings, [*waiting, NOWHERE]))


def columns_of(standings: Standings, found: Sequence[int] | Rows) -> TaskPromises:
    """Columns of these rows of the instances; `NOWHERE` is a task without a promise."""
    instances = standings.instances
    rows = np.array(found, dtype=np.intp)

    def column(values: np.ndarray, default: float = 0.0) -> np.ndarray:
        # The last place is that of tasks without a promise.
        return np.append(values, values.dtype.type(default))[rows]

    return TaskPromises(
        promises=standings.promises,
        promise=column(standings.services.promise[instances.service], NOWHERE),
        slack_seconds=column(instances.slack_seconds, np.nan),
        preemption_ratio=column(instances.preemption_ratio),
        startup_seconds=column(instances.startup_seconds),
        waited_seconds=column(instances.waited_seconds),
        admitted_seconds=column(standings.at - instances.admitted),
        is_spare=column(instances.is_spare),
    )
