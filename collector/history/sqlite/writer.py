"""Write reports to the SQLite history: synchronous, on one connection, in one thread."""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from itertools import chain
from typing import Concatenate, ParamSpec, TypeVar

from collector.analysis.usage import report_bucket
from collector.history.interface import UsageKey, UsageTotal, is_pulled
from collector.history.sqlite.files.checksums import report_checksum
from collector.history.sqlite.files.counts import Counts, CountsFile
from collector.history.sqlite.files.damage import is_damage
from collector.history.sqlite.rows import (
    CONTAINER_COLUMNS,
    GONE,
    NODE_COLUMNS,
    REPORT_COLUMNS,
    Row,
    container_values,
    encode_body,
    encode_container_facts,
    encode_heartbeat,
    encode_node_facts,
    encode_usage,
    has_same_facts,
    node_values,
    report_bytes,
    unknown_container,
)
from collector.history.sqlite.schema import GET_VALUE, NEXT_COMMIT, SET_VALUE, VERSION
from collector.history.sqlite.space import SpaceAccounts
from wire.messages import ContainerState, Report

log = logging.getLogger(__name__)

_EXPIRED_KIND = "expired"
_BATCH_SIZE = 32
_LONG_TEXT, _DIGEST_BYTES = 64, 16
_NO_FACTS = ("NULL", "NULL")
"""The facts of a new container, and its energy at its end."""

Key = tuple[str | int, ...]
Given = ParamSpec("Given")
Result = TypeVar("Result")
Submission = tuple[Sequence[Report], float]
"""The reports of one request, and when it was received."""


class SqliteWriter:
    """Stores reports, each call in one transaction."""

    def __init__(
        self, connection: sqlite3.Connection, retention_seconds: float, counts: CountsFile | None = None
    ) -> None:
        self._connection, self._counts = connection, counts
        # Rows are marked as used ten times in their life, not with each sample that refers to them.
        self._ids = _IdCaches(connection, retention_seconds / 10)
        self._expired: dict[int, int] = {}
        """The last deleted sequence of boots in use."""
        self._node_samples = _RowBatch(connection, "node_samples", NODE_COLUMNS)
        self._container_samples = _RowBatch(connection, "container_samples", CONTAINER_COLUMNS)
        self.space = SpaceAccounts(connection)
        (self.reports,) = connection.execute(_REPORTS).fetchone()
        """Number of reports in the file."""
        self._added: list[tuple[int, float, int]] = []
        """Node, time of receipt and size of the reports in this transaction."""
        self._checksums: list[tuple[int, int]] = []
        """Checksum and id of reports in this transaction."""

    def add(self, submissions: Sequence[Submission]) -> list[list[bool | None]]:
        """Store all new reports, in one commit for all waiting requests.

        Returns for each report whether it was new; None if it cannot be stored, whatever the state of the
        disk.
        """
        try:
            return self._add_all(submissions, self._add)
        except sqlite3.OperationalError:
            raise
        except Exception as error:
            if is_damage(error):
                raise  # no report is to blame
            log.exception("a report cannot be stored: storing the reports one by one")
        return self._add_all(submissions, self._add_in_savepoint)

    def _add_all(
        self, submissions: Sequence[Submission], add: Callable[[Report, float], bool | None]
    ) -> list[list[bool | None]]:
        with self.transaction():
            self._added.clear()
            new = [[add(report, received_at) for report in reports] for reports, received_at in submissions]
            self._flush()
        for each in self._added:
            self.space.add(*each)
        self.reports += len(self._added)
        return new

    def _add_in_savepoint(self, report: Report, received_at: float) -> bool | None:
        """Store a report, or nothing of it."""
        self._connection.execute("SAVEPOINT report")
        try:
            is_new = self._add(report, received_at)
            self._flush()
        except sqlite3.OperationalError:
            raise
        except Exception as error:
            if is_damage(error):
                raise
            log.exception(
                "report %d of run %r of node %r cannot be stored", report.sequence, report.boot, report.node
            )
            self._connection.execute("ROLLBACK TO report")
            self._forget()
            is_new = None
        self._connection.execute("RELEASE report")
        return is_new

    def _flush(self) -> None:
        self._node_samples.flush()
        self._container_samples.flush()
        self._connection.executemany("UPDATE reports SET checksum = ? WHERE id = ?", self._checksums)
        self._checksums.clear()

    def _forget(self) -> None:
        """Forget ids and pending rows that were not committed."""
        self._ids.expire(float("inf"))
        self._node_samples.batch.clear()
        self._container_samples.batch.clear()
        self._checksums.clear()

    def _add(self, report: Report, received_at: float) -> bool:
        node_id = self._ids.nodes.get((report.node,), received_at)
        boot_id = self._ids.boots.get((node_id, report.boot), received_at)
        if report.sequence <= self._expired_until(boot_id) and not is_pulled(report):
            return False
        heartbeat = encode_heartbeat(report.heartbeat)
        size = report_bytes(report, heartbeat)
        row = (boot_id, report.sequence, received_at, report.at, heartbeat, size)
        added = self._connection.execute(_ADD_REPORT, row)
        if not added.rowcount:
            return False
        report_id = added.lastrowid
        assert report_id is not None
        self._added.append((node_id, received_at, size))
        node, containers, events = None, [], []
        if report.state is not None:
            facts_id = self._ids.facts.get((encode_node_facts(report.state),), received_at)
            node = (facts_id, *node_values(report.state))
            self._node_samples.batch.append((report_id, *node))
        if report.containers or report.gone:
            containers = self._container_rows(report, node_id, received_at)
            self._container_samples.batch += [(report_id, *each) for each in containers]
        if report.events:
            events = self._event_rows(report, node_id, received_at)
            self._connection.executemany(_ADD_EVENT, [(report_id, *each) for each in events])
        self._checksums.append((report_checksum(row, node, containers, events), report_id))
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
            bucket, body = report_bucket(report.at, received_at), encode_usage(report.heartbeat.usage)
            self._connection.execute(_ADD_USAGE, (node_id, report.boot, report.sequence, bucket, body))
        return True

    def _container_rows(self, report: Report, node_id: int, received_at: float) -> list[Row]:
        ids = self._ids
        rows: list[Row] = []
        for container in report.containers:
            container_id = ids.containers.get((node_id, container.id), received_at)
            facts_id = ids.set_facts(container_id, container, received_at)
            rows.append((container_id, facts_id, *container_values(container)))
        gone = set(report.gone) - {container.id for container in report.containers}
        rows += [(ids.containers.get((node_id, each), received_at), *GONE) for each in sorted(gone)]
        for each in gone:
            ids.forget_container((node_id, each), received_at)
        return rows

    def _event_rows(self, report: Report, node_id: int, received_at: float) -> list[Row]:
        rows: list[Row] = []
        for number, event in enumerate(report.events):
            container_id = None
            if event.container is not None and event.joules_total is not None:
                container_id = self._ids.containers.get((node_id, event.container), received_at)
                if not self._ids.has_facts(container_id):
                    # It ended before its first sample, but it used energy.
                    unknown = unknown_container(event.name or event.container)
                    self._ids.set_facts(container_id, unknown, received_at)
            rows.append((number, event.at, container_id, event.joules_total, encode_body(event)))
        return rows

    def store_usage(self, merged: Sequence[UsageKey], totals: Sequence[UsageTotal]) -> None:
        with self.transaction():
            self._connection.executemany(
                _SET_USAGE, [(encode_usage(each.packed), each.bucket, each.node) for each in totals]
            )
            self._connection.executemany(
                _DROP_USAGE, [(each.node, each.boot, each.sequence) for each in merged]
            )

    def expire_ids(self, before: float) -> None:
        """Rows that were last used before a time may be gone from the tables."""
        self._ids.expire(before)
        self._expired.clear()
        self._connection.execute(_DROP_EXPIRED, (_EXPIRED_KIND,))

    def set_expired(self, sequences: Iterable[tuple[int, int]]) -> None:
        """Note the last deleted report of boots: reports up to it are not new if they come again."""
        for boot_id, sequence in sequences:
            if sequence > self._expired_until(boot_id):
                self._expired[boot_id] = sequence
                row = (_EXPIRED_KIND, str(boot_id), str(sequence).encode())
                self._connection.execute(SET_VALUE, row)

    def _expired_until(self, boot_id: int) -> int:
        sequence = self._expired.get(boot_id)
        if sequence is None:
            key = (_EXPIRED_KIND, str(boot_id))
            found = self._connection.execute(GET_VALUE, key).fetchone()
            sequence = self._expired[boot_id] = 0 if found is None else int(found[0])
        return sequence

    def put_values(self, kind: str, values: Mapping[str, bytes | None]) -> None:
        gone = [(kind, key) for key, value in values.items() if value is None]
        rows = [(kind, key, value) for key, value in values.items() if value is not None]
        with self.transaction():
            self._connection.executemany("DELETE FROM key_values WHERE kind = ? AND key = ?", gone)
            self._connection.executemany(SET_VALUE, rows)

    def check(self) -> None:
        """Write a value that is already there: fails exactly when a report could not be stored."""
        with self.transaction():
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def change(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Given], Result],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> Result:
        """Make changes in one transaction."""
        with self.transaction():
            return work(self._connection, *given, **named)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        changes = self._connection.total_changes
        try:
            yield
            counts = None
            if self._connection.total_changes != changes:
                self._connection.execute(NEXT_COMMIT)
                # Before the commit: afterwards, this would take another transaction, and three times as long.
                counts = Counts.read(self._connection)
            self._connection.execute("COMMIT")
            if counts is not None and self._counts is not None:
                self._counts.write(counts)
        except BaseException:
            # A full disk may have rolled back already. Ids given since are void either way.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._forget()
            self._expired.clear()
            raise


class _IdCache:
    """The ids of one table, cached while they are in use."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        table: str,
        columns: tuple[str, ...],
        refresh_seconds: float,
        unset: Sequence[str] = (),
    ) -> None:
        """`unset` are the values of other columns in the checksum of a new row."""
        self._connection = connection
        self._refresh_seconds = refresh_seconds
        self._cached: dict[Key | bytes, tuple[int, float]] = {}
        names = ", ".join(columns)
        marks = ", ".join("?" for _ in columns)
        given = ", ".join((*(f"?{place}" for place in range(1, len(columns) + 1)), *unset))
        self._upsert = (
            f"INSERT INTO {table} ({names}, last_used_at, checksum) "  # noqa: S608 - names of our own
            f"VALUES ({marks}, ?, row_checksum({given})) ON CONFLICT ({names}) "
            "DO UPDATE SET last_used_at = max(last_used_at, excluded.last_used_at) RETURNING id"
        )

    def get(self, key: Key, now: float) -> int:
        """The id of a row, which is inserted if missing, and marked as used from time to time."""
        return self.get_marked(key, now)[0]

    def get_marked(self, key: Key, now: float) -> tuple[int, float]:
        """The id of a row, and when it was last marked as used."""
        short = _shortened(key)
        cached = self._cached.get(short)
        if cached is None or not self.is_fresh(cached[1], now):
            ((number,),) = self._connection.execute(self._upsert, (*key, now)).fetchall()
            cached = self._cached[short] = (int(number), now)
        return cached

    def is_fresh(self, marked_at: float, now: float) -> bool:
        """Whether a row need not be marked as used again."""
        return marked_at >= now - self._refresh_seconds

    def forget(self, key: Key) -> None:
        """Drop the id of a row that will hardly be used again."""
        self._cached.pop(_shortened(key), None)

    def expire(self, before: float) -> None:
        """Drop the ids that were last marked before a time."""
        self._cached = {key: value for key, value in self._cached.items() if value[1] >= before}


def _shortened(key: Key) -> Key | bytes:
    """The key, or a digest of it if it is long: labels of many containers would fill the memory."""
    text = key[0]
    if len(key) > 1 or not isinstance(text, str) or len(text) <= _LONG_TEXT:
        return key
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


class _IdCaches:
    """The ids of all tables, and the last facts of each container."""

    def __init__(self, connection: sqlite3.Connection, refresh_seconds: float) -> None:
        self._connection = connection
        self.nodes = _IdCache(connection, "nodes", ("name",), refresh_seconds)
        self.boots = _IdCache(connection, "boots", ("node_id", "name"), refresh_seconds)
        self.containers = _IdCache(
            connection, "containers", ("node_id", "runtime_id"), refresh_seconds, _NO_FACTS
        )
        self.facts = _IdCache(connection, "facts", ("body",), refresh_seconds)
        self._last_facts: dict[int, tuple[int, float, ContainerState]] = {}
        """Per container: the id of its facts, when they were marked as used, and its last state."""

    def set_facts(self, container_id: int, state: ContainerState, now: float) -> int:
        """Store the current facts of a container, which are kept for as long as the container is.

        Returns their id. They seldom change, and comparing two states is faster than encoding one.
        """
        last = self._last_facts.get(container_id)
        if last is not None and self.facts.is_fresh(last[1], now) and has_same_facts(last[2], state):
            facts_id, marked_at, _ = last
        else:
            facts_id, marked_at = self.facts.get_marked((encode_container_facts(state),), now)
            if last is None or last[0] != facts_id:
                self._connection.execute(_SET_FACTS, (facts_id, container_id))
        # The registry holds the newest state too: an older one would take memory of its own.
        self._last_facts[container_id] = facts_id, marked_at, state
        return facts_id

    def forget_container(self, key: Key, now: float) -> None:
        """Drop what is cached of a container that ended: where containers come and go, it would pile up."""
        last = self._last_facts.pop(self.containers.get(key, now), None)
        self.containers.forget(key)
        if last is not None:
            self.facts.forget((encode_container_facts(last[2]),))

    def has_facts(self, container_id: int) -> bool:
        """Whether more than the id of a container is stored."""
        if container_id in self._last_facts:
            return True
        found = self._connection.execute("SELECT facts_id FROM containers WHERE id = ?", (container_id,))
        return bool(found.fetchone() != (None,))

    def expire(self, before: float) -> None:
        """Drop the ids that were last marked before a time."""
        for each in (self.nodes, self.boots, self.containers, self.facts):
            each.expire(before)
        self._last_facts.clear()


class _RowBatch:
    """A batch of rows, written with as few statements as possible.

    Between two statements the event loop may take over, and a busy one does so for a while: the time of a
    commit depends on the number of statements.
    """

    def __init__(self, connection: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> None:
        self._connection, self._table, self._columns = connection, table, columns
        self.batch: list[Row] = []

    def flush(self) -> None:
        for begin in range(0, len(self.batch), _BATCH_SIZE):
            rows = self.batch[begin : begin + _BATCH_SIZE]
            insert = _insert(self._table, self._columns, len(rows))
            self._connection.execute(insert, tuple(chain.from_iterable(rows)))
        self.batch.clear()


@cache
def _insert(table: str, columns: tuple[str, ...], rows: int = 1) -> str:
    marks = f"({', '.join('?' for _ in columns)})"
    values = ", ".join([marks] * rows)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values}"  # noqa: S608 - names of our own


_REPORTS = "SELECT rows FROM counts WHERE name = 'reports'"
_SET_FACTS = """
UPDATE containers
SET facts_id = ?1, checksum = row_checksum(node_id, runtime_id, ?1, ended_joules_total) WHERE id = ?2
"""
_DROP_EXPIRED = """
DELETE FROM key_values WHERE kind = ? AND CAST(key AS INTEGER) NOT IN (SELECT id FROM boots)
"""
_ADD_REPORT = f"{_insert('reports', REPORT_COLUMNS)} ON CONFLICT (boot_id, sequence) DO NOTHING"
_ADD_EVENT = _insert("events", ("report_id", "number", "at", "container_id", "joules_total", "body"))
_ADD_ALERT = """
INSERT INTO alerts (boot_id, resource, opened_at, sequence, received_at, closed_at, body, checksum)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, row_checksum(?1, ?2, ?3, ?4, ?5, ?6, ?7))
ON CONFLICT (boot_id, resource, opened_at) DO UPDATE
SET sequence = excluded.sequence, received_at = excluded.received_at, closed_at = excluded.closed_at,
    body = excluded.body, checksum = excluded.checksum
WHERE excluded.sequence > sequence
"""
_ADD_USAGE = """
INSERT INTO pending_usage (node_id, boot, sequence, bucket, body, checksum)
VALUES (?1, ?2, ?3, ?4, ?5, row_checksum(?1, ?2, ?3, ?4, ?5)) ON CONFLICT DO NOTHING
"""
# The usage of a node that is gone is dropped.
_SET_USAGE = """
INSERT INTO usage (node_id, bucket, body, checksum)
SELECT id, ?2, ?1, row_checksum(id, ?2, ?1) FROM nodes WHERE name = ?3
ON CONFLICT (node_id, bucket) DO UPDATE SET body = excluded.body, checksum = excluded.checksum
"""
_DROP_USAGE = """
DELETE FROM pending_usage WHERE node_id = (SELECT id FROM nodes WHERE name = ?) AND boot = ? AND sequence = ?
"""
