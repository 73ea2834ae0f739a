"""Read usage in buckets of five minutes: from the rollups, and from reports that they do not include yet.

A large cluster has hundreds of thousands of samples: they go from the file into columns as they are.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from collector.history.interface import StoredUsage
from collector.history.rollups import FINE_SECONDS, Readings
from collector.history.sqlite.rollup_store import RollupReader
from collector.history.timeline import BucketSums, columns, find, hold, sum_buckets

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
