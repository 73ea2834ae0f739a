"""Power of the cluster over time: from the samples of all nodes while they are kept, else from rollups."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import ceil, fsum, inf
from typing import NamedTuple

import numpy as np

from collector.common.arrays import Floats
from collector.history.interface import ClusterPoint, ClusterSeries
from collector.history.rollups import FINE_SECONDS
from collector.history.sqlite.series import LOOKBACK_SECONDS, oldest_times, resolution_for, step_for
from collector.history.timeline import Samples, hold, report_time, sum_buckets

_HELD_SECONDS = 60.0
"""A node that reported within this time, two default beacons, counts with its last reported values."""
_MOST_SAMPLES = 200_000
"""Reports that one request reads, which takes 100 MB for a while. Rollups serve what has more."""
_WATTS, _ERROR = 0, 3
"""Columns of samples; between them are idle and system watts."""


class _Part(NamedTuple):
    """A part of a step of the series: joules of all nodes, and the time that they cover."""

    joules: float
    idle_joules: float
    containers_joules: float
    error_joules: float
    seconds: float
    nodes: int


def _point(at: float, parts: Sequence[_Part]) -> ClusterPoint:
    *sums, seconds, _ = (sum(column) for column in zip(*parts, strict=True))
    watts, idle, containers, error = (joules / seconds for joules in sums)
    return ClusterPoint(
        at=at,
        watts=watts,
        idle_watts=idle,
        # Rounding can make it negative.
        system_watts=max(0.0, watts - idle - containers),
        containers_watts=containers,
        error_watts=error,
        nodes=max(part.nodes for part in parts),
    )


def read_cluster_series(
    connection: sqlite3.Connection,
    start: float,
    end: float,
    step_seconds: float,
    error_ratios: Mapping[str, float],
) -> ClusterSeries:
    """The series in `[start, end)`."""
    oldest = oldest_times(connection)
    resolution = resolution_for(step_seconds, start, oldest)
    if not resolution and FINE_SECONDS in oldest and _has_many_samples(connection, start, end):
        resolution = FINE_SECONDS
    step = step_for(step_seconds, start, end, resolution)
    found = (
        _from_rollups(connection, (start, end), step, resolution, error_ratios)
        if resolution
        else _from_samples(connection, start, end, step)
    )
    points = tuple(
        _point(bucket * step, found[bucket]) for bucket in sorted(found) if start < (bucket + 1) * step
    )
    return ClusterSeries(step_seconds=step, points=points)


def _has_many_samples(connection: sqlite3.Connection, start: float, end: float) -> bool:
    given = {"since": start - LOOKBACK_SECONDS, "until": end + _HELD_SECONDS, "most": _MOST_SAMPLES}
    (count,) = connection.execute(_COUNT, given).fetchone()
    return bool(count > _MOST_SAMPLES)


def _from_rollups(
    connection: sqlite3.Connection,
    period: tuple[float, float],
    step: float,
    resolution: int,
    error_ratios: Mapping[str, float],
) -> Mapping[int, Sequence[_Part]]:
    given = {
        "step": resolution,
        "first": int(period[0] // resolution),
        "after": ceil(period[1] / resolution),
        "ratios": json.dumps(error_ratios),
        "other_ratio": fsum(error_ratios.values()) / len(error_ratios) if error_ratios else 0.0,
    }
    found: defaultdict[int, list[_Part]] = defaultdict(list)
    nodes_before = 0
    for bucket, nodes, begins_at, ends_at, *sums in connection.execute(_ROLLUPS, given):
        is_whole = begins_at <= bucket * resolution and ends_at >= (bucket + 1) * resolution
        if not is_whole and nodes < nodes_before:
            continue  # it has just begun, and not all nodes are in it
        nodes_before = nodes
        # While a bucket lasts, each node covers another part of it: then the mean power of each counts.
        seconds = resolution if is_whole else max(1.0, ends_at - begins_at)
        joules = sums[:4] if is_whole else [watts * seconds for watts in sums[4:]]
        found[int(bucket * resolution // step)].append(
            _Part(joules[0], joules[1], joules[2], joules[3], seconds, nodes)
        )
    return found


def _from_samples(
    connection: sqlite3.Connection, start: float, end: float, step: float
) -> Mapping[int, Sequence[_Part]]:
    given = {"since": start - LOOKBACK_SECONDS, "until": end + _HELD_SECONDS}
    rows = np.array(connection.execute(_SAMPLES, given).fetchall(), dtype=np.float64).reshape(-1, 8)
    last = np.array(connection.execute(_LAST, given).fetchall(), dtype=np.float64).reshape(-1, 2)
    if not rows.size:
        return {}
    samples = _samples(rows, last, end)
    columns = sum_buckets(samples, hold(samples), step)
    found: dict[int, Sequence[_Part]] = {}
    latest = int((end - 1e-6) // step)
    order = np.argsort(columns.bucket, kind="stable")
    buckets, begins = np.unique(columns.bucket[order], return_index=True)
    for bucket, some in zip(buckets.tolist(), np.split(order, begins)[1:], strict=True):
        if not start < (bucket + 1) * step or bucket > latest:
            continue
        seconds, totals = columns.seconds[some], np.nan_to_num(columns.totals[some], nan=0.0)
        # The last step is not over: what each node used so far counts for all of it.
        span = float(seconds.max()) if bucket in {latest, int(start // step)} else step
        watts = (totals / np.maximum(seconds, 1e-9)[:, None] if span < step else totals / step).sum(axis=0)
        joules, idle, system, error = (watts * span).tolist()
        nodes = int((~np.isnan(columns.totals[some, _WATTS])).sum())
        found[bucket] = [_Part(joules, idle, max(0.0, joules - idle - system), error, span, nodes)]
    return found


def _samples(rows: Floats, last: Floats, end: float) -> Samples:
    """Samples by node, which hold until the node stops reporting."""
    at = np.array([report_time(own, received) for own, received in rows[:, 1:3].tolist()])
    values = rows[:, 4:].copy()
    values[:, _ERROR] *= values[:, _WATTS]
    samples = Samples(
        subject=rows[:, 0].astype(np.int64),
        at=at,
        window_seconds=rows[:, 3],
        exists=np.ones(len(rows), dtype=np.bool_),
        values=values,
        from_at=np.full(len(rows), -inf),
    )
    reported = dict(zip(last[:, 0].astype(np.int64).tolist(), last[:, 1].tolist(), strict=True))
    ends = samples.ends
    until = [
        min(end, max(reported.get(node, -inf), latest) + _HELD_SECONDS)
        for node, latest in zip(samples.subject[ends].tolist(), at[ends].tolist(), strict=True)
    ]
    return samples.held_until(np.maximum(at[ends], until))


_COVERED = "max(1e-3, r.covered_until - r.covered_from)"
_RATIO = "coalesce(e.value, :other_ratio)"
_JOULES = ("r.joules", "r.idle_joules", "r.containers_joules", f"r.joules * {_RATIO}")
_ROLLUPS = f"""
WITH ratios AS MATERIALIZED (
    SELECT n.id, e.value FROM json_each(:ratios) e JOIN nodes n ON n.name = e.key
)
SELECT r.bucket, count(*), min(r.covered_from), max(r.covered_until),
       {", ".join(f"sum({each})" for each in _JOULES)},
       {", ".join(f"sum({each} / {_COVERED})" for each in _JOULES)}
FROM node_rollups r LEFT JOIN ratios e ON e.id = r.node_id
WHERE r.step = :step AND r.bucket >= :first AND r.bucket < :after
    AND r.joules > 0 AND r.covered_until > r.covered_from
GROUP BY r.bucket ORDER BY r.bucket
"""  # noqa: S608 - names of our own
_SAMPLES = """
SELECT b.node_id, r.at, r.received_at, s.window_seconds, s.watts, s.idle_watts, s.system_watts, s.error_ratio
FROM reports r JOIN node_samples s ON s.report_id = r.id JOIN boots b ON b.id = r.boot_id
WHERE r.received_at >= :since AND r.received_at < :until AND s.watts IS NOT NULL
ORDER BY b.node_id, b.id, r.sequence
"""
_LAST = """
SELECT b.node_id, max(r.received_at) FROM reports r JOIN boots b ON b.id = r.boot_id
WHERE r.received_at >= :since AND r.received_at < :until GROUP BY b.node_id
"""
_COUNT = """
SELECT count(*) FROM (
    SELECT 1 FROM reports WHERE received_at >= :since AND received_at < :until LIMIT :most + 1
)
"""
