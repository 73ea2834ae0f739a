"""Read the reports that are not in the rollups yet, add their rows there, and read usage from both."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from collector.history.interface import StoredUsage
from collector.history.rollups import COARSE_SECONDS, FINE_SECONDS, Readings, RollupRows, roll_up
from collector.history.sqlite.rows import Row
from collector.history.sqlite.schema import (
    CONTAINER_JOULES,
    COVERED,
    NODE_JOULES,
    ROLLUP_MAXIMA,
    ROLLUP_SUMS,
    ROLLUP_VALUES,
    SAMPLE_VALUES,
)
from collector.history.timeline import BucketSums, columns, find, hold, report_time, sum_buckets

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
_FROM = """
FROM boots b CROSS JOIN reports r ON r.boot_id = b.id
    AND r.sequence >= CASE b.id WHEN :first_boot THEN :begin ELSE 0 END
"""
_SIZES = f"""
SELECT b.id, r.sequence, r.heartbeat IS NOT NULL, r.size {_FROM}
WHERE b.node_id = :node AND b.id >= :first_boot AND (b.id, r.sequence) > (:first_boot, :begin)
ORDER BY b.id, r.sequence
"""
# Every heartbeat covers time, whether or not there was energy. What is older than `report_time` accepts does
# not matter.
_REACHED = f"""
SELECT covered_until FROM node_rollups
WHERE step = {COARSE_SECONDS} AND node_id = :node AND covered_until IS NOT NULL AND bucket >= (
    SELECT received_at / {COARSE_SECONDS} - 192 FROM reports
    WHERE boot_id = :first_boot AND sequence = :begin
) ORDER BY bucket DESC LIMIT 1
"""  # noqa: S608 - a number of our own
_HELD = f"SELECT joules FROM node_rollups WHERE step = {FINE_SECONDS} AND bucket = ? AND node_id = ?"  # noqa: S608 - a number of our own
_IN_RANGE = """
WHERE b.node_id = :node AND b.id BETWEEN :first_boot AND :last_boot
    AND r.sequence <= CASE b.id WHEN :last_boot THEN :end ELSE r.sequence END
    AND (NOT :sparse OR r.heartbeat IS NOT NULL)
"""
_REPORTS = f"""
SELECT r.id, r.at, r.received_at, r.heartbeat IS NOT NULL, s.idle_watts
{_FROM} LEFT JOIN node_samples s ON s.report_id = r.id {_IN_RANGE} ORDER BY b.id, r.sequence
"""
_VALUES = ", ".join(("s.joules_total", "s.window_seconds", *(f"s.{name}" for name in SAMPLE_VALUES)))
# Nodes have negative numbers.
_SAMPLES = f"""
SELECT -:node, r.id, 1, {_VALUES} {_FROM} JOIN node_samples s ON s.report_id = r.id {_IN_RANGE}
UNION ALL
SELECT s.container_id, r.id, s.facts_id IS NOT NULL, {_VALUES}
{_FROM} JOIN container_samples s ON s.report_id = r.id {_IN_RANGE}
"""
# The events of a report come before its samples: a container may end and start again under the same id.
_ENDS = f"""
SELECT e.container_id, r.id, e.joules_total {_FROM} JOIN events e ON e.report_id = r.id
{_IN_RANGE} AND e.container_id IS NOT NULL ORDER BY r.id, e.number
"""
_ENDED = """
SELECT c.id, c.ended_joules_total FROM json_each(?) each JOIN containers c ON c.id = each.value
WHERE c.ended_joules_total IS NOT NULL
"""
# By the clock of the node alone, which may be wrong. A counter begins with the first window.
_AGES = """
SELECT s.container_id, r.at - json_extract(f.body, '$.started_at') - coalesce(s.window_seconds, 0.0)
FROM json_each(?) each
JOIN container_samples s
    ON s.container_id = json_extract(each.value, '$[0]') AND s.report_id = json_extract(each.value, '$[1]')
JOIN facts f ON f.id = s.facts_id JOIN reports r ON r.id = s.report_id
WHERE json_extract(f.body, '$.started_at') IS NOT NULL
"""
_END_AGES = f"""
SELECT e.container_id, r.at - e.at + json_extract(e.body, '$.lifetime_seconds')
{_FROM} JOIN events e ON e.report_id = r.id {_IN_RANGE} AND e.container_id IS NOT NULL
    AND json_extract(e.body, '$.lifetime_seconds') IS NOT NULL
"""
_LARGEST = 2**63 - 1
_READ_BYTES = 4 << 20
"""Reports of a node that are read at once, by the size that they are stored with: about 20,000 samples."""

Range = Mapping[str, int]
"""The reports of a node from one to another: the parameters of `_IN_RANGE`."""


@dataclass(frozen=True, slots=True)
class RollupUpdate:
    """The rows that a node's reports add to the rollups, up to a heartbeat."""

    node_id: int
    boot_id: int
    sequence: int
    rows: RollupRows
    has_more: bool = False
    """Whether there are later heartbeats, which the next update includes."""


class PendingReports(NamedTuple):
    """The reports of a node that are not rolled up yet."""

    given: Range
    is_empty: bool
    has_more: bool
    """Whether there are later heartbeats."""


class RollupReader:
    """Reads the reports that are not rolled up yet; changes nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def pending_nodes(self) -> list[int]:
        """The nodes with a heartbeat that is not rolled up yet; none waits for one with many containers."""
        return [node_id for (node_id,) in self._connection.execute(_PENDING_NODES)]

    def read(self, node_id: int, max_watts: float = inf) -> RollupUpdate | None:
        """The next update for a node, up to its latest heartbeat or an earlier one; None if there is none.

        Energy above `max_watts` is left out.
        """
        given, is_empty, has_more = self.pending(node_id)
        reports = [] if is_empty else self.reports(given)
        if not reports:
            return None
        samples, ends = self.samples(given), self._connection.execute(_ENDS, given).fetchall()
        ids = {row[0] for row in (*samples, *ends)}
        ended = dict(self._connection.execute(_ENDED, (json.dumps(list(ids)),)))
        room = self._room(node_id, reports, max_watts) if max_watts < inf else None
        ages = self._ages(given, reports, samples)
        rows = roll_up(Readings.of(reports, samples, ends), ended, room, ages)
        return RollupUpdate(node_id, given["last_boot"], given["end"], rows, has_more)

    def pending(self, node_id: int, *, complete: bool = False) -> PendingReports:
        """What the rollups do not include, from the last heartbeat that they do to the latest heartbeat.

        If that is much, to the first heartbeat after `_READ_BYTES`. A node that sends much between two
        heartbeats must not fill the memory: then only they are read. `complete` includes reports after the
        latest heartbeat, unless it is much.
        """
        done = self._connection.execute(_PROGRESS, (node_id,)).fetchone() or (0, 0)
        given = {"node": node_id, "first_boot": done[0], "begin": done[1]}
        size_bytes = read_bytes = 0
        last, has_more = done, False
        for boot_id, sequence, is_heartbeat, size in self._connection.execute(_SIZES, given):
            size_bytes += size
            if is_heartbeat:
                has_more = last != done and size_bytes > _READ_BYTES
                if has_more:
                    break
                last, read_bytes = (boot_id, sequence), size_bytes
        if complete and size_bytes <= _READ_BYTES:
            last = (_LARGEST, _LARGEST)
        given |= {"last_boot": last[0], "end": last[1], "sparse": read_bytes > _READ_BYTES}
        return PendingReports(given, last == done, has_more)

    def reports(self, given: Range) -> list[Row]:
        """The reports from a first heartbeat on, as in `Readings`."""
        reached = self._connection.execute(_REACHED, given).fetchone()
        rows = self._connection.execute(_REPORTS, given).fetchall()
        times = node_times((row[1:3] for row in rows), -inf if reached is None else reached[0])
        found: list[Row] = []
        for (report_id, _, _, is_heartbeat, idle_watts), at in zip(rows, times, strict=True):
            if found or is_heartbeat:
                found.append((report_id, at, found[0][1] if found else at, is_heartbeat, idle_watts or 0.0))
        return found

    def samples(self, given: Range) -> list[Row]:
        """The samples of reports, as in `Readings`."""
        return self._connection.execute(_SAMPLES, given).fetchall()

    def _ages(self, given: Range, reports: Sequence[Row], samples: Sequence[Row]) -> dict[int, float]:
        """How long the containers that are not in the first report ran before their first windows."""
        places = {row[0]: place for place, row in enumerate(reports)}
        first: dict[int, int] = {}
        for container_id, report_id, *_ in samples:
            if container_id >= 0 and report_id in places:
                before = first.setdefault(container_id, report_id)
                first[container_id] = min(before, report_id, key=places.__getitem__)
        new = [each for each in first.items() if places[each[1]]]
        ages = dict(self._connection.execute(_END_AGES, given))
        return ages | dict(self._connection.execute(_AGES, (json.dumps(new),)))

    def _room(self, node_id: int, reports: Sequence[Row], max_watts: float) -> dict[int, float]:
        """The energy that a node can still have used in the buckets of reports."""
        first, last = (int(reports[place][1] // FINE_SECONDS) for place in (0, -1))
        room = {}
        for bucket in range(first, last + 1):
            row = self._connection.execute(_HELD, (bucket, node_id)).fetchone()
            room[bucket] = max(0.0, max_watts * FINE_SECONDS - ((row and row[0]) or 0.0))
        return room


def node_times(times: Iterable[tuple[float, float]], reached: float) -> Iterator[float]:
    """The time of each report of a node in the rollups, from its own and that of receipt; it never goes back.

    If the clock of a node is set back, its time goes on from where it was. Else a node could claim the same
    days again and again, each time with a row for every five minutes.
    """
    ahead = 0.0
    for at, received_at in times:
        own = report_time(at, received_at)
        if report_time(own + ahead, received_at) != own + ahead:
            ahead = 0.0  # the clock was set again
        ahead = max(ahead, reached - own)
        reached = own + ahead
        yield reached


def add_rollups(connection: sqlite3.Connection, updates: Sequence[RollupUpdate]) -> None:
    """Add the updates of some nodes, and record how far they go."""
    for update in updates:
        rows = update.rows
        connection.executemany(
            ADD_NODE, [(step, bucket, update.node_id, *rest) for step, bucket, *rest in rows.nodes]
        )
        connection.executemany(ADD_CONTAINER, rows.containers)
        connection.executemany(
            _SET_ENDED,
            [(joules, container_id) for container_id, joules in rows.ended.items()],
        )
        connection.execute(
            SET_PROGRESS,
            (update.node_id, update.boot_id, update.sequence),
        )


_SET_ENDED = """
UPDATE containers
SET ended_joules_total = ?1, checksum = row_checksum(node_id, runtime_id, facts_id, ?1) WHERE id = ?2
"""
SET_PROGRESS = """
INSERT INTO rollup_progress (node_id, boot_id, sequence, checksum)
VALUES (?1, ?2, ?3, row_checksum(?1, ?2, ?3))
ON CONFLICT (node_id) DO UPDATE
SET boot_id = excluded.boot_id, sequence = excluded.sequence, checksum = excluded.checksum
"""


def _upsert(table: str, subject: str, joules: Sequence[str], covered: Sequence[str] = ()) -> str:
    """A statement that adds to a row, or inserts it; null changes nothing."""
    columns = ("step", "bucket", subject, *ROLLUP_VALUES, *joules, *covered)
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
        f"ON CONFLICT (step, bucket, {subject}) DO UPDATE SET {', '.join([*sums, *extremes])}"
    )


ADD_NODE = _upsert("node_rollups", "node_id", NODE_JOULES, COVERED)
ADD_CONTAINER = _upsert("container_rollups", "container_id", CONTAINER_JOULES)


# --- Usage of the last hours, for a restart ---------------------------------------------------

_SUMS = "bucket, coalesce(seconds, 0.0), cpu_core_seconds, memory_byte_seconds, disk_bytes, network_bytes"
_RESOURCES = 4
_SINCE = f"WHERE step = {FINE_SECONDS} AND bucket >= :first"
# Nodes have negative numbers.
_ROLLED_UP = f"""
SELECT -node_id, {_SUMS} FROM node_rollups {_SINCE}
UNION ALL SELECT container_id, {_SUMS} FROM container_rollups {_SINCE}
"""  # noqa: S608 - names of our own
_NAMES = """
SELECT -id, name, NULL FROM nodes
UNION ALL SELECT c.id, n.name, c.runtime_id FROM containers c JOIN nodes n ON n.id = c.node_id ORDER BY 1
"""
_NODES_AT_ONCE = 200
"""Nodes whose samples are in memory at the same time."""


def read_windows(connection: sqlite3.Connection, since: float, containers: AbstractSet[str]) -> StoredUsage:
    """The buckets that begin at or after a time, of nodes and of containers with these ids.

    The same bucket may occur twice: its parts add up.
    """
    first = int(-(-since // FINE_SECONDS))
    # One read transaction, so that nothing is rolled up in between.
    connection.execute("BEGIN")
    try:
        named = [each for each in connection.execute(_NAMES) if each[2] is None or each[2] in containers]
        nodes = [-number for number, _, runtime_id in named if runtime_id is None]
        rows = columns(connection.execute(_ROLLED_UP, {"first": first}).fetchall(), 3 + _RESOURCES)
        subject, bucket = rows[:, :2].astype(np.int64).T
        whole = BucketSums(subject, bucket, rows[:, 2], rows[:, 3:], rows[:, :0])
        parts = [whole, *_pending(connection, nodes)]
    finally:
        connection.execute("ROLLBACK")
    sums = BucketSums(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    sums = sums.take(sums.bucket >= first)
    places, some = find(np.array([number for number, _, _ in named], dtype=np.int64), sums.subject)
    subjects = [(node, runtime_id) for _, node, runtime_id in named]
    return StoredUsage(subjects, sums.take(some)._replace(subject=places))


def _pending(connection: sqlite3.Connection, nodes: Sequence[int]) -> Iterator[BucketSums]:
    rollups = RollupReader(connection)
    for start in range(0, len(nodes), _NODES_AT_ONCE):
        reports, rows = [], []
        for node_id in nodes[start : start + _NODES_AT_ONCE]:
            given = rollups.pending(node_id, complete=True).given
            reports += rollups.reports(given)
            rows += rollups.samples(given)
        samples = Readings.of(reports, rows).usage()
        sums = sum_buckets(samples, hold(samples), FINE_SECONDS)
        yield sums._replace(totals=sums.totals[:, :_RESOURCES], maxima=sums.maxima[:, :0])
