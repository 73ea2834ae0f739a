"""How the promises of the tasks of a snapshot stand."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Codes, Flags, Floats
from collector.slo.promises import Promise

NO_PROMISE = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskPromises:
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
    waited_seconds: Floats
    """Time since it began to wait; 0 for one that runs."""
    admitted_seconds: Floats
    """Time since its first incarnation was created."""
    is_spare: Flags
    """Whether its running time does not count now: its service is concurrent, and a sibling waits."""

    def rows(self, rows: NDArray[np.intp]) -> "TaskPromises":
        """Some rows of all columns."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, **columns)

    def followed_by(self, more: "TaskPromises") -> "TaskPromises":
        """These rows, followed by others with the same classes."""
        return TaskPromises.joined((self, more))

    def put(self, rows: NDArray[np.intp], values: "TaskPromises") -> None:
        """Set some rows, in place: only before the columns are shared."""
        for name in _COLUMNS:
            getattr(self, name)[rows] = getattr(values, name)

    @staticmethod
    def joined(parts: Sequence["TaskPromises"]) -> "TaskPromises":
        """The rows of one or more parts with the same classes."""
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(each, name) for each in parts]) for name in _COLUMNS
        }
        return replace(parts[0], **columns)


_COLUMNS = tuple(each.name for each in fields(TaskPromises) if each.name != "promises")


def unpromised(promises: tuple[Promise, ...], count: int) -> TaskPromises:
    """The columns of tasks without a promise."""
    return TaskPromises(
        promises=promises,
        promise=np.full(count, NO_PROMISE, dtype=np.int8),
        slack_seconds=np.full(count, np.nan),
        preemption_ratio=np.zeros(count),
        startup_seconds=np.zeros(count),
        waited_seconds=np.zeros(count),
        admitted_seconds=np.zeros(count),
        is_spare=np.zeros(count, dtype=np.bool_),
    )
