"""Putting reports into the SQLite history: synchronous, on one connection, in one thread."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from collector.analysis.usage import slot_of
from collector.history.interface import UsageKey, UsageTotal
from collector.history.sqlite.ids import IdCaches
from collector.history.sqlite.rows import (
    CONTAINER_COLUMNS,
    NODE_COLUMNS,
    REPORT_COLUMNS,
    Row,
    container_row,
    encode_body,
    encode_container_facts,
    encode_event_facts,
    encode_heartbeat,
    encode_node_facts,
    encode_usage,
    gone_row,
    node_row,
)
from collector.history.sqlite.schema import VERSION
from wire.messages import Report

_ROWS_AT_ONCE = (32, 16, 8, 4, 2, 1)


@dataclass(frozen=True, slots=True)
class Submission:
    """The reports of one request."""

    reports: Sequence[Report]
    received_at: float


class SqliteWriter:
    """Adds reports, each call in one transaction."""

    def __init__(self, connection: sqlite3.Connection, retention_seconds: float) -> None:
        self._connection = connection
        # Names are marked as in use ten times in their life, not with each sample that refers to them.
        self._names = IdCaches(connection, retention_seconds / 10)
        self._node_samples = _Rows(connection, "node_samples", NODE_COLUMNS)
        self._container_samples = _Rows(connection, "container_samples", CONTAINER_COLUMNS)

    def add(self, submissions: Sequence[Submission]) -> list[list[bool]]:
        """Keep all that is new, with one commit for everyone who waits."""
        with self.transaction():
            new = [[self._add(report, each.received_at) for report in each.reports] for each in submissions]
            self._node_samples.write()
            self._container_samples.write()
        return new

    def _add(self, report: Report, received_at: float) -> bool:
        node_id = self._names.nodes.of((report.node,), received_at)
        boot_id = self._names.boots.of((node_id, report.boot), received_at)
        row = (boot_id, report.sequence, received_at, report.at, encode_heartbeat(report.heartbeat))
        added = self._connection.execute(_ADD_REPORT, row)
        if not added.rowcount:
            return False
        report_id = added.lastrowid
        assert report_id is not None
        if report.state is not None:
            facts_id = self._names.facts.of((encode_node_facts(report.state),), received_at)
            self._node_samples.waiting.append(node_row(report.state, report_id, facts_id))
        if report.containers or report.gone:
            self._add_containers(report, report_id, node_id, received_at)
        if report.events:
            self._add_events(report, report_id, node_id, received_at)
        if report.alerts:
            rows = (
                (
                    *(boot_id, each.resource, each.opened_at, report.sequence),
                    received_at,
                    each.closed_at,
                    encode_body(each),
                )
                for each in report.alerts
            )
            self._connection.executemany(_ADD_ALERT, rows)
        if report.heartbeat is not None and report.heartbeat.usage:
            slot, body = slot_of(report.at, received_at), encode_usage(report.heartbeat.usage)
            self._connection.execute(_ADD_WORD, (node_id, report.boot, report.sequence, slot, body))
        return True

    def _add_containers(self, report: Report, report_id: int, node_id: int, received_at: float) -> None:
        names = self._names
        rows = self._container_samples.waiting
        for container in report.containers:
            container_id = names.containers.of((node_id, container.id), received_at)
            facts_id = names.facts.of((encode_container_facts(container),), received_at)
            names.note_facts(container_id, facts_id)
            rows.append(container_row(container, report_id, container_id, facts_id))
        gone = set(report.gone) - {container.id for container in report.containers}
        rows += [
            gone_row(report_id, names.containers.of((node_id, each), received_at)) for each in sorted(gone)
        ]

    def _add_events(self, report: Report, report_id: int, node_id: int, received_at: float) -> None:
        rows = []
        for number, event in enumerate(report.events):
            container_id = None
            if event.container is not None and event.joules_total is not None:
                container_id = self._names.containers.of((node_id, event.container), received_at)
                if not self._names.has_facts(container_id):
                    # It lived so shortly that no sample tells of it, but its energy was drawn.
                    facts_id = self._names.facts.of((encode_event_facts(event),), received_at)
                    self._names.note_facts(container_id, facts_id)
            rows.append((report_id, number, event.at, container_id, event.joules_total, encode_body(event)))
        self._connection.executemany(_ADD_EVENT, rows)

    def store_usage(self, words: Sequence[UsageKey], sums: Sequence[UsageTotal]) -> None:
        """Keep sums of usage in place of the words that are in them by now."""
        with self.transaction():
            self._connection.executemany(
                _SET_USAGE, [(encode_usage(each.packed), each.slot, each.node) for each in sums]
            )
            self._connection.executemany(
                _DROP_WORD, [(each.node, each.boot, each.sequence) for each in words]
            )

    def forget_names(self, before: float) -> None:
        """Names that were last seen before a time may be gone from the tables."""
        self._names.forget(before)

    def put_values(self, kind: str, entries: Mapping[str, bytes | None]) -> None:
        """Keep what was understood; None forgets a key."""
        kept = [(kind, key, payload) for key, payload in entries.items() if payload is not None]
        with self.transaction():
            self._connection.executemany(
                "DELETE FROM memories WHERE kind = ? AND key = ?", [(kind, key) for key in entries]
            )
            self._connection.executemany("INSERT INTO memories (kind, key, payload) VALUES (?, ?, ?)", kept)

    def check(self) -> None:
        """Write what is already there: it fails exactly when a report could not be kept."""
        with self.transaction():
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def count(self) -> int:
        """How many reports there are."""
        return int(self._connection.execute("SELECT count(*) FROM reports").fetchone()[0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # A full disk may have rolled back already. Numbers given since are void either way.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._names.forget(float("inf"))
            self._node_samples.waiting.clear()
            self._container_samples.waiting.clear()
            raise


class _Rows:
    """Rows that wait to be written, many with one statement.

    Between two statements the event loop may take its turn, and a busy one keeps it for a while: so the time
    of a commit goes by how many statements there are.
    """

    def __init__(self, connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> None:
        self._connection = connection
        self._inserts = [(count, _insert(table, columns, count)) for count in _ROWS_AT_ONCE]
        self.waiting: list[Row] = []

    def write(self) -> None:
        begin = 0
        for count, insert in self._inserts:
            while len(self.waiting) - begin >= count:
                rows = self.waiting[begin : begin + count]
                self._connection.execute(insert, tuple(chain.from_iterable(rows)))
                begin += count
        self.waiting.clear()


def _insert(table: str, columns: Sequence[str], rows: int = 1) -> str:
    marks = f"({', '.join('?' for _ in columns)})"
    values = ", ".join([marks] * rows)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values}"  # noqa: S608 - names of our own


_ADD_REPORT = f"{_insert('reports', REPORT_COLUMNS)} ON CONFLICT (boot_id, sequence) DO NOTHING"
_ADD_EVENT = _insert("events", ("report_id", "number", "at", "container_id", "joules_total", "body"))
_ADD_ALERT = f"""
{_insert("alerts", ("boot_id", "resource", "opened_at", "sequence", "received_at", "closed_at", "body"))}
ON CONFLICT (boot_id, resource, opened_at) DO UPDATE
SET sequence = excluded.sequence, received_at = excluded.received_at, closed_at = excluded.closed_at,
    body = excluded.body
WHERE excluded.sequence > sequence
"""
_ADD_WORD = _insert("usage_words", ("node_id", "boot", "sequence", "slot", "body"))
# What a node that is not there any more used is of no interest.
_SET_USAGE = "REPLACE INTO usage (body, slot, node_id) SELECT ?, ?, id FROM nodes WHERE name = ?"
_DROP_WORD = """
DELETE FROM usage_words WHERE node_id = (SELECT id FROM nodes WHERE name = ?) AND boot = ? AND sequence = ?
"""
