"""Time-weighted means over a window.

A window is measured by the node's own clock, which may be off, and ends with the node's last report: a beacon
confirms that nothing changed. Samples are taken in order of sequence, whatever their clock says; a step back
in time has no weight. Every node repeats all values with its heartbeat, so nothing before the last heartbeat
ahead of the window needs to be read.

SQL finds the samples. They are weighted as columns, all nodes or containers at once, which takes a fraction
of the time of SQL window functions.
"""

import sqlite3
from collections.abc import Sequence
from math import isnan
from typing import Any

import msgspec
import numpy as np

from collector.history.interface import Mean, Subject, SubjectKind, WindowEnd
from collector.history.weighting import weighted_means

_IN_WINDOW = """
WITH windows AS (
    SELECT n.name AS node, b.id AS boot_id,
           json_extract(each.value, '$[2]') - :window AS from_at,
           json_extract(each.value, '$[2]') AS until_at
    FROM json_each(:window_ends) each
    JOIN nodes n ON n.name = json_extract(each.value, '$[0]')
    JOIN boots b ON b.node_id = n.id AND b.name = json_extract(each.value, '$[1]')
), selected AS (
    SELECT w.*, r.id AS report_id, r.sequence, r.at
    FROM windows w JOIN reports r ON r.boot_id = w.boot_id AND r.sequence >= coalesce((
        SELECT h.sequence FROM reports h
        WHERE h.boot_id = w.boot_id AND h.heartbeat IS NOT NULL AND h.at <= w.from_at
        ORDER BY h.sequence DESC LIMIT 1
    ), 0)
)"""

_SAMPLES = """
SELECT p.node, {subject}, p.from_at, p.until_at, p.at, s.facts_id, s.window_seconds, s.cpu_cores,
       s.memory_bytes, s.watts, s.joules_total, {cpu_seconds_total}
FROM selected p JOIN {table} s ON s.report_id = p.report_id
"""
_NODE_SAMPLES = (
    _IN_WINDOW
    + _SAMPLES.format(subject="NULL, p.boot_id", table="node_samples", cpu_seconds_total="NULL")
    + "ORDER BY p.boot_id, p.sequence"
)
_CONTAINER_SAMPLES = (
    _IN_WINDOW
    + _SAMPLES.format(
        subject="c.runtime_id, c.id", table="container_samples", cpu_seconds_total="s.cpu_seconds_total"
    )
    + "JOIN containers c ON c.id = s.container_id ORDER BY c.id, p.sequence"
)
_NODE_BATCH = 20
"""Nodes whose means are computed in one step, during which no other thread can run."""


class MeanReader:
    """Reads means over windows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def read(
        self, kind: SubjectKind, window_seconds: float, window_ends: Sequence[WindowEnd]
    ) -> dict[Subject, Mean]:
        """Of these nodes, or of their containers."""
        query = _NODE_SAMPLES if kind is SubjectKind.NODE else _CONTAINER_SAMPLES
        found: dict[Subject, Mean] = {}
        for start in range(0, len(window_ends), _NODE_BATCH):
            ends = [(each.node, each.boot, each.at) for each in window_ends[start : start + _NODE_BATCH]]
            given = {"window": window_seconds, "window_ends": msgspec.json.encode(ends).decode()}
            found |= _means_of(self._connection.execute(query, given).fetchall())
        return found


def _means_of(rows: Sequence[tuple[Any, ...]]) -> dict[Subject, Mean]:
    if not rows:
        return {}
    nodes, containers, subjects = zip(*(row[:3] for row in rows), strict=True)
    numbers = np.array([row[3:] for row in rows], dtype=np.float64)
    # A client can send values whose sum overflows; only its own means are affected.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = weighted_means(np.array(subjects, dtype=np.int64), numbers)
    means: dict[Subject, Mean] = {}
    for row, exists, samples, seconds, *values in found:
        if exists:
            cores, memory_bytes, watts = (None if isnan(value) else value for value in values)
            means[nodes[int(row)], containers[int(row)]] = Mean(
                samples=int(samples),
                seconds=seconds,
                cpu_cores=cores,
                memory_bytes=None if memory_bytes is None else round(memory_bytes),
                watts=watts,
            )
    return means
