"""Putting reports into the SQLite history: synchronous, on one connection, in one thread."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from collector.analysis.histograms import pack, with_usage
from collector.history.names import Names
from collector.history.rows import (
    CONTAINER_COLUMNS,
    NODE_COLUMNS,
    REPORT_COLUMNS,
    container_facts,
    container_row,
    event_facts,
    gone_row,
    heartbeat_text,
    node_facts,
    node_row,
    text_of,
)
from collector.history.schema import VERSION
from collector.usage import slot_of
from wire.messages import ContainerUsage, Report


@dataclass(frozen=True, slots=True)
class Submission:
    """The reports of one request."""

    reports: Sequence[Report]
    received_at: float


class Writer:
    """Adds reports, each call in one transaction."""

    def __init__(self, connection: sqlite3.Connection, retention_seconds: float) -> None:
        self._connection = connection
        # Names are marked as in use ten times in their life, not with each sample that refers to them.
        self._names = Names(connection, retention_seconds / 10)

    def add(self, submissions: Sequence[Submission]) -> list[list[bool]]:
        """Keep all that is new, with one commit for everyone who waits."""
        with self.transaction():
            return [[self._add(report, each.received_at) for report in each.reports] for each in submissions]

    def _add(self, report: Report, received_at: float) -> bool:
        node_id = self._names.nodes.of((report.node,), received_at)
        boot_id = self._names.boots.of((node_id, report.boot), received_at)
        row = (boot_id, report.sequence, received_at, report.at, heartbeat_text(report.heartbeat))
        added = self._connection.execute(_ADD_REPORT, row)
        if not added.rowcount:
            return False
        report_id = added.lastrowid
        assert report_id is not None
        if report.state is not None:
            facts_id = self._names.facts.of((node_facts(report.state),), received_at)
            self._connection.execute(_ADD_NODE_SAMPLE, node_row(report.state, report_id, facts_id))
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
                    text_of(each),
                )
                for each in report.alerts
            )
            self._connection.executemany(_ADD_ALERT, rows)
        if report.heartbeat is not None and report.heartbeat.usage:
            slot = slot_of(report.at, received_at)
            self._add_usage(report.heartbeat.usage, slot, node_id, received_at)
        return True

    def _add_containers(self, report: Report, report_id: int, node_id: int, received_at: float) -> None:
        names = self._names
        rows = []
        for container in report.containers:
            container_id = names.containers.of((node_id, container.id), received_at)
            facts_id = names.facts.of((container_facts(container),), received_at)
            names.note_facts(container_id, facts_id)
            rows.append(container_row(container, report_id, container_id, facts_id))
        gone = set(report.gone) - {container.id for container in report.containers}
        rows += [
            gone_row(report_id, names.containers.of((node_id, each), received_at)) for each in sorted(gone)
        ]
        self._connection.executemany(_ADD_CONTAINER_SAMPLE, rows)

    def _add_events(self, report: Report, report_id: int, node_id: int, received_at: float) -> None:
        rows = []
        for number, event in enumerate(report.events):
            container_id = None
            if event.container is not None and event.joules_total is not None:
                container_id = self._names.containers.of((node_id, event.container), received_at)
                if not self._names.has_facts(container_id):
                    # It lived so shortly that no sample tells of it, but its energy was drawn.
                    facts_id = self._names.facts.of((event_facts(event),), received_at)
                    self._names.note_facts(container_id, facts_id)
            rows.append((report_id, number, event.at, container_id, event.joules_total, text_of(event)))
        self._connection.executemany(_ADD_EVENT, rows)

    def _add_usage(
        self, usages: Sequence[ContainerUsage], slot: int, node_id: int, received_at: float
    ) -> None:
        rows: dict[int, int] = {}
        places = [
            rows.setdefault(self._names.containers.of((node_id, usage.id), received_at), len(rows))
            for usage in usages
        ]
        held = [self._connection.execute(_USAGE, (slot, each)).fetchone() for each in rows]
        keys, counts = with_usage([None if found is None else found[0] for found in held], usages, places)
        packed = pack(keys, counts, len(rows))
        self._connection.executemany(
            _SET_USAGE, [(slot, each, whole) for each, whole in zip(rows, packed, strict=True)]
        )

    def forget_names(self, before: float) -> None:
        """Names that were last seen before a time may be gone from the tables."""
        self._names.forget(before)

    def remember(self, kind: str, entries: Mapping[str, bytes | None]) -> None:
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
            raise


def _insert(table: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - names of our own


_ADD_REPORT = f"{_insert('reports', REPORT_COLUMNS)} ON CONFLICT (boot_id, sequence) DO NOTHING"
_ADD_NODE_SAMPLE = _insert("node_samples", NODE_COLUMNS)
_ADD_CONTAINER_SAMPLE = _insert("container_samples", CONTAINER_COLUMNS)
_ADD_EVENT = _insert("events", ("report_id", "number", "at", "container_id", "joules_total", "body"))
_ADD_ALERT = f"""
{_insert("alerts", ("boot_id", "resource", "opened_at", "sequence", "received_at", "closed_at", "body"))}
ON CONFLICT (boot_id, resource, opened_at) DO UPDATE
SET sequence = excluded.sequence, received_at = excluded.received_at, closed_at = excluded.closed_at,
    body = excluded.body
WHERE excluded.sequence > sequence
"""
_USAGE = "SELECT packed FROM usage WHERE slot = ? AND container_id = ?"
_SET_USAGE = "REPLACE INTO usage (slot, container_id, packed) VALUES (?, ?, ?)"
