"""Everything that changes the SQLite history: synchronous, on one connection, in one thread."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from collector.history.rows import (
    CONTAINER_COLUMNS,
    NODE_COLUMNS,
    REPORT_COLUMNS,
    container_facts,
    container_row,
    gone_row,
    heartbeat_text,
    node_facts,
    node_row,
    text_of,
)
from collector.history.schema import NAMED_TABLES, VERSION
from collector.usage import SLOTS, added, slot_at, slot_of
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
        row = (*key, received_at, report.at, heartbeat_text(report.heartbeat))
        report_id = self._connection.execute(_ADD_REPORT, row).lastrowid
        assert report_id is not None
        if report.state is not None:
            facts_id = self._ids["facts"].of((node_facts(report.state),), received_at)
            self._connection.execute(_ADD_NODE_SAMPLE, node_row(report.state, report_id, facts_id))
        self._add_containers(report, report_id, node_id, received_at)
        self._connection.executemany(
            _ADD_EVENT,
            ((report_id, number, event.at, text_of(event)) for number, event in enumerate(report.events)),
        )
        self._connection.executemany(
            _ADD_ALERT,
            (
                (
                    boot_id,
                    each.resource,
                    each.opened_at,
                    report.sequence,
                    received_at,
                    each.closed_at,
                    text_of(each),
                )
                for each in report.alerts
            ),
        )
        self._add_usage(report, node_id, received_at)
        return True

    def _add_containers(self, report: Report, report_id: int, node_id: int, received_at: float) -> None:
        facts, containers = self._ids["facts"], self._ids["containers"]
        rows = [
            container_row(
                container,
                report_id,
                containers.of((node_id, container.id), received_at),
                facts.of((container_facts(container),), received_at),
            )
            for container in report.containers
        ]
        gone = set(report.gone) - {container.id for container in report.containers}
        rows += [gone_row(report_id, containers.of((node_id, each), received_at)) for each in sorted(gone)]
        self._connection.executemany(_ADD_CONTAINER_SAMPLE, rows)

    def _add_usage(self, report: Report, node_id: int, received_at: float) -> None:
        if report.heartbeat is None:
            return
        slot = slot_of(report.at, received_at)
        for usage in report.heartbeat.usage:
            key = (slot, self._ids["containers"].of((node_id, usage.id), received_at))
            found = self._connection.execute(_USAGE, key).fetchone()
            packed = added(None if found is None else found[0], usage)
            self._connection.execute(_SET_USAGE, (*key, packed))

    def forget_reports(self, now: float, at_most: int) -> int:
        """Drop the oldest reports beyond the retention, and all they held; says how many went."""
        with self._transaction():
            cutoff = now - self._retention_seconds
            old = self._connection.execute(_OLD_REPORTS, (cutoff, at_most)).fetchall()
            for forget in _FORGET_REPORT:
                self._connection.executemany(forget, old)
        return len(old)

    def forget_rest(self, now: float) -> None:
        """Drop what no report refers to any more, and give space back when more than half is free."""
        before = now - self._retention_seconds - self._refresh_seconds
        with self._transaction():
            for table, ids in self._ids.items():
                self._connection.execute(f"DELETE FROM {table} WHERE seen_at < ?", (before,))  # noqa: S608 - ours
                ids.forget(before)
            self._connection.execute(_FORGET_ALERTS, (before,))
            self._connection.execute("DELETE FROM usage WHERE slot <= ?", (slot_at(now) - SLOTS,))
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        if free > pages / 2:
            # `execute` would stop after the first page: the pragma answers a row without columns for each.
            self._connection.executescript(f"PRAGMA incremental_vacuum({free // 2})")

    def remember(self, kind: str, entries: Mapping[str, bytes | None]) -> None:
        """Keep what was understood; None forgets a key."""
        kept = [(kind, key, payload) for key, payload in entries.items() if payload is not None]
        with self._transaction():
            self._connection.executemany(
                "DELETE FROM memories WHERE kind = ? AND key = ?", [(kind, key) for key in entries]
            )
            self._connection.executemany("INSERT INTO memories (kind, key, payload) VALUES (?, ?, ?)", kept)

    def check(self) -> None:
        """Write what is already there: it fails exactly when a report could not be kept."""
        with self._transaction():
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def count(self) -> int:
        """How many reports there are."""
        return int(self._connection.execute("SELECT count(*) FROM reports").fetchone()[0])

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


def _insert(table: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - names of our own


_IS_KNOWN = "SELECT 1 FROM reports WHERE boot_id = ? AND sequence = ?"
_ADD_REPORT = _insert("reports", REPORT_COLUMNS)
_ADD_NODE_SAMPLE = _insert("node_samples", NODE_COLUMNS)
_ADD_CONTAINER_SAMPLE = _insert("container_samples", CONTAINER_COLUMNS)
_ADD_EVENT = _insert("events", ("report_id", "number", "at", "body"))
_ADD_ALERT = f"""
{_insert("alerts", ("boot_id", "resource", "opened_at", "sequence", "received_at", "closed_at", "body"))}
ON CONFLICT (boot_id, resource, opened_at) DO UPDATE
SET sequence = excluded.sequence, received_at = excluded.received_at, closed_at = excluded.closed_at,
    body = excluded.body
WHERE excluded.sequence > sequence
"""
_USAGE = "SELECT packed FROM usage WHERE slot = ? AND container_id = ?"
_SET_USAGE = "REPLACE INTO usage (slot, container_id, packed) VALUES (?, ?, ?)"
_OLD_REPORTS = "SELECT id FROM reports WHERE received_at < ? ORDER BY received_at LIMIT ?"
_FORGET_REPORT = (
    "DELETE FROM container_samples WHERE report_id = ?",
    "DELETE FROM node_samples WHERE report_id = ?",
    "DELETE FROM events WHERE report_id = ?",
    "DELETE FROM reports WHERE id = ?",
)
# One that may still be open stays for as long as its boot does, however long ago it was told of.
_FORGET_ALERTS = """
DELETE FROM alerts WHERE boot_id NOT IN (SELECT id FROM boots) OR received_at < ? AND (
    closed_at IS NOT NULL OR EXISTS (
        SELECT 1 FROM alerts later
        WHERE later.boot_id = alerts.boot_id AND later.resource = alerts.resource
          AND later.opened_at > alerts.opened_at
    )
)
"""
