"""How promises stand, as columns beside the tasks of a snapshot."""

from collections.abc import Sequence

import numpy as np

from collector.live.promises.book import PromiseBook
from collector.slo.standing import Standings
from collector.snapshot.promises import TaskPromises
from collector.snapshot.tables import NOWHERE


class PromiseRows:
    """The rows of containers and tasks in standings."""

    def __init__(self, standings: Standings, book: PromiseBook) -> None:
        self._standings, self._book = standings, book
        self._by_incarnation = dict(
            zip(standings.instances.incarnations, range(len(standings.instances.slots)), strict=True)
        )
        self._by_incarnation.pop("", None)

    def running(self, containers: Sequence[str]) -> TaskPromises:
        """Columns of containers, by id."""
        tracked, rows = self._book.containers, self._by_incarnation
        found = [
            NOWHERE if (entry := tracked.get(each)) is None else rows.get(entry.incarnation, NOWHERE)
            for each in containers
        ]
        return _columns(self._standings, found)

    def waiting(self, tasks: Sequence[str]) -> TaskPromises:
        """Columns of tasks that wait: pending ones, and stopped containers."""
        instances = self._standings.instances
        vacant = {
            (self._standings.services.names[instances.service[row]], instances.slots[row]): row
            for row in np.flatnonzero(~instances.is_running).tolist()
            if not instances.incarnations[row]
        }
        found = []
        for each in tasks:
            entry = self._book.containers.get(each)
            row = self._by_incarnation.get(each if entry is None else entry.incarnation, NOWHERE)
            if row == NOWHERE and entry is not None and entry.slot is not None:
                row = vacant.get((entry.service, entry.slot), NOWHERE)
            found.append(row)
        return _columns(self._standings, found)


def _columns(standings: Standings, found: Sequence[int]) -> TaskPromises:
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
