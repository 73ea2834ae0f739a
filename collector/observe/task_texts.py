"""The texts of tasks: what lists are sorted by, and what a search looks at.

Numpy compares bytes of a fixed width without holding up others. What a search found is kept: only tasks that
changed since are searched again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Flags, Numbers, Rows
from collector.observe.table import Table, column, places
from collector.snapshot.tables import NOWHERE
from wire.messages import ContainerState

_SEARCH_BYTES = 192
"""Width of the searched texts. Longer ones take ten times as long, and are kept aside."""
ORDER_TEXTS = ("name", "node", "service")
_ROWS_AT_ONCE = 1 << 14
_MOST_FOUND = 16


@dataclass(slots=True)
class TaskCount:
    """How many containers have the text of a row."""

    tasks: Numbers = column(0, np.int64)


class TextRows:
    """A row for each text that a running container has."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self.table = Table(TaskCount())

    def acquire(self, text: str | None) -> int:
        """The row of a text, for one more container."""
        if text is None:
            return NOWHERE
        row = self._rows.get(text)
        if row is None:
            row = self._rows[text] = self.table.add(text)
        self.table.columns.tasks[row] += 1
        return row

    def rows(self, texts: Iterable[str]) -> list[int]:
        return [row for text in texts if (row := self._rows.get(text)) is not None]

    def release(self, text: str) -> bool:
        """A container with a text ended; with the last one, the row is freed. Returns whether it is."""
        row = self._rows[text]
        self.table.columns.tasks[row] -= 1
        if self.table.columns.tasks[row]:
            return False
        del self._rows[text]
        self.table.remove(row)
        return True


@dataclass(slots=True)
class _Columns:
    """One row per task."""

    order: Rows = column(NOWHERE, np.intp, len(ORDER_TEXTS))
    """Rows of its `ORDER_TEXTS`."""
    search: NDArray[Any] = column(b"", f"S{_SEARCH_BYTES}")
    """What a search looks at; empty if it is longer."""
    change: Numbers = column(0, np.int64)
    """The number of the change that wrote or removed this row."""


@dataclass(slots=True)
class _Found:
    """Which rows contain a text, as of a change, once no row is due."""

    matching: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    change: int = 0
    due: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


class TaskTexts:
    """The texts of every running task, by its row. Not thread-safe."""

    def __init__(self) -> None:
        self._columns = _Columns()
        self._texts = TextRows()
        self._long: dict[int, str] = {}
        """The searched texts that the column does not hold."""
        self._found: dict[str, _Found] = {}
        """The last searches."""
        self.changes = 0

    def put(self, row: int, node: str, state: ContainerState) -> None:
        """Write the texts of a task."""
        self._grow(row)
        searched = "\n".join((state.name, state.service or "", state.image or "", node, state.id)).casefold()
        order = [
            self._texts.acquire(None if each is None else each.casefold())
            for each in (state.name, node, state.service)
        ]
        earlier = self._columns.order[row].tolist()
        if earlier[0] != NOWHERE:
            self._release(earlier)
        if order != earlier or self._searched(row) != searched:
            self._columns.order[row] = order
            self._put_searched(row, searched)
            self._note_change(row)

    def _searched(self, row: int) -> str:
        return self._long.get(row) or self._columns.search[row].decode(errors="surrogatepass")

    def _put_searched(self, row: int, text: str) -> None:
        encoded = _encoded(text)
        # Numpy takes a zero for the end of a text.
        is_long = len(encoded) > _SEARCH_BYTES or b"\0" in encoded
        self._columns.search[row] = b"" if is_long else encoded
        self._long.pop(row, None)
        if is_long:
            self._long[row] = text

    def drop(self, row: int) -> None:
        """Remove the texts of a task that ended."""
        self._release(self._columns.order[row].tolist())
        self._columns.order[row] = NOWHERE
        self._put_searched(row, "")
        self._note_change(row)

    def unchanged(self, rows: Rows, changes: int) -> Flags:
        """Which of these rows have no later change."""
        return self._columns.change[rows] <= changes

    def ranks(self, text: str, rows: Rows) -> Rows:
        """For some rows, the place of one of their `ORDER_TEXTS` among all, in any case; -1 without it."""
        table: Table[Any] = self._texts.table
        ranks = np.append(places(table.order(), table.size), NOWHERE)
        of_task: Rows = self._columns.order[:, ORDER_TEXTS.index(text)]
        found: Rows = ranks[of_task[rows]]
        return found

    def search(self, text: str) -> Flags | None:
        """Which rows contain a text, in any case; None if more is to be searched than at once: call again."""
        part = text.casefold()
        found = self._found[part] = self._found.pop(part, _Found())
        if len(self._found) > _MOST_FOUND:
            del self._found[next(iter(self._found))]
        if not found.due.size:
            found.due, found.change = np.flatnonzero(self._columns.change > found.change), self.changes
        now, found.due = found.due[:_ROWS_AT_ONCE], found.due[_ROWS_AT_ONCE:]
        self._search(part, found, now)
        return None if found.due.size or found.change != self.changes else found.matching

    def _search(self, part: str, found: _Found, rows: Rows) -> None:
        if more := self._columns.change.size - found.matching.size:
            found.matching = np.append(found.matching, np.zeros(more, dtype=np.bool_))
        is_stored = "\0" not in part
        texts = self._columns.search[rows]
        found.matching[rows] = is_stored and np.strings.find(texts, np.bytes_(_encoded(part))) >= 0
        if self._long:
            for row in np.intersect1d(rows, list(self._long)).tolist():
                found.matching[row] = part in self._long[row]

    def _note_change(self, row: int) -> None:
        self.changes += 1
        self._columns.change[row] = self.changes

    def _release(self, rows: list[int]) -> None:
        for text in self._texts.table.names([row for row in rows if row != NOWHERE]):
            self._texts.release(text)

    def _grow(self, row: int) -> None:
        columns = self._columns
        if row < (size := columns.change.size):
            return
        # Zeros take no memory until they are overwritten.
        grown = [
            np.zeros((2 * (row + 1), *each.shape[1:]), each.dtype)
            for each in (columns.order, columns.search, columns.change)
        ]
        self._columns = _Columns(*grown)
        self._columns.order[size:] = NOWHERE
        for before, now in zip((columns.order, columns.search, columns.change), grown, strict=True):
            now[:size] = before


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
