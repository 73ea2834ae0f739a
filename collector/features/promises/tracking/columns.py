"""How promises stand, as columns next to the tasks of a snapshot."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from collector.common.arrays import Rows
from collector.features.promises.ledger.standing import Standings
from collector.features.promises.snapshot import TaskPromises, WaitingPromises, unpromised
from collector.features.promises.tracking.book import PromiseBook
from collector.snapshot.tables import NOWHERE


def read_promises(book: PromiseBook, containers: Sequence[str], now: float) -> TaskPromises | None:
    """Columns of containers, by id, and the promises of instances that wait; None without instances."""
    # These stay for long: taken first, they leave no gaps in the memory.
    columns = unpromised(tuple(book.promises.values()), len(containers))
    rows, waiting = _ledger_rows(book, containers), _WaitingInstances()
    # The last place is that of containers without a promise, whose row is `NOWHERE`.
    place = np.full(book.ledger.row_limit + 1, NOWHERE, dtype=np.intp)
    is_empty = True
    for standings, ledger_rows in book.ledger.blocks(now):
        block = columns_of(standings, np.arange(ledger_rows.size))
        waiting.add(standings, block)
        place[ledger_rows] = np.arange(ledger_rows.size)
        found = place[rows]
        columns.put(np.flatnonzero(found != NOWHERE), block.rows(found[found != NOWHERE]))
        place[ledger_rows] = NOWHERE
        is_empty = is_empty and not ledger_rows.size
    return None if is_empty else replace(columns, waiting=waiting.promises(book))


def _ledger_rows(book: PromiseBook, containers: Sequence[str]) -> Rows:
    """The rows of the instances that containers are the present incarnations of."""
    row_of, tracked = book.ledger.row_of, book.containers
    if not tracked:
        return np.full(len(containers), NOWHERE, dtype=np.intp)
    entries = (tracked.get(each) for each in containers)
    return np.fromiter(
        (
            NOWHERE if entry is None else row_of(entry.service, entry.slot, entry.incarnation)
            for entry in entries
        ),
        dtype=np.intp,
        count=len(containers),
    )


class _WaitingInstances:
    """The columns of instances that wait. The others are not kept, as there may be very many."""

    def __init__(self) -> None:
        self._columns: list[TaskPromises] = []
        self._count = 0
        self._by_incarnation: dict[str, int] = {}
        self._by_slot: dict[str, dict[str, int]] = {}

    def add(self, standings: Standings, columns: TaskPromises) -> None:
        """Add the instances of some services, with their columns."""
        instances = standings.instances
        waiting = np.flatnonzero(~instances.is_running)
        for place, row in enumerate(waiting.tolist(), self._count):
            if instances.incarnations[row]:
                self._by_incarnation[instances.incarnations[row]] = place
            service = standings.services.names[instances.service[row]]
            self._by_slot.setdefault(service, {})[instances.slots[row]] = place
        self._columns.append(columns.rows(waiting))
        self._count += waiting.size

    def promises(self, book: PromiseBook) -> WaitingPromises | None:
        """The promises of pending tasks and of stopped containers; None if no instance waits."""
        if not self._count:
            return None
        places = dict(self._by_incarnation)
        for service, of_slot in self._by_slot.items():
            for container in book.containers_of(service):
                slot = book.containers[container].slot
                if slot in of_slot:
                    places[container] = of_slot[slot]
        none = unpromised(self._columns[0].promises, 1)
        return WaitingPromises(places, TaskPromises.joined([*self._columns, none]))


def columns_of(standings: Standings, found: Sequence[int] | Rows) -> TaskPromises:
    """Columns of these rows of the instances; `NOWHERE` is a task without a promise."""
    instances = standings.instances
    rows = np.array(found, dtype=np.intp)
    is_promised = rows != NOWHERE
    # An empty table has no row to take: every task is then without a promise.
    taken = rows if instances.slots else rows[:0]

    def column(values: np.ndarray, default: float = 0.0) -> np.ndarray:
        chosen = np.full(rows.size, default, dtype=values.dtype)
        chosen[is_promised] = values[taken[is_promised]]
        return chosen

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
