"""Write the rollups of a past that no report describes."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Floats
from collector.history.sqlite.rollup_store import ADD_CONTAINER, ADD_NODE
from collector.history.sqlite.schema import SET_DETAIL_FROM

_HOUR_SECONDS = 3600


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PastBucket:
    """One bucket of the past: means over it, per node and per container, and the highest values."""

    step_seconds: int
    bucket: int
    """Unix time of its start, divided by its length."""
    covered_from: float
    covered_until: float
    """The part of the bucket that is known."""
    nodes: Floats
    """A row per node: cores, bytes, bytes per second of disk and network, watts."""
    idle_watts: Floats
    container_watts: Floats
    """The sum over the containers of each node."""
    containers: Floats
    """Means and highest values per container, like `nodes`."""
    peak_factor: float
    """The highest values, relative to the means."""
    node_pressure: Floats
    """A row per node: the share of time that tasks waited for CPU, memory and disk."""
    container_pressure: Floats


def write_past(
    connection: sqlite3.Connection,
    nodes: Sequence[str],
    containers: Sequence[str],
    buckets: Iterator[PastBucket],
    detail_from: float,
) -> None:
    """Insert the buckets, for nodes and containers (by id) that reports have named before.

    Buckets of five minutes begin at `detail_from`.
    """
    node_ids = _ids(connection, "SELECT name, id FROM nodes", nodes)
    container_ids = _ids(connection, "SELECT runtime_id, id FROM containers", containers)
    with connection:
        connection.execute("BEGIN")
        for bucket in buckets:
            _insert(connection, bucket, node_ids, container_ids)
        whole_hour = -(-detail_from // _HOUR_SECONDS) * _HOUR_SECONDS
        connection.execute(SET_DETAIL_FROM, (str(whole_hour).encode(),))


def _ids(connection: sqlite3.Connection, query: str, names: Sequence[str]) -> list[int]:
    known = dict(connection.execute(query))
    return [known[name] for name in names]


def _insert(
    connection: sqlite3.Connection, bucket: PastBucket, node_ids: list[int], container_ids: list[int]
) -> None:
    seconds = bucket.covered_until - bucket.covered_from
    key = (bucket.step_seconds, bucket.bucket)
    sums, maxima = _columns(bucket.nodes, bucket.node_pressure, seconds, bucket.peak_factor)
    joules = np.column_stack([bucket.nodes[:, -1], bucket.idle_watts, bucket.container_watts]) * seconds
    connection.executemany(
        ADD_NODE,
        [
            (*key, each, seconds, *totals, *highest, *energy, bucket.covered_from, bucket.covered_until)
            for each, totals, highest, energy in zip(node_ids, sums, maxima, joules.tolist(), strict=True)
        ],
    )
    sums, maxima = _columns(bucket.containers, bucket.container_pressure, seconds, bucket.peak_factor)
    joules = bucket.containers[:, -1] * seconds
    connection.executemany(
        ADD_CONTAINER,
        [
            (*key, each, seconds, *totals, *highest, energy)
            for each, totals, highest, energy in zip(
                container_ids, sums, maxima, joules.tolist(), strict=True
            )
        ],
    )


def _columns(
    means: Floats, pressure: Floats, seconds: float, peak_factor: float
) -> tuple[list[list[float]], list[list[float]]]:
    """The sums and the maxima of rollups, with pressure in milliseconds and millionths."""
    waiting = np.round(pressure * seconds * 1e3)
    highest = np.round(np.minimum(1.0, pressure * peak_factor) * 1e6)
    sums = np.column_stack([means * seconds, waiting]).tolist()
    return sums, np.column_stack([means * peak_factor, highest]).tolist()
