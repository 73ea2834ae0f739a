"""Everything that changes the SQLite history: synchronous, on one connection, in one thread."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from collector.history.rows import (
    CONTAINER_COLUMNS,
    NODE_COLUMNS,
    container_facts,
    container_row,
    node_facts,
    node_row,
)
from collector.history.schema import NAMED_TABLES, VERSION
from wire.messages import Report


@dataclass(frozen=True, slots=True)
class Submission:
    """The reports of one request."""

    reports: Sequence[Report]
    received_at: float


class _Ids:
    """The small numbers by which one table's rows are referred to, remembered while they are in use."""

    def __init__(
        self, connection: sqlite3.Connection, table: str, columns: str, refresh_seconds: float
    ) -> None:
        self._connection = connection
        self._refresh_seconds = refresh_seconds
        self._known: dict[tuple[str | int, ...], tuple[int, float]] = {}
        names = columns.split(", ")
        marks = ", ".join("?" for _ in names)
        key = " AND ".join(f"{name} = ?" for name in names)
        self._upsert = (
            f"INSERT INTO {table} ({columns}, seen_at) VALUES ({marks}, ?) "  # noqa: S608 - names of our own
            f"ON CONFLICT ({columns}) DO UPDATE SET seen_at = max(seen_at, excluded.seen_at)"
        )
        self._select = f"SELECT id FROM {table} WHERE {key}"  # noqa: S608 - names of our own

    def of(self, key: tuple[str | int, ...], now: float) -> int:
        """The number of a row, which is made if it is not there, and marked as in use now and then."""
        known = self._known.get(key)
        if known is not None and known[1] >= now - self._refresh_seconds:
            return known[0]
        self._connection.execute(self._upsert, (*key, now))
        (number,) = self._connection.execute(self._select, key).fetchone()
        self._known[key] = (number, now)
        return int(number)

    def forget(self, before: float) -> None:
        self._known = {key: value for key, value in self._known.items() if value[1] >= before}


class Writer:
    """Adds reports and forgets old ones, each call in one transaction."""

    def __init__(self, connection: sqlite3.Connection, retention_seconds: float) -> None:
        self._connection = connection
        self._retention_seconds = retention_seconds
        # Names are marked as in use ten times in their life, not with each sample that refers to them.
        self._refresh_seconds = retention_seconds / 10
        columns = {
            "nodes": "name",
            "boots": "node_id, name",
            "containers": "node_id, runtime_id",
            "facts": "body",
        }
        self._ids = {
            table: _Ids(connection, table, columns[table], self._refresh_seconds) for table in NAMED_TABLES
        }

    def add(self, submissions: Sequence[Submission]) -> list[list[bool]]:
        """Keep all that is new, with one commit for everyone who waits."""
        with self._transaction():
            return [[self._add(report, each.received_at) for report in each.reports] for each in submissions]

    def _add(self, report: Report, received_at: float) -> bool:
        node_id = self._ids["nodes"].of((report.node,), received_at)
        boot_id = self._ids["boots"].of((node_id, report.boot), received_at)
        key = (boot_id, report.sequence)
        if self._connection.execute(_IS_KNOWN, key).fetchone():
            return False
        facts, containers = self._ids["facts"], self._ids["containers"]
        row = node_row(report, boot_id, facts.of((node_facts(report),), received_at), received_at)
        sample_id = self._connection.execute(_ADD_NODE_SAMPLE, row).lastrowid
        assert sample_id is not None
        self._connection.executemany(
            _ADD_CONTAINER_SAMPLE,
            [
                container_row(
                    container,
                    sample_id,
                    containers.of((node_id, container.id), received_at),
                    facts.of((container_facts(container),), received_at),
                )
                for container in report.containers
            ],
        )
        return True

    def forget_samples(self, now: float, at_most: int) -> int:
        """Drop the oldest samples beyond the retention; says how many reports went."""
        cutoff = now - self._retention_seconds
        with self._transaction():
            old = [row[0] for row in self._connection.execute(_OLD, (cutoff, at_most))]
            self._connection.executemany(
                "DELETE FROM container_samples WHERE sample_id = ?", ((sample_id,) for sample_id in old)
            )
            self._connection.executemany(
                "DELETE FROM node_samples WHERE id = ?", ((sample_id,) for sample_id in old)
            )
        return len(old)

    def forget_names(self, now: float) -> None:
        """Drop what no sample refers to any more, and give space back when more than half is free."""
        before = now - self._retention_seconds - self._refresh_seconds
        with self._transaction():
            for table, ids in self._ids.items():
                self._connection.execute(f"DELETE FROM {table} WHERE seen_at < ?", (before,))  # noqa: S608 - ours
                ids.forget(before)
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        if free > pages / 2:
            # `execute` would stop after the first page: the pragma answers a row without columns for each.
            self._connection.executescript(f"PRAGMA incremental_vacuum({free // 2})")

    def check(self) -> None:
        """Write what is already there: it fails exactly when a report could not be kept."""
        with self._transaction():
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def count(self) -> int:
        """How many reports there are."""
        return int(self._connection.execute("SELECT count(*) FROM node_samples").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # A full disk may have rolled back already. Numbers given since are void either way.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            for ids in self._ids.values():
                ids.forget(float("inf"))
            raise


_IS_KNOWN = "SELECT 1 FROM node_samples WHERE boot_id = ? AND sequence = ?"
_OLD = "SELECT id FROM node_samples WHERE received_at < ? ORDER BY received_at LIMIT ?"


def _insert(table: str, columns: str) -> str:
    marks = ", ".join("?" for _ in columns.split(", "))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608 - names of our own


_ADD_NODE_SAMPLE = _insert("node_samples", NODE_COLUMNS)
_ADD_CONTAINER_SAMPLE = _insert("container_samples", CONTAINER_COLUMNS)
