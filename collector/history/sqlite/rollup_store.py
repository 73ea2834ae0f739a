"""Read the reports that are not in the rollups yet, and add their rows to the rollups."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.history.sqlite.files.damage import Damage, count_wrong_rows, find_damage
from collector.history.sqlite.rollups import ContainerReading, NodeReading, RollupRows, roll_up
from collector.history.sqlite.schema import (
    CONTAINER_JOULES,
    COVERED,
    NODE_JOULES,
    ROLLUP_MAXIMA,
    ROLLUP_SUMS,
    ROLLUP_VALUES,
)
from collector.history.sqlite.timeline import Sample, report_time
from collector.history.sqlite.writer import SqliteWriter

_VALUES = "s.cpu_cores, s.memory_bytes, s.disk_bytes_per_second, s.network_bytes_per_second, s.watts"

_PENDING_NODES = """
SELECT n.id FROM nodes n LEFT JOIN rollup_progress d ON d.node_id = n.id
WHERE EXISTS (
    SELECT 1 FROM reports r
    WHERE r.boot_id = d.boot_id AND r.sequence > d.sequence AND r.heartbeat IS NOT NULL
) OR EXISTS (
    SELECT 1 FROM boots b JOIN reports r ON r.boot_id = b.id AND r.heartbeat IS NOT NULL
    WHERE b.node_id = n.id AND b.id > coalesce(d.boot_id, -1)
)
ORDER BY (SELECT count(*) FROM containers c WHERE c.node_id = n.id)
"""
_PROGRESS = "SELECT boot_id, sequence FROM rollup_progress WHERE node_id = ?"
_BOOTS = """
SELECT b.id, (SELECT max(r.sequence) FROM reports r WHERE r.boot_id = b.id AND r.heartbeat IS NOT NULL)
FROM boots b WHERE b.node_id = ? AND b.id >= ? ORDER BY b.id
"""
_REPORTS = f"""
SELECT r.id, r.sequence, r.at, r.received_at, r.heartbeat IS NOT NULL, s.joules_total, s.idle_watts,
       s.report_id IS NOT NULL, s.window_seconds, {_VALUES}
FROM reports r LEFT JOIN node_samples s ON s.report_id = r.id
WHERE r.boot_id = ? AND r.sequence BETWEEN ? AND ? ORDER BY r.sequence
"""  # noqa: S608 - names of our own
# The events of a report come before its samples: a container may end and start again under the same id.
_ENDS = """
SELECT e.report_id, e.container_id, e.joules_total
FROM reports r JOIN events e ON e.report_id = r.id
WHERE r.boot_id = ? AND r.sequence BETWEEN ? AND ? AND e.container_id IS NOT NULL
ORDER BY e.report_id, e.number
"""
_CONTAINER_SAMPLES = f"""
SELECT s.report_id, s.container_id, s.joules_total, s.facts_id IS NOT NULL, s.window_seconds, {_VALUES}
FROM reports r JOIN container_samples s ON s.report_id = r.id
WHERE r.boot_id = ? AND r.sequence BETWEEN ? AND ?
"""  # noqa: S608 - names of our own
_ENDED = """
SELECT id, ended_joules_total FROM containers WHERE node_id = ? AND ended_joules_total IS NOT NULL
"""
_LARGEST = 2**63 - 1
_CHECK_SECONDS = 120.0
"""Rollups wait while the file is checked."""


@dataclass(frozen=True, slots=True)
class RollupUpdate:
    """The rows that a node's reports add to the rollups, up to a heartbeat."""

    node_id: int
    boot_id: int
    sequence: int
    rows: RollupRows


@dataclass(frozen=True, slots=True)
class _Position:
    """A report of a node, in the order in which they were made."""

    boot_id: int
    sequence: int


class RollupReader:
    """Reads the reports that are not rolled up yet; changes nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def pending_nodes(self) -> list[int]:
        """The nodes with a heartbeat that is not rolled up yet; none waits for one with many containers."""
        return [node_id for (node_id,) in self._connection.execute(_PENDING_NODES)]

    def find_damage(self) -> Damage | None:
        """Check the structure of the file."""
        return find_damage(self._connection, _CHECK_SECONDS)

    def count_wrong_rows(self) -> dict[str, int]:
        """The number of rollups that do not have their checksum, by table."""
        return count_wrong_rows(self._connection)

    def read(self, node_id: int) -> RollupUpdate | None:
        """The update for a node, up to its latest heartbeat; None if there is nothing to add."""
        done = self._progress(node_id)
        boots = self._boots(node_id, done)
        with_heartbeat = [boot for boot, last in boots if last is not None]
        if not with_heartbeat:
            return None
        last_boot = with_heartbeat[-1]
        ends = {
            boot: last if boot == last_boot and last is not None else _LARGEST
            for boot, last in boots
            if boot <= last_boot
        }
        found = self._collect(done, ends)
        if not found or (done is not None and found[-1][0] == done):
            return None
        ended = dict(self._connection.execute(_ENDED, (node_id,)))
        end = found[-1][0]
        return RollupUpdate(
            node_id, end.boot_id, end.sequence, roll_up([reading for _, reading in found], ended)
        )

    def read_pending(self, node_id: int) -> list[NodeReading]:
        """All that the rollups do not include, from the last heartbeat that they do."""
        done = self._progress(node_id)
        ends = {boot: _LARGEST for boot, _ in self._boots(node_id, done)}
        return [reading for _, reading in self._collect(done, ends)]

    def _progress(self, node_id: int) -> _Position | None:
        row = self._connection.execute(_PROGRESS, (node_id,)).fetchone()
        return None if row is None else _Position(*row)

    def _boots(self, node_id: int, done: _Position | None) -> list[tuple[int, int | None]]:
        """The boots from where the rollups end, each with its last heartbeat."""
        return self._connection.execute(_BOOTS, (node_id, done.boot_id if done else 0)).fetchall()

    def _collect(
        self, done: _Position | None, ends: Mapping[int, int]
    ) -> list[tuple[_Position, NodeReading]]:
        """The readings of boots up to their end, from a first heartbeat on."""
        found: list[tuple[_Position, NodeReading]] = []
        for boot_id, end in ends.items():
            begin = done.sequence if done is not None and boot_id == done.boot_id else 0
            for sequence, reading in self._readings(boot_id, begin, end):
                if found or reading.is_heartbeat:
                    found.append((_Position(boot_id, sequence), reading))
        return found

    def _readings(self, boot_id: int, begin: int, end: int) -> Iterator[tuple[int, NodeReading]]:
        given = (boot_id, begin, end)
        reports = self._connection.execute(_REPORTS, given).fetchall()
        times = {row[0]: report_time(row[2], row[3]) for row in reports}
        containers: defaultdict[int, list[ContainerReading]] = defaultdict(list)
        for report_id, container_id, joules in self._connection.execute(_ENDS, given):
            containers[report_id].append(ContainerReading(container_id, None, joules))
        for report_id, container_id, joules, exists, window_seconds, *values in self._connection.execute(
            _CONTAINER_SAMPLES, given
        ):
            sample = Sample(times[report_id], window_seconds or 0.0, tuple(values) if exists else None)
            containers[report_id].append(ContainerReading(container_id, sample, joules))
        for row in reports:
            report_id, sequence, _, _, is_heartbeat, joules, idle_watts, has_state, window, *values = row
            at = times[report_id]
            reading = NodeReading(
                at=at,
                is_heartbeat=bool(is_heartbeat),
                sample=Sample(at, window, tuple(values)) if has_state else None,
                joules_total=joules,
                idle_watts=idle_watts or 0.0,
                containers=containers[report_id],
            )
            yield sequence, reading


class RollupWriter:
    """Adds to the rollups, each call in one transaction of the writer's connection."""

    def __init__(self, connection: sqlite3.Connection, writer: SqliteWriter) -> None:
        self._connection = connection
        self._writer = writer

    def add(self, updates: Sequence[RollupUpdate]) -> None:
        """Add the updates of some nodes, and record how far they go."""
        with self._writer.transaction():
            for update in updates:
                self._add(update)

    def _add(self, update: RollupUpdate) -> None:
        rows = update.rows
        self._connection.executemany(
            _ADD_NODE, [(step, slot, update.node_id, *rest) for step, slot, *rest in rows.nodes]
        )
        self._connection.executemany(
            _ADD_CONTAINER,
            [(step, slot, container_id, *rest) for container_id, (step, slot, *rest) in rows.containers],
        )
        self._connection.executemany(
            "UPDATE containers SET ended_joules_total = ? WHERE id = ?",
            [(joules, container_id) for container_id, joules in rows.ended.items()],
        )
        self._connection.execute(
            "REPLACE INTO rollup_progress (node_id, boot_id, sequence) VALUES (?, ?, ?)",
            (update.node_id, update.boot_id, update.sequence),
        )


def _upsert(table: str, subject: str, joules: Sequence[str], covered: Sequence[str] = ()) -> str:
    """A statement that adds to a row, or inserts it; null changes nothing."""
    columns = ("step", "slot", subject, *ROLLUP_VALUES, *joules, *covered)
    sums = [
        f"{name} = coalesce({name} + excluded.{name}, {name}, excluded.{name})"
        for name in ("seconds", *ROLLUP_SUMS, *joules)
    ]
    extremes = [
        f"{name} = {function}(coalesce({name}, excluded.{name}), coalesce(excluded.{name}, {name}))"
        for function, names in (("max", (*ROLLUP_MAXIMA, *covered[1:])), ("min", covered[:1]))
        for name in names
    ]
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' for _ in columns)}) "  # noqa: S608 - names of our own
        f"ON CONFLICT (step, slot, {subject}) DO UPDATE SET {', '.join([*sums, *extremes])}"
    )


_ADD_NODE = _upsert("node_rollups", "node_id", NODE_JOULES, COVERED)
_ADD_CONTAINER = _upsert("container_rollups", "container_id", CONTAINER_JOULES)
