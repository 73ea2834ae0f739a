"""Running tasks as a list that is filtered, searched and sorted, fast enough to search with every key press.

A list is rows and numbers; only the tasks of the requested page are looked up. It is best made in a thread:
numpy leaves the interpreter to others meanwhile.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from collector.common.arrays import Floats, Numbers, Rows

TaskOrder = Literal["name", "node", "service", "cpu", "memory", "disk", "network", "watts"]


@dataclass(frozen=True, slots=True)
class TaskList:
    """Rows of running tasks, by the names of their nodes, and what they are sorted by."""

    rows: Rows
    values: Floats | None
    """None keeps the order of `rows`."""
    changes: int
    """The last change of the texts of tasks that it has seen."""

    def at(self, places: Rows) -> "TaskList":
        """Only those at some places."""
        values = None if self.values is None else self.values[places]
        return TaskList(self.rows[places], values, self.changes)

    def page(self, places: range, *, reverse: bool = False) -> Rows:
        """The rows at some places of the sorted list; unknown values always come last.

        Equal ones stay in the order that they have.
        """
        if self.values is None:
            return self.rows[places.start : places.stop]
        return self.rows[sorted_places(self.values, places, reverse=reverse)]


def sorted_places(values: Floats, places: range, *, reverse: bool = False) -> Rows:
    """What `np.argsort` returns at some places, without sorting the others."""
    if not places:
        return np.zeros(0, dtype=np.intp)
    keys = _sort_keys(-values if reverse else values)
    low, high = np.partition(keys, (places[0], places[-1]))[[places[0], places[-1]]]
    some = np.flatnonzero((keys >= low) & (keys <= high))
    before = int(np.count_nonzero(keys < low))
    ordered = some[np.argsort(keys[some], kind="stable")]
    return ordered[places.start - before : places.stop - before]


def _sort_keys(values: Floats) -> Numbers:
    """Whole numbers in the order of the values, without exceptions: NaN is the last."""
    # Adding zero leaves one kind of zero.
    bits = (values + 0.0).view(np.int64)
    keys = bits ^ ((bits >> 63) & np.iinfo(np.int64).max)
    keys[np.isnan(values)] = np.iinfo(np.int64).max
    return keys
