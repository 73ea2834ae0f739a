"""The windows of tasks in a snapshot: put together on first use."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Rows
from wire.resources import RESOURCES

Amounts = NDArray[np.float32]


class WindowTotals(NamedTuple):
    """Sums over the windows of each task, per resource; column-major."""

    length: int
    """Number of windows, from the first one that any task has."""
    known: NDArray[np.float64]
    """Number of windows that are known."""
    sums: NDArray[np.float64]
    """The sum of those."""


class TaskWindows:
    """Amounts used in buckets of five minutes, the same for all tasks.

    A large cluster has tens of megabytes of them, and few policies read them: a snapshot refers to the
    buckets of the live tables, which no longer change, and copies them only if they are read.
    """

    def __init__(self, buckets: Sequence[Amounts | None], rows: Rows) -> None:
        """`buckets` has one array per bucket, the oldest first, with the given row of each task.

        None is a bucket in which nothing is known; neither are rows that an array does not have.
        """
        self._buckets, self._rows = buckets, rows

    @classmethod
    def of(cls, amounts: Amounts) -> "TaskWindows":
        """From one plane per task, its rows from the oldest bucket to the newest."""
        return cls([amounts[:, bucket] for bucket in range(amounts.shape[1])], np.arange(len(amounts)))

    def __len__(self) -> int:
        return len(self._buckets)

    def columns(self) -> dict[str, Any]:
        """The rows, and the buckets by number, as they are."""
        return {"rows": self._rows} | {str(number): each for number, each in enumerate(self._buckets)}

    @cached_property
    def amounts(self) -> Amounts:
        """One plane per task, its rows from the oldest bucket to the newest; NaN is unknown."""
        rows = self._rows
        amounts = np.full((rows.size, len(self._buckets), len(RESOURCES)), np.nan, np.float32)
        highest = int(rows.max(initial=-1))
        for place, bucket in enumerate(self._buckets):
            if bucket is None:
                continue
            if highest < len(bucket):
                amounts[:, place] = bucket.take(rows, axis=0)
            else:
                some = np.flatnonzero(rows < len(bucket))
                amounts[some, place] = bucket[rows[some]]
        return amounts

    def of_tasks(self, tasks: Rows) -> Amounts:
        """The windows of some tasks: one plane each."""
        return TaskWindows(self._buckets, self._rows[tasks]).amounts

    @cached_property
    def totals(self) -> WindowTotals:
        """Sums of each task, without a copy of all windows."""
        known, sums = (np.zeros((len(RESOURCES), self._rows.size)) for _ in range(2))
        length = 0
        for place, bucket in enumerate(self._buckets):
            if bucket is None:
                continue
            amounts = np.ascontiguousarray(TaskWindows([bucket], self._rows).amounts[:, 0].T)
            is_known = ~np.isnan(amounts)
            if not length and is_known.any():
                length = len(self._buckets) - place
            known += is_known
            np.add(sums, amounts, out=sums, where=is_known)
        return WindowTotals(length, known.T, sums.T)

    def followed_by_unknown(self, count: int) -> "TaskWindows":
        """The same with more tasks, of which nothing is known."""
        unknown = np.full(count, np.iinfo(np.intp).max, dtype=np.intp)
        return TaskWindows(self._buckets, np.concatenate((self._rows, unknown)))
