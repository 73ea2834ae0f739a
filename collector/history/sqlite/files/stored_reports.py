"""Read the rows of reports with their samples and events, and tell which reports are whole."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from collector.history.sqlite.files.checksums import report_checksum
from collector.history.sqlite.rows import CONTAINER_COLUMNS, NODE_COLUMNS, REPORT_COLUMNS, Row

PIECE_ROWS = 128
EVENT_COLUMNS = ("report_id", "number", "at", "container_id", "joules_total", "body")
_MOST_MISSES = 16
"""Ranges that are tried one after another where nothing can be read."""
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ReportRows:
    """The rows of one report, each with its id."""

    row: Row
    checksum: int | None
    node: Row | None
    containers: list[Row]
    events: list[Row]

    @property
    def is_whole(self) -> bool:
        """Whether all of it is there, and is as it was stored."""
        node = None if self.node is None else self.node[1:]
        containers, events = ([row[1:] for row in rows] for rows in (self.containers, self.events))
        try:
            return self.checksum == report_checksum(self.row[1:], node, containers, events)
        except (TypeError, ValueError, OverflowError):
            return False  # a value of another type


def read_reports(connection: sqlite3.Connection, low: int, high: int) -> Iterator[ReportRows]:
    """The reports with an id in `[low, high)`."""
    between = (low, high - 1)
    nodes = {row[0]: row for row in connection.execute(_NODES, between)}
    containers: defaultdict[int, list[Row]] = defaultdict(list)
    events: defaultdict[int, list[Row]] = defaultdict(list)
    for query, rows in ((_CONTAINERS, containers), (_EVENTS, events)):
        for row in connection.execute(query, between):
            rows[row[0]].append(row)
    for *row, checksum in connection.execute(_REPORTS, between).fetchall():
        number = row[0]
        yield ReportRows(tuple(row), checksum, nodes.get(number), containers[number], events[number])


def key_ranges(
    connection: sqlite3.Connection, table: str, key: str, where: str = "1", begin: int = 0
) -> Iterator[int]:
    """Where ranges of `PIECE_ROWS` keys begin, so that all from a key on that can be read is in one of them.

    What cannot be read is skipped from below, and from above if that finds no end. Keys are not trusted: a
    damaged one may be any number.
    """
    query = f"SELECT {key} FROM {table} WHERE {where} AND {key}"  # noqa: S608 - our own
    low, misses = begin, 0
    while misses < _MOST_MISSES:
        try:
            row = connection.execute(f"{query} >= ? ORDER BY {key} LIMIT 1", (low,)).fetchone()
        except sqlite3.DatabaseError:
            row = (None,)
        if row is None:
            return
        is_found = isinstance(row[0], int) and row[0] >= low
        low, misses = (row[0], 0) if is_found else (low, misses + 1)
        yield low
        low += PIECE_ROWS
    high = _LARGEST
    while True:
        try:
            row = connection.execute(f"{query} < ? ORDER BY {key} DESC LIMIT 1", (high,)).fetchone()
        except sqlite3.DatabaseError:
            return
        if row is None or not isinstance(row[0], int) or not low <= row[0] < high:
            return
        high = row[0] - PIECE_ROWS + 1
        yield high


def _select(table: str, columns: tuple[str, ...], key: str, order: str) -> str:
    return f"SELECT {', '.join(columns)} FROM {table} WHERE {key} BETWEEN ? AND ? ORDER BY {order}"  # noqa: S608 - our own


_REPORTS = _select("reports", ("id", *REPORT_COLUMNS, "checksum"), "id", "id")
_NODES = _select("node_samples", NODE_COLUMNS, "report_id", "report_id")
_CONTAINERS = _select("container_samples", CONTAINER_COLUMNS, "report_id", "report_id, container_id")
_EVENTS = _select("events", EVENT_COLUMNS, "report_id", "report_id, number")
