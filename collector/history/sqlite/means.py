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

from collector.common.arrays import Floats, Numbers
from collector.history.interface import Mean, Subject, SubjectKind, WindowEnd
from collector.history.timeline import Samples, hold

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


def read_means(
    connection: sqlite3.Connection, kind: SubjectKind, window_seconds: float, window_ends: Sequence[WindowEnd]
) -> dict[Subject, Mean]:
    """Of these nodes, or of their containers."""
    query = _NODE_SAMPLES if kind is SubjectKind.NODE else _CONTAINER_SAMPLES
    found: dict[Subject, Mean] = {}
    for start in range(0, len(window_ends), _NODE_BATCH):
        ends = [(each.node, each.boot, each.at) for each in window_ends[start : start + _NODE_BATCH]]
        given = {"window": window_seconds, "window_ends": msgspec.json.encode(ends).decode()}
        found |= _means_of(connection.execute(query, given).fetchall())
    return found


def _means_of(rows: Sequence[tuple[Any, ...]]) -> dict[Subject, Mean]:
    if not rows:
        return {}
    nodes, containers, subjects = zip(*(row[:3] for row in rows), strict=True)
    numbers = np.array([row[3:] for row in rows], dtype=np.float64)
    # A client can send values whose sum overflows; only its own means are affected.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = _weighted_means(np.array(subjects, dtype=np.int64), numbers)
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


def _weighted_means(subjects: Numbers, columns: Floats) -> list[list[float]]:
    """Per subject: its first row, whether it exists, number of samples, their seconds, and the means.

    A row per sample, sorted by subject: begin and end of its window, its time, the number of its facts (NaN
    if it no longer exists), the length of its own window, CPU cores, memory bytes, watts, and the counters of
    joules and CPU seconds.
    """
    from_at, until_at, at, facts, window_seconds, *gauges, joules_total, cpu_seconds_total = columns.T
    reported = Samples(
        subject=subjects,
        at=at,
        window_seconds=window_seconds,
        exists=~np.isnan(facts),
        values=np.column_stack(gauges),
        from_at=np.full(at.size, -np.inf),
    )
    last = reported.ends
    # The last samples apply until the end of the window. Nothing was counted since.
    samples = reported.held_until(until_at[last])
    rates = (_rates(reported, cpu_seconds_total), np.full(at.size, np.nan), _rates(reported, joules_total))
    counted = np.insert(np.column_stack(rates), last + 1, np.nan, axis=0)
    ends, periods = samples.ends, hold(samples)
    of_subject = np.searchsorted(ends, periods.sample)
    periods = periods.within(from_at[last][of_subject], until_at[last][of_subject])
    of_subject, seconds = np.searchsorted(ends, periods.sample), periods.ends_at - periods.begins_at
    # A counter covers all the time between two samples; without one, the gauge counts.
    rate = counted[periods.ended_by]
    values = np.where(np.isnan(rate), samples.values[periods.sample], rate)
    latest = np.where(samples.exists[ends, None], samples.values[ends], np.nan)
    is_used = np.zeros(samples.at.size)
    is_used[periods.sample] = is_used[ends[samples.exists[ends]] - 1] = 1.0
    starts = np.append([0], last[:-1] + 1)
    found = np.column_stack(
        (
            starts,
            np.logical_or.reduceat(reported.exists, starts),
            np.add.reduceat(is_used, np.append([0], ends[:-1] + 1)),
            np.bincount(of_subject, seconds, ends.size),
            *(_means(of_subject, seconds, *each) for each in zip(values.T, latest.T, strict=True)),
        )
    )
    return found.tolist()  # type: ignore[no-any-return]


def _means(of_subject: Numbers, seconds: Floats, values: Floats, latest: Floats) -> Floats:
    """The mean of each subject; if no time has passed yet, its last sample."""
    known = ~np.isnan(values)
    total = np.bincount(of_subject[known], values[known] * seconds[known], latest.size)
    known_seconds = np.bincount(of_subject[known], seconds[known], latest.size)
    return np.where(known_seconds > 0, total / known_seconds, latest)


def _rates(samples: Samples, counter: Floats) -> Floats:
    """The rate of a counter since the previous sample; unknown if the counter was reset."""
    increase, seconds = np.diff(counter, prepend=np.nan), np.diff(samples.at, prepend=np.nan)
    is_same = np.diff(samples.subject, prepend=-1) == 0
    return np.where(is_same & (increase >= 0) & (seconds > 0), increase / seconds, np.nan)
