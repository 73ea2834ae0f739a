"""How the promises of the tasks of a snapshot stand."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.features.promises.ledger.promises import Promise
from collector.snapshot.parts import SnapshotPart

NO_PROMISE = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskPromises(SnapshotPart):
    """More columns of `Tasks`: one row per task, waiting tasks included.

    A task without a promise has no place in the queue and is never stopped for another one.
    """

    promises: tuple[Promise, ...]
    """The classes."""
    promise: Codes
    """The class of each task, as a place in `promises`; `NO_PROMISE` without one."""
    slack_seconds: Floats
    """How long it can wait from now on before its promise breaks; negative if it is broken: the time by which
    it is behind. The expected start-up time is taken off. NaN without a promise, infinite if waiting never
    breaks it."""
    preemption_ratio: Floats
    """Share of its time that it spent starting again after it was stopped for others."""
    startup_seconds: Floats
    """Expected time that a start takes on another node."""
    admitted_seconds: Floats
    """Time since its first incarnation was created."""
    is_spare: Flags
    """Whether its running time does not count now: its service is concurrent, and a sibling waits."""
    waiting: "WaitingPromises | None" = None
    """Promises of tasks that wait and have no row; None if there are none, or if they are not known."""

    def rows(self, rows: Sequence[int] | Rows) -> "TaskPromises":
        """These rows of all columns."""
        places = np.array(rows, dtype=np.intp)
        columns: dict[str, Any] = {name: getattr(self, name)[places] for name in COLUMNS}
        return replace(self, **columns)

    def followed_by(self, other: "TaskPromises") -> "TaskPromises":
        """These rows, and others with the same classes."""
        columns: dict[str, Any] = {
            name: np.concatenate((getattr(self, name), getattr(other, name))) for name in COLUMNS
        }
        return replace(self, **columns)

    def with_waiting(self, tasks: Sequence[str]) -> "TaskPromises":
        """These rows, followed by those of waiting tasks."""
        return self.followed_by(self._of_waiting(tasks))

    def decides_about(self, tasks: Sequence[str]) -> Collection[str]:
        """Those of these waiting tasks that have a promise."""
        promised = self._of_waiting(tasks).decided()
        return [task for task, is_promised in zip(tasks, promised.tolist(), strict=True) if is_promised]

    def decided(self) -> Flags:
        """The tasks with a promise."""
        is_promised: Flags = self.promise != NO_PROMISE
        return is_promised

    def _of_waiting(self, tasks: Sequence[str]) -> "TaskPromises":
        if self.waiting is None:
            return unpromised(self.promises, len(tasks))
        return self.waiting.columns.rows([self.waiting.places.get(each, NO_PROMISE) for each in tasks])


@dataclass(frozen=True, eq=False)
class WaitingPromises:
    """The promises of tasks that wait."""

    places: Mapping[str, int]
    """The row of each task, by its id."""
    columns: TaskPromises
    """The last row is that of a task without a promise."""


COLUMNS = tuple(each.name for each in fields(TaskPromises) if each.name not in {"promises", "waiting"})


def unpromised(promises: tuple[Promise, ...], count: int) -> TaskPromises:
    """The columns of tasks without a promise."""
    return TaskPromises(
        promises=promises,
        promise=np.full(count, NO_PROMISE, dtype=np.int8),
        slack_seconds=np.full(count, np.nan),
        preemption_ratio=np.zeros(count),
        startup_seconds=np.zeros(count),
        admitted_seconds=np.zeros(count),
        is_spare=np.zeros(count, dtype=np.bool_),
    )


PARTS = (TaskPromises,)
