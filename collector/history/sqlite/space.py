"""How much space each node takes, and whose data goes first when space runs out.

Raw reports are counted in cells: one node in one hour. The cell with the most data goes first, and the oldest
of those with about as much. So a node that floods the history loses its own flood before any other loses a
report: it can keep no more per hour than others do.

The same holds for containers, whose names, labels and accounts
outlive the reports: the node with the most loses its oldest, once they take more than its share of the file.
"""

import sqlite3
from collections import defaultdict
from math import log2
from typing import NamedTuple

_HOUR_SECONDS = 3600.0
FORGET_BATCH = 5000
"""Containers that are forgotten at once."""
_CONTAINER_BYTES, _INDEXED = 600, 2
"""About what a container takes with its accounts and index entries. Its names and labels are indexed too."""


class Cell(NamedTuple):
    """The reports of a node in one hour, by the time of their receipt."""

    node_id: int
    hour: int


class StoredReport(NamedTuple):
    """A row of `reports`."""

    id: int
    node_id: int
    received_at: float
    size: int


class SpaceAccounts:
    """Bytes of raw reports, by node and hour."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._cells: defaultdict[Cell, int] = defaultdict(int)
        for node_id, hour, size in connection.execute(_CELLS, (_HOUR_SECONDS,)):
            self._cells[Cell(node_id, hour)] += size

    def add(self, node_id: int, received_at: float, size: int) -> None:
        """Count a report; one that is deleted has a negative size."""
        cell = Cell(node_id, int(received_at // _HOUR_SECONDS))
        self._cells[cell] += size
        if self._cells[cell] <= 0:
            del self._cells[cell]

    def first_to_go(self, limit: int) -> list[StoredReport]:
        """Reports of the cell with the most data, by powers of two; the oldest of those with as much."""
        while self._cells:
            cell = max(self._cells, key=self._rank)
            begin = cell.hour * _HOUR_SECONDS
            given = (cell.node_id, begin, begin + _HOUR_SECONDS, limit)
            if found := self._connection.execute(_OF_CELL, given).fetchall():
                return [StoredReport(*row) for row in found]
            del self._cells[cell]
        return []

    def _rank(self, cell: Cell) -> tuple[int, int]:
        return round(log2(max(1, self._cells[cell]))), -cell.hour


def crowded_node(connection: sqlite3.Connection, share_bytes: float) -> int | None:
    """The node whose containers take the most space, if that is more than its share."""
    found = connection.execute(_CONTAINERS).fetchall()
    sizes = {node_id: count * _CONTAINER_BYTES + _INDEXED * (facts or 0) for node_id, count, facts in found}
    node_id = max(sizes, key=lambda each: sizes[each], default=None)
    return node_id if node_id is not None and sizes[node_id] > share_bytes else None


def forget_containers(connection: sqlite3.Connection, node_id: int) -> int:
    """Delete containers of a node that it reported longest ago, with their accounts; returns how many.

    At most half: those that run are the latest.
    """
    (count,) = connection.execute("SELECT count(*) FROM containers WHERE node_id = ?", (node_id,)).fetchone()
    old = connection.execute(_OLDEST, (node_id, min(FORGET_BATCH, count // 2))).fetchall()
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS forgotten (id INTEGER PRIMARY KEY, facts_id INTEGER)")
    connection.execute("DELETE FROM forgotten")
    connection.executemany("INSERT INTO forgotten VALUES (?, ?)", old)
    for delete in _FORGET:
        connection.execute(delete)
    return len(old)


_CELLS = """
SELECT b.node_id, CAST(r.received_at / ? AS INTEGER) AS hour, sum(r.size)
FROM reports r JOIN boots b ON b.id = r.boot_id GROUP BY b.node_id, hour
"""
_OF_CELL = """
SELECT r.id, b.node_id, r.received_at, r.size FROM boots b CROSS JOIN reports r ON r.boot_id = b.id
WHERE b.node_id = ? AND r.received_at >= ? AND r.received_at < ? LIMIT ?
"""
_CONTAINERS = """
SELECT c.node_id, count(*), sum(length(f.body)) FROM containers c LEFT JOIN facts f ON f.id = c.facts_id
GROUP BY c.node_id
"""
_OLDEST = "SELECT id, facts_id FROM containers WHERE node_id = ? ORDER BY last_used_at, id LIMIT ?"
_FORGET = (
    "DELETE FROM container_rollups WHERE container_id IN (SELECT id FROM forgotten)",
    "DELETE FROM containers WHERE id IN (SELECT id FROM forgotten)",
    """
DELETE FROM facts WHERE id IN (SELECT facts_id FROM forgotten)
AND NOT EXISTS (SELECT 1 FROM containers c WHERE c.facts_id = facts.id)
""",
)
