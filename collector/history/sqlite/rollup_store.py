"""Read the reports that are not in the rollups yet, and add their rows to the rollups."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, TypedDict

from collector.history.rollups import (
    COARSE_SECONDS,
    FINE_SECONDS,
    ContainerReading,
    EnergyBounds,
    NodeReading,
    RollupRows,
    roll_up,
)
from collector.history.sqlite.schema import (
    CONTAINER_JOULES,
    COVERED,
    NODE_JOULES,
    ROLLUP_MAXIMA,
    ROLLUP_SUMS,
    ROLLUP_VALUES,
    SAMPLE_VALUES,
)
from collector.history.timeline import Sample, report_time

_VALUES = ", ".join(f"s.{name}" for name in SAMPLE_VALUES)

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
_BOOTS = "SELECT id FROM boots WHERE node_id = ? AND id >= ? ORDER BY id"
_SIZES = """
SELECT sequence, heartbeat IS NOT NULL, size FROM reports WHERE boot_id = ? AND sequence > ? ORDER BY sequence
"""
_SIZE_SINCE = """
SELECT coalesce(sum(r.size), 0) FROM boots b JOIN reports r ON r.boot_id = b.id
WHERE b.node_id = :node AND (b.id, r.sequence) > (:boot, :sequence)
"""
# Every heartbeat covers time, whether or not there was energy. What is older than `report_time` accepts does
# not matter.
_REACHED = f"""
SELECT covered_until FROM node_rollups
WHERE step = {COARSE_SECONDS} AND node_id = :node AND covered_until IS NOT NULL AND bucket >= (
    SELECT received_at / {COARSE_SECONDS} - 192 FROM reports WHERE boot_id = :boot AND sequence = :sequence
) ORDER BY bucket DESC LIMIT 1
"""  # noqa: S608 - a number of our own
_HELD = f"SELECT joules FROM node_rollups WHERE step = {FINE_SECONDS} AND bucket = ? AND node_id = ?"  # noqa: S608 - a number of our own
IN_RANGE = (
    "WHERE r.boot_id = :boot AND r.sequence BETWEEN :begin AND :end"
    " AND (NOT :sparse OR r.heartbeat IS NOT NULL)"
)
_REPORTS = f"""
SELECT r.id, r.sequence, r.at, r.received_at, r.heartbeat IS NOT NULL, s.joules_total, s.idle_watts,
       s.report_id IS NOT NULL, s.window_seconds, {_VALUES}
FROM reports r LEFT JOIN node_samples s ON s.report_id = r.id
{IN_RANGE} ORDER BY r.sequence
"""  # noqa: S608 - names of our own
# The events of a report come before its samples: a container may end and start again under the same id.
_ENDS = f"""
SELECT e.report_id, e.container_id, e.joules_total
FROM reports r JOIN events e ON e.report_id = r.id
{IN_RANGE} AND e.container_id IS NOT NULL
ORDER BY e.report_id, e.number
"""  # noqa: S608 - names of our own
_CONTAINER_SAMPLES = f"""
SELECT s.report_id, s.container_id, s.joules_total, s.facts_id IS NOT NULL, s.window_seconds, {_VALUES}
FROM reports r JOIN container_samples s ON s.report_id = r.id
{IN_RANGE}
"""  # noqa: S608 - names of our own
_ENDED = """
SELECT c.id, c.ended_joules_total FROM json_each(?) each JOIN containers c ON c.id = each.value
WHERE c.ended_joules_total IS NOT NULL
"""
_LARGEST = 2**63 - 1
_READ_BYTES = 4 << 20
"""Reports of a node that are read at once, by the size that they are stored with: about 20,000 samples."""


@dataclass(frozen=True, slots=True)
class RollupUpdate:
    """The rows that a node's reports add to the rollups, up to a heartbeat."""

    node_id: int
    boot_id: int
    sequence: int
    rows: RollupRows
    has_more: bool = False
    """Whether there are later heartbeats, which the next update includes."""


@dataclass(frozen=True, slots=True)
class _Position:
    """A report of a node, in the order in which they were made."""

    boot_id: int
    sequence: int


class ReportRange(TypedDict):
    """Reports of one boot: the parameters of `IN_RANGE`."""

    boot: int
    begin: int
    end: int
    sparse: bool
    """Whether only heartbeats are read."""


class PendingReports(NamedTuple):
    """The reports of a node that are not rolled up yet."""

    ranges: Sequence[ReportRange]
    """Ranges in the order in which their reports were made."""
    clock: "NodeClock"
    """The clock of the node, at the time up to which the rollups go."""
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
        done = self._progress(node_id)
        pending = self._up_to_heartbeat(node_id, done, self._boots(node_id, done))
        found = [] if pending is None else self._collect(pending)
        if pending is None or not found or found[-1][0] == done:
            return None
        end, readings = found[-1][0], [reading for _, reading in found]
        ids = {each.container_id for reading in readings for each in reading.containers}
        ended = dict(self._connection.execute(_ENDED, (json.dumps(list(ids)),)))
        bounds = EnergyBounds(max_watts, self._held(node_id, readings) if max_watts < inf else {})
        rows = roll_up(readings, ended, bounds)
        return RollupUpdate(node_id, end.boot_id, end.sequence, rows, pending.has_more)

    def pending(self, node_id: int) -> "PendingReports":
        """What the rollups do not include, from the last heartbeat that they do; all, unless it is much."""
        done = self._progress(node_id)
        since = done or _Position(0, 0)
        given = {"node": node_id, "boot": since.boot_id, "sequence": since.sequence}
        (size_bytes,) = self._connection.execute(_SIZE_SINCE, given).fetchone()
        boots = self._boots(node_id, done)
        if size_bytes <= _READ_BYTES:
            return self._pending(node_id, done, dict.fromkeys(boots, _LARGEST))
        return self._up_to_heartbeat(node_id, done, boots) or self._pending(node_id, done, {})

    def _pending(
        self,
        node_id: int,
        done: _Position | None,
        ends: Mapping[int, int],
        *,
        sparse: bool = False,
        has_more: bool = False,
    ) -> "PendingReports":
        """The reports of each boot up to a sequence."""
        ranges = [
            ReportRange(boot=boot_id, begin=_begin(boot_id, done), end=end, sparse=sparse)
            for boot_id, end in ends.items()
        ]
        clock = NodeClock(-inf if done is None else self._reached(node_id, done))
        return PendingReports(ranges, clock, has_more)

    def _progress(self, node_id: int) -> _Position | None:
        row = self._connection.execute(_PROGRESS, (node_id,)).fetchone()
        return None if row is None else _Position(*row)

    def _boots(self, node_id: int, done: _Position | None) -> list[int]:
        """The boots from where the rollups end."""
        found = self._connection.execute(_BOOTS, (node_id, done.boot_id if done else 0))
        return [boot_id for (boot_id,) in found]

    def _up_to_heartbeat(
        self, node_id: int, done: _Position | None, boots: Sequence[int]
    ) -> "PendingReports | None":
        """The reports up to the latest heartbeat, or to the first one after `_READ_BYTES`; None without any.

        A node that sends much between two heartbeats must not fill the memory: then only they are read.
        """
        size_bytes = 0
        last: tuple[_Position, int] | None = None
        has_more = False
        for position, is_heartbeat, size in self._sizes(done, boots):
            size_bytes += size
            if is_heartbeat:
                has_more = last is not None and size_bytes > _READ_BYTES
                if has_more:
                    break
                last = position, size_bytes
        if last is None:
            return None
        end, read_bytes = last
        ends = {boot: _LARGEST for boot in boots if boot < end.boot_id} | {end.boot_id: end.sequence}
        return self._pending(node_id, done, ends, sparse=read_bytes > _READ_BYTES, has_more=has_more)

    def _sizes(self, done: _Position | None, boots: Sequence[int]) -> Iterator[tuple[_Position, bool, int]]:
        """Every report, in order: whether it is a heartbeat, and its size."""
        for boot_id in boots:
            given = (boot_id, _begin(boot_id, done))
            for sequence, is_heartbeat, size in self._connection.execute(_SIZES, given):
                yield _Position(boot_id, sequence), is_heartbeat, size

    def _held(self, node_id: int, readings: Sequence[NodeReading]) -> dict[int, float]:
        """The energy of a node in the buckets of readings that is rolled up already."""
        first, last = (int(readings[place].at // FINE_SECONDS) for place in (0, -1))
        held = {}
        for bucket in range(first, last + 1):
            row = self._connection.execute(_HELD, (bucket, node_id)).fetchone()
            held[bucket] = (row[0] or 0.0) if row is not None else 0.0
        return held

    def _collect(self, pending: "PendingReports") -> list[tuple[_Position, NodeReading]]:
        """The readings of boots up to their end, from a first heartbeat on."""
        found: list[tuple[_Position, NodeReading]] = []
        for given in pending.ranges:
            for sequence, reading in self._readings(given, pending.clock):
                if found or reading.is_heartbeat:
                    found.append((_Position(given["boot"], sequence), reading))
        return found

    def _reached(self, node_id: int, done: _Position) -> float:
        """The time up to which the rollups of a node go."""
        given = {"node": node_id, "boot": done.boot_id, "sequence": done.sequence}
        row = self._connection.execute(_REACHED, given).fetchone()
        return -inf if row is None else float(row[0])

    def _readings(self, given: "ReportRange", clock: "NodeClock") -> Iterator[tuple[int, NodeReading]]:
        """The readings of a boot."""
        reports = self._connection.execute(_REPORTS, given).fetchall()
        times = {row[0]: clock.time_of(row[2], row[3]) for row in reports}
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


def _begin(boot_id: int, done: _Position | None) -> int:
    """The sequence from which the reports of a boot are not rolled up."""
    return done.sequence if done is not None and boot_id == done.boot_id else 0


class NodeClock:
    """The time of a node in the rollups, which never goes back.

    If the clock of a node is set back, its time goes on from where it was. Else a node could claim the same
    days again and again, each time with a row for every five minutes.
    """

    def __init__(self, reached: float) -> None:
        self._reached = reached
        self._ahead = 0.0
        """How far this time is ahead of the node's own clock."""

    def time_of(self, at: float, received_at: float) -> float:
        """The time of the next report."""
        own = report_time(at, received_at)
        if report_time(own + self._ahead, received_at) != own + self._ahead:
            self._ahead = 0.0  # the clock was set again
        self._ahead = max(self._ahead, self._reached - own)
        self._reached = own + self._ahead
        return self._reached


def add_rollups(connection: sqlite3.Connection, updates: Sequence[RollupUpdate]) -> None:
    """Add the updates of some nodes, and record how far they go."""
    for update in updates:
        rows = update.rows
        connection.executemany(
            ADD_NODE, [(step, bucket, update.node_id, *rest) for step, bucket, *rest in rows.nodes]
        )
        connection.executemany(
            ADD_CONTAINER,
            [(step, bucket, container_id, *rest) for container_id, (step, bucket, *rest) in rows.containers],
        )
        connection.executemany(
            "UPDATE containers SET ended_joules_total = ? WHERE id = ?",
            [(joules, container_id) for container_id, joules in rows.ended.items()],
        )
        connection.execute(
            "REPLACE INTO rollup_progress (node_id, boot_id, sequence) VALUES (?, ?, ?)",
            (update.node_id, update.boot_id, update.sequence),
        )


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
