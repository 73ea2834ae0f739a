"""Tables that grow: numpy columns, reused rows, and the rows sorted by name.

The columns of a table are a dataclass of arrays. Its defaults are the *blank*, a single row, which defines
the types of the columns and the values of an unused row.
"""

from bisect import bisect_left
from dataclasses import field, fields
from typing import Any, Generic

import numpy as np
from numpy.typing import DTypeLike, NDArray

from collector.common.arrays import Rows
from collector.snapshot.columns import Columns
from wire.resources import RESOURCES

_FIRST_SIZE = 64
_MOST_TOUCHED = 1000
"""Names that are sorted at once: all names of a large cluster at the first question would take a second."""


def column(blank: object = np.nan, dtype: DTypeLike = np.float64, width: int | None = None) -> Any:  # noqa: ANN401 - a field
    """A column with one value per row, or with `width` of them."""
    shape = 1 if width is None else (1, width)
    return field(default_factory=lambda: np.full(shape, blank, dtype=dtype))


def resources(blank: object = np.nan, dtype: DTypeLike = np.float64) -> Any:  # noqa: ANN401 - a field
    """A column with one value per row and resource."""
    return column(blank, dtype, len(RESOURCES))


class Table(Generic[Columns]):
    """Columns, and a name for each row in use. Not thread-safe."""

    def __init__(self, blank: Columns) -> None:
        self._blank = blank
        self._free: list[int] = []
        self._touched: set[int] = set()
        self._order: Rows = np.zeros(0, dtype=np.intp)
        self._names: NDArray[Any] = np.full(0, None, dtype=np.object_)
        self.size = 0
        self.version = 0
        """Incremented when a row is added, removed or renamed."""
        self.columns = blank
        self._grow(_FIRST_SIZE)

    def add(self, name: str) -> int:
        """A blank row for a new name."""
        if not self._free:
            self._grow(2 * self.size)
        row = self._free.pop()
        self.rename(row, name)
        return row

    def rename(self, row: int, name: str) -> None:
        self._names[row] = name
        self._touched.add(row)
        self.version += 1
        if len(self._touched) >= _MOST_TOUCHED:
            self.order()

    def remove(self, row: int) -> None:
        """Blank a row, and free it for reuse."""
        for column, blank in self._blanks:
            column[row] = blank
        self._names[row] = None
        self._touched.add(row)
        self._free.append(row)
        self.version += 1

    def order(self) -> Rows:
        """The rows in use, sorted by name.

        Only rows that changed are sorted; the others keep their order.
        """
        if self._touched:
            names = self._names
            is_kept = np.ones(self.size, dtype=np.bool_)
            is_kept[list(self._touched)] = False
            kept = self._order[is_kept[self._order]]
            new = sorted((name, row) for row in self._touched if (name := names[row]) is not None)
            places = [bisect_left(kept, name, key=names.__getitem__) for name, _ in new] if kept.size else 0
            self._order = np.insert(kept, places, [row for _, row in new])
            self._touched.clear()
        return self._order

    def names(self, rows: Rows | list[int]) -> tuple[str, ...]:
        return tuple(self._names[rows].tolist())

    def _grow(self, size: int) -> None:
        more, names = size - self.size, [each.name for each in fields(self._blank)]
        blanks = {name: getattr(self._blank, name) for name in names}
        kept = {name: getattr(self.columns, name)[: self.size] for name in names}
        grown = {name: np.concatenate([kept[name], np.repeat(blanks[name], more, axis=0)]) for name in names}
        self.columns = type(self._blank)(**grown)
        self._blanks = [(grown[name], blanks[name][0]) for name in names]
        self._names = np.concatenate([self._names, np.full(more, None, dtype=np.object_)])
        self._free += range(size - 1, self.size - 1, -1)
        self.size = size


def places(order: Rows, size: int) -> Rows:
    """The place of each row of a table in an order; -1 for rows that are not in it."""
    found = np.full(size, -1, dtype=np.intp)
    found[order] = np.arange(order.size)
    return found
