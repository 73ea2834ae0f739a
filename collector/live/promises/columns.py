"""How promises stand, as columns beside the tasks of a snapshot."""

from collections.abc import Sequence

import numpy as np

from collector.live.promises.book import PromiseBook
from collector.slo.standing import Rows, Standings
from collector.snapshot.promises import TaskPromises
from collector.snapshot.tables import NOWHERE


def running_promises(standings: Standings, book: PromiseBook, containers: Sequence[str]) -> TaskPromises:
    """Columns of containers, by id."""
    instances = standings.instances
    rows = dict(zip(instances.incarnations, range(len(instances.slots)), strict=True))
    rows.pop("", None)
    tracked = book.containers
    found = [
        NOWHERE if (entry := tracked.get(each)) is None else rows.get(entry.incarnation, NOWHERE)
        for each in containers
    ]
    return columns_of(standings, found)


class WaitingPromises:
    """The promises of instances that wait. The others are not kept, as there may be very many."""

    def __init__(self, standings: Standings) -> None:
        instances = standings.instances
        waiting = np.flatnonzero(~instances.is_running)
        self._columns = columns_of(standings, waiting)
        self._blank = columns_of(standings, [NOWHERE])
        self._by_incarnation: dict[str, int] = {}
        self._by_slot: dict[tuple[str, str], int] = {}
        for place, row in enumerate(waiting.tolist()):
            if instances.incarnations[row]:
                self._by_incarnation[instances.incarnations[row]] = place
            service = standings.services.names[instances.service[row]]
            self._by_slot[service, instances.slots[row]] = place

    def columns(self, book: PromiseBook, tasks: Sequence[str]) -> TaskPromises:
        """Columns of tasks by id: pending ones, and stopped containers."""
        rows = np.array([self._find(book, each) for each in tasks], dtype=np.intp)
        # The last row is that of tasks without a promise.
        return self._columns.followed_by(self._blank).rows(rows)

    def _find(self, book: PromiseBook, task: str) -> int:
        entry = book.containers.get(task)
        if entry is None or entry.slot is None:
            return self._by_incarnation.get(task, NOWHERE)
        return self._by_slot.get((entry.service, entry.slot), NOWHERE)


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
