"""Keeping the rollups: which nodes have said more than is in them, what that adds, and adding it."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collector.history.sqlite.rollups import ContainerReading, NodeReading, RollupRows, roll_up
from collector.history.sqlite.schema import (
    CONTAINER_JOULES,
    NODE_JOULES,
    ROLLUP_MAXIMA,
    ROLLUP_SUMS,
    ROLLUP_VALUES,
)
from collector.history.sqlite.timeline import Sample, report_time
from collector.history.sqlite.writer import SqliteWriter

_VALUES = "s.cpu_cores, s.memory_bytes, s.disk_bytes_per_second, s.network_bytes_per_second, s.watts"

_DUE = """
SELECT n.id FROM nodes n LEFT JOIN rolled d ON d.node_id = n.id
WHERE EXISTS (
    SELECT 1 FROM reports r
    WHERE r.boot_id = d.boot_id AND r.sequence > d.sequence AND r.heartbeat IS NOT NULL
) OR EXISTS (
    SELECT 1 FROM boots b JOIN reports r ON r.boot_id = b.id AND r.heartbeat IS NOT NULL
    WHERE b.node_id = n.id AND b.id > coalesce(d.boot_id, -1)
)
"""
_ROLLED = "SELECT boot_id, sequence FROM rolled WHERE node_id = ?"
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
# Its last count, then that it is gone, then what came anew under its id, if anything did.
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


@dataclass(frozen=True, slots=True)
class RollupUpdate:
    """What a node's words add to the rollups, and the heartbeat up to which they go."""

    node_id: int
    boot_id: int
    sequence: int
    gains: RollupRows


@dataclass(frozen=True, slots=True)
class _Position:
    """A heartbeat, by its place in what a node said."""

    boot_id: int
    sequence: int


class RollupReader:
    """Reads what was said, and says what the rollups gain; changes nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def due(self) -> list[int]:
        """The nodes that sent a heartbeat since they were last looked at."""
        return [node_id for (node_id,) in self._connection.execute(_DUE)]

    def condense(self, node_id: int) -> RollupUpdate | None:
        """What a node said up to its latest heartbeat."""
        row = self._connection.execute(_ROLLED, (node_id,)).fetchone()
        done = None if row is None else _Position(*row)
        boots = self._connection.execute(_BOOTS, (node_id, done.boot_id if done else 0)).fetchall()
        spoken = [boot for boot, last in boots if last is not None]
        if not spoken:
            return None
        last_boot = spoken[-1]
        words: list[NodeReading] = []
        end = _Position(0, 0)
        for boot_id, last_heartbeat in boots:
            if boot_id > last_boot:
                break
            begin = done.sequence if done is not None and boot_id == done.boot_id else 0
            for sequence, word in self._words(
                boot_id, begin, last_heartbeat if boot_id == last_boot else _LARGEST
            ):
                if words or word.is_heartbeat:
                    words.append(word)
                    end = _Position(boot_id, sequence)
        if not words or (done is not None and end == done):
            return None
        ended = dict(self._connection.execute(_ENDED, (node_id,)))
        return RollupUpdate(node_id, end.boot_id, end.sequence, roll_up(words, ended))

    def _words(self, boot_id: int, begin: int, end: int) -> Iterator[tuple[int, NodeReading]]:
        place = (boot_id, begin, end)
        reports = self._connection.execute(_REPORTS, place).fetchall()
        times = {row[0]: report_time(row[2], row[3]) for row in reports}
        said: defaultdict[int, list[ContainerReading]] = defaultdict(list)
        for report_id, container_id, joules in self._connection.execute(_ENDS, place):
            said[report_id].append(ContainerReading(container_id, None, joules))
        for report_id, container_id, joules, is_there, window_seconds, *values in self._connection.execute(
            _CONTAINER_SAMPLES, place
        ):
            look = Sample(times[report_id], window_seconds or 0.0, tuple(values) if is_there else None)
            said[report_id].append(ContainerReading(container_id, look, joules))
        for (
            report_id,
            sequence,
            _,
            _,
            is_heartbeat,
            joules,
            idle_watts,
            has_state,
            window,
            *values,
        ) in reports:
            at = times[report_id]
            yield (
                sequence,
                NodeReading(
                    at=at,
                    is_heartbeat=bool(is_heartbeat),
                    node=Sample(at, window, tuple(values)) if has_state else None,
                    joules_total=joules,
                    idle_watts=idle_watts or 0.0,
                    containers=said[report_id],
                ),
            )


class RollupWriter:
    """Adds to the rollups, each call in one transaction of the writer's connection."""

    def __init__(self, connection: sqlite3.Connection, writer: SqliteWriter) -> None:
        self._connection = connection
        self._writer = writer

    def add(self, several: Sequence[RollupUpdate]) -> None:
        """Add what some nodes said, and note that it was added."""
        with self._writer.transaction():
            for condensed in several:
                self._add(condensed)

    def _add(self, condensed: RollupUpdate) -> None:
        gains = condensed.gains
        self._connection.executemany(
            _ADD_NODE, [(step, slot, condensed.node_id, *rest) for step, slot, *rest in gains.nodes]
        )
        self._connection.executemany(
            _ADD_CONTAINER,
            [(step, slot, container_id, *rest) for container_id, (step, slot, *rest) in gains.containers],
        )
        self._connection.executemany(
            "UPDATE containers SET ended_joules_total = ? WHERE id = ?",
            [(joules, container_id) for container_id, joules in gains.ended.items()],
        )
        self._connection.execute(
            "REPLACE INTO rolled (node_id, boot_id, sequence) VALUES (?, ?, ?)",
            (condensed.node_id, condensed.boot_id, condensed.sequence),
        )


def _adding(table: str, subject: str, joules: Sequence[str]) -> str:
    """Add to a row, or make it; what is not known changes nothing."""
    columns = ("step", "slot", subject, *ROLLUP_VALUES, *joules)
    sums = [
        f"{name} = coalesce({name} + excluded.{name}, {name}, excluded.{name})"
        for name in ("seconds", *ROLLUP_SUMS, *joules)
    ]
    most = [
        f"{name} = max(coalesce({name}, excluded.{name}), coalesce(excluded.{name}, {name}))"
        for name in ROLLUP_MAXIMA
    ]
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' for _ in columns)}) "  # noqa: S608 - names of our own
        f"ON CONFLICT (step, slot, {subject}) DO UPDATE SET {', '.join([*sums, *most])}"
    )


_ADD_NODE = _adding("node_rollups", "node_id", NODE_JOULES)
_ADD_CONTAINER = _adding("container_rollups", "container_id", CONTAINER_JOULES)
