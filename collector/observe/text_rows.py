"""A row for each of the texts that running containers have in common, such as the names of their services."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Numbers
from collector.observe.table import Table, column
from collector.snapshot.tables import NOWHERE


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
