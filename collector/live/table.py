"""Tables that grow: columns of numpy, rows that are used again, and the order of their names.

A table's columns are a dataclass of arrays. One of a single row, the *blank*, says how an unused row looks;
everything else follows from it.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from collector.snapshot.power_curves import Rows

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Columns = TypeVar("Columns", bound="DataclassInstance")
else:
    Columns = TypeVar("Columns")
_FIRST_SIZE = 64


class Table(Generic[Columns]):
    """Columns with a name for each row that is in use. Not for several threads at once."""

    def __init__(self, blank: Columns) -> None:
        self._blank = blank
        self._free: list[int] = []
        self._touched: set[int] = set()
        self._order: Rows = np.zeros(0, dtype=np.intp)
        self._names: NDArray[Any] = np.full(0, None, dtype=np.object_)
        self.size = 0
        self.version = 0
        """Grows whenever a row comes, goes or is renamed."""
        self.columns = blank
        self._grow(_FIRST_SIZE)

    def enter(self, name: str) -> int:
        """A blank row for a name that is not there yet."""
        if not self._free:
            self._grow(2 * self.size)
        row = self._free.pop()
        self.rename(row, name)
        return row

    def rename(self, row: int, name: str) -> None:
        """Let a row stand where another name belongs."""
        self._names[row] = name
        self._touched.add(row)
        self.version += 1

    def leave(self, row: int) -> None:
        """Give a row back, blank."""
        for name, column in _arrays(self.columns):
            column[row] = getattr(self._blank, name)[0]
        self._names[row] = None
        self._touched.add(row)
        self._free.append(row)
        self.version += 1

    def order(self) -> Rows:
        """The rows in use by name.

        Costs what came and went, and one pass of numpy over the rest.
        """
        if self._touched:
            names = self._names
            left = self._order[~np.isin(self._order, list(self._touched))]
            new = sorted((name, row) for row in self._touched if (name := names[row]) is not None)
            # Looking for a place among none takes no time, but doing so for everyone at first would.
            places = [bisect_left(left, name, key=names.__getitem__) for name, _ in new] if left.size else 0
            self._order = np.insert(left, places, [row for _, row in new])
            self._touched.clear()
        return self._order

    def names(self, rows: Rows) -> tuple[str, ...]:
        """What rows in use are called."""
        return tuple(self._names[rows].tolist())

    def _grow(self, size: int) -> None:
        self.columns = grown(self.columns, self._blank, self.size, size)
        self._names = np.concatenate([self._names, np.full(size - self.size, None, dtype=np.object_)])
        self._free += range(size - 1, self.size - 1, -1)
        self.size = size


def grown(columns: Columns, blank: Columns, size: int, new_size: int) -> Columns:
    """The same first rows, and blank ones after them."""
    more = {
        name: np.concatenate([column[:size], np.repeat(getattr(blank, name), new_size - size, axis=0)])
        for name, column in _arrays(columns)
    }
    return type(columns)(**more)


def gather(columns: Columns, rows: Rows) -> Columns:
    """A copy of some rows, in this order."""
    return type(columns)(**{name: column.take(rows, axis=0) for name, column in _arrays(columns)})


def places(order: Rows, size: int) -> Rows:
    """Where each of a table's rows stands in an order; -1 where it does not."""
    found = np.full(size, -1, dtype=np.intp)
    found[order] = np.arange(order.size)
    return found


def _arrays(columns: "DataclassInstance") -> Iterable[tuple[str, NDArray[Any]]]:
    return ((field.name, getattr(columns, field.name)) for field in fields(columns))
