"""Read usage in buckets of five minutes: from the rollups, and from reports that they do not include yet.

A large cluster has hundreds of thousands of samples: they go from the file into columns as they are.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from collector.common.arrays import Floats, Numbers
from collector.history.interface import StoredUsage
from collector.history.rollups import FINE_SECONDS
from collector.history.sqlite.rollup_store import IN_RANGE, PendingReports, RollupReader
from collector.history.sqlite.rows import Row
from collector.history.timeline import BucketSums, Samples, hold, sum_buckets

_SUMS = "bucket, coalesce(seconds, 0.0), cpu_core_seconds, memory_byte_seconds, disk_bytes, network_bytes"
_SINCE = f"WHERE step = {FINE_SECONDS} AND bucket >= ?"
_NODES = f"SELECT node_id, {_SUMS} FROM node_rollups {_SINCE}"  # noqa: S608 - names of our own
_CONTAINERS = f"SELECT container_id, {_SUMS} FROM container_rollups {_SINCE}"  # noqa: S608 - names of our own
_NAMES = """
SELECT c.id, n.name, c.runtime_id FROM containers c JOIN nodes n ON n.id = c.node_id ORDER BY c.id
"""
_REPORTS = f"""
SELECT r.id, r.at, r.received_at, r.heartbeat IS NOT NULL FROM reports r {IN_RANGE} ORDER BY r.sequence
"""  # noqa: S608 - names of our own
_SAMPLE = "s.window_seconds, s.cpu_cores, s.memory_bytes, s.disk_bytes_per_second, s.network_bytes_per_second"
_NODE_SAMPLES = f"""
SELECT :node, r.id, 1, {_SAMPLE} FROM reports r JOIN node_samples s ON s.report_id = r.id {IN_RANGE}
"""  # noqa: S608 - names of our own
_CONTAINER_SAMPLES = f"""
SELECT s.container_id, r.id, s.facts_id IS NOT NULL, {_SAMPLE}
FROM reports r JOIN container_samples s ON s.report_id = r.id {IN_RANGE}
"""  # noqa: S608 - names of our own
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
        subjects = _Subjects(
            connection.execute("SELECT id, name FROM nodes ORDER BY id").fetchall(),
            [each for each in connection.execute(_NAMES) if each[2] in containers],
        )
        parts = [*_rolled_up(connection, first, subjects), *_pending(connection, subjects)]
    finally:
        connection.execute("ROLLBACK")
    subject, bucket, seconds, totals, maxima = (np.concatenate(column) for column in zip(*parts, strict=True))
    sums = BucketSums(subject, bucket, seconds, totals, maxima)
    return StoredUsage(subjects.names, sums.take(bucket >= first))


def _rolled_up(connection: sqlite3.Connection, first: int, subjects: "_Subjects") -> Iterator[BucketSums]:
    for query, places in ((_NODES, subjects.nodes), (_CONTAINERS, subjects.containers)):
        rows = _columns(connection.execute(query, (first,)).fetchall(), width=7)
        subject, some = places(rows[:, 0])
        bucket, seconds, totals = rows[some, 1].astype(np.int64), rows[some, 2], rows[some, 3:]
        yield BucketSums(subject, bucket, seconds, totals, maxima=totals[:, :0])


def _pending(connection: sqlite3.Connection, subjects: "_Subjects") -> Iterator[BucketSums]:
    rollups = RollupReader(connection)
    for start in range(0, len(subjects.node_ids), _NODES_AT_ONCE):
        reading = _Reading(connection)
        for node_id in subjects.node_ids[start : start + _NODES_AT_ONCE]:
            reading.read(node_id, rollups.pending(node_id))
        samples = reading.samples(subjects)
        sums = sum_buckets(samples, hold(samples), FINE_SECONDS)
        yield sums._replace(maxima=sums.maxima[:, :0])


class _Subjects:
    """Nodes, then containers, each by its number in the file."""

    def __init__(self, nodes: Sequence[tuple[int, str]], containers: Sequence[tuple[int, str, str]]) -> None:
        self.node_ids = [node_id for node_id, _ in nodes]
        self.names: list[tuple[str, str | None]] = [(name, None) for _, name in nodes]
        self.names += [(node, runtime_id) for _, node, runtime_id in containers]
        self._nodes = np.array(self.node_ids, dtype=np.int64)
        self._containers = np.array([container_id for container_id, _, _ in containers], dtype=np.int64)

    def nodes(self, numbers: Floats) -> tuple[Numbers, Numbers]:
        """The places in `names` of nodes that exist, and which of them do."""
        return _find(self._nodes, numbers)

    def containers(self, numbers: Floats) -> tuple[Numbers, Numbers]:
        """The places in `names` of containers that exist, and which of them do."""
        places, some = _find(self._containers, numbers)
        return places + self._nodes.size, some


class _Reading:
    """Samples of some nodes and their containers, which are summed up at once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._reports: list[tuple[int, float, float]] = []
        """Id, time, and the time from which the samples of its node count; in order for each node."""
        self._nodes: list[Row] = []
        self._containers: list[Row] = []

    def read(self, node_id: int, pending: PendingReports) -> None:
        """Read the samples of a node and its containers, from a first heartbeat on."""
        from_at: float | None = None
        for given in pending.ranges:
            for report_id, own_at, received_at, is_heartbeat in self._execute(_REPORTS, given):
                at = pending.clock.time_of(own_at, received_at)
                if from_at is None and is_heartbeat:
                    from_at = at
                if from_at is not None:
                    self._reports.append((report_id, at, from_at))
            self._nodes += self._execute(_NODE_SAMPLES, {**given, "node": node_id})
            self._containers += self._execute(_CONTAINER_SAMPLES, given)

    def _execute(self, query: str, given: Mapping[str, Any]) -> list[Row]:
        return self._connection.execute(query, given).fetchall()

    def samples(self, subjects: _Subjects) -> Samples:
        """All samples that were read, by subject."""
        nodes, containers = _columns(self._nodes, width=8), _columns(self._containers, width=8)
        node, some_nodes = subjects.nodes(nodes[:, 0])
        container, some_containers = subjects.containers(containers[:, 0])
        subject = np.concatenate((node, container))
        rows = np.concatenate((nodes[some_nodes], containers[some_containers]))
        reports = _columns(self._reports, width=3)
        by_id = np.argsort(reports[:, 0])
        # A report from before the first heartbeat is not there.
        found, some = _find(reports[by_id, 0].astype(np.int64), rows[:, 1])
        report = by_id[found]
        order = np.lexsort((report, subject[some]))
        subject, report, rows = subject[some][order], report[order], rows[some][order]
        return Samples(
            subject=subject,
            at=reports[report, 1],
            window_seconds=np.nan_to_num(rows[:, 3], nan=0.0),
            exists=rows[:, 2] != 0,
            values=rows[:, 4:],
            from_at=reports[report, 2],
        )


def _columns(rows: Sequence[Row], width: int) -> Floats:
    """Rows of numbers as one array; null becomes NaN. Ids are exact: they are far below 2^53."""
    return np.array(rows, dtype=np.float64).reshape(-1, width)


def _find(known: Numbers, numbers: Floats) -> tuple[Numbers, Numbers]:
    """The places of numbers in a sorted column, and which of them are in it."""
    wanted = numbers.astype(np.int64)
    places = np.searchsorted(known, wanted)
    some = np.flatnonzero(known[np.minimum(places, known.size - 1)] == wanted) if known.size else wanted[:0]
    return places[some], some
