"""Series of a node, container or service: from samples while they are kept, else from rollups."""

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from collector.analysis.usage import to_quantities
from collector.history.interface import Point, Series, SubjectKind
from collector.history.rollups import FINE_SECONDS, MILLIONTHS, MILLISECONDS, STEPS
from collector.history.sqlite.schema import ROLLUP_VALUES, SAMPLE_VALUES
from collector.history.timeline import (
    PRESSURE,
    WATTS,
    WIDTH,
    BucketSums,
    Samples,
    add_known,
    columns,
    hold,
    merge_buckets,
    report_time,
    sum_buckets,
)
from wire.messages import Pressure

MAX_POINTS = 2000
RAW = 0
"""The resolution of samples, among the steps of rollups."""
_FEW_BUCKETS = 3
"""With fewer rollups, a chart has hardly a line to draw."""
_MOST_SAMPLED = 20
"""Containers of a service whose samples are read: each costs a look into all reports of its node."""
LOOKBACK_SECONDS = 900.0
"""The values at the start of a period come with the last heartbeat before it."""


def resolution_for(step_seconds: float, start: float, oldest_at: Mapping[int, float]) -> int:
    """The step of the rollups to read, or 0 for samples.

    The coarsest that fits the requested step; or a coarser one if only that goes back to `start`.
    """
    resolutions = sorted({RAW, *STEPS} & {RAW, *oldest_at})
    resolution = max(each for each in resolutions if each <= max(step_seconds, RAW))
    for coarser in resolutions[resolutions.index(resolution) + 1 :]:
        available_from = oldest_at.get(resolution, math.inf)
        if available_from > start and oldest_at.get(coarser, math.inf) + coarser < available_from:
            resolution = coarser
    return resolution


def step_for(step_seconds: float, start: float, end: float, resolution: int) -> float:
    """The step of the series: no finer than its source, and at most `MAX_POINTS` points."""
    step = max(step_seconds, (end - start) / (MAX_POINTS - 1), 1.0)
    return resolution * math.ceil(step / resolution) if resolution else step


def points_of(sums: BucketSums, kind: SubjectKind, start: float, step_seconds: float) -> tuple[Point, ...]:
    """The points that end after `start`: sums over all subjects, over the time of the one with most."""
    order = np.argsort(sums.bucket, kind="stable")
    buckets, starts = np.unique(sums.bucket[order], return_index=True)
    if not buckets.size:
        return ()
    seconds = np.maximum.reduceat(sums.seconds[order], starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(seconds > 0, add_known(sums.totals[order], starts).T / seconds, np.nan).T
    maxima = add_known(sums.maxima[order], starts)
    return tuple(
        Point(
            at=bucket * step_seconds,
            mean=to_quantities(mean[:WATTS]),
            max=to_quantities(highest[:WATTS]),
            mean_watts=None if math.isnan(mean[WATTS]) else mean[WATTS],
            max_watts=None if math.isnan(highest[WATTS]) else highest[WATTS],
            mean_pressure=_pressure(mean, kind),
            max_pressure=_pressure(highest, kind),
        )
        for bucket, mean, highest in zip(buckets.tolist(), means.tolist(), maxima.tolist(), strict=True)
        if start < (bucket + 1) * step_seconds
    )


def _pressure(values: Sequence[float], kind: SubjectKind) -> Pressure:
    if kind is SubjectKind.SERVICE:
        return Pressure()  # shares of time do not add up
    return Pressure(*(None if math.isnan(each) else min(1.0, each) for each in values[PRESSURE]))


def oldest_times(connection: sqlite3.Connection) -> dict[int, float]:
    """The time of the oldest sample, and of the oldest rollup of each step."""
    found = {}
    for step in STEPS:
        (bucket,) = connection.execute(_OLDEST_BUCKET, (step,)).fetchone()
        if bucket is not None:
            found[step] = float(bucket * step)
    (received_at,) = connection.execute("SELECT min(received_at) FROM reports").fetchone()
    if received_at is not None:
        found[RAW] = received_at
    return found


def read_series(
    connection: sqlite3.Connection,
    subject: tuple[SubjectKind, str],
    start: float,
    end: float,
    step_seconds: float,
) -> Series:
    """The series of one subject in `[start, end)`."""
    kind, name = subject
    oldest_at = oldest_times(connection)
    found = connection.execute(_SUBJECTS[kind], (name,)).fetchall()
    recent = [number for number, used_at in found if used_at >= oldest_at.get(RAW, math.inf)]
    # The samples of a service are spread over all reports; its rollups have an index.
    is_small = kind is not SubjectKind.SERVICE or len(recent) <= _MOST_SAMPLED
    finest = RAW if is_small else FINE_SECONDS
    resolution = max(finest, resolution_for(max(step_seconds, finest), start, oldest_at))
    step = step_for(step_seconds, start, end, resolution)
    query = _Query(connection, kind, start, end)
    if not resolution:
        return Series(step_seconds=step, points=query.samples(recent, step))
    points = query.rollups([number for number, _ in found], step, resolution)
    if is_small and len(points) < min(_FEW_BUCKETS, (end - start) / step):
        # What is new has hardly any rollups yet.
        own_step = step_for(step_seconds, start, end, RAW)
        sampled = query.samples(recent, own_step)
        if len(sampled) > len(points):
            return Series(step_seconds=own_step, points=sampled)
    return Series(step_seconds=step, points=points)


@dataclass(frozen=True, slots=True)
class _Query:
    """A period of subjects of one kind."""

    connection: sqlite3.Connection
    kind: SubjectKind
    start: float
    end: float

    def rollups(self, subjects: Sequence[int], step: float, resolution: int) -> tuple[Point, ...]:
        statement = _NODE_ROLLUPS if self.kind is SubjectKind.NODE else _CONTAINER_ROLLUPS
        buckets = range(int(self.start // resolution), math.ceil(self.end / resolution))
        given = {"step": resolution, "buckets": json.dumps(list(buckets))}
        found = [
            (subject, *row)
            for subject in subjects
            for row in self.connection.execute(statement, {**given, "subject": subject})
        ]
        rows = columns(found, 3 + 2 * WIDTH)
        totals, maxima = rows[:, 3 : 3 + WIDTH], rows[:, 3 + WIDTH :]
        totals[:, PRESSURE] /= MILLISECONDS
        maxima[:, PRESSURE] /= MILLIONTHS
        bucket = (rows[:, 1] * resolution // step).astype(np.int64)
        parts = BucketSums(rows[:, 0].astype(np.int64), bucket, rows[:, 2], totals, maxima)
        return points_of(merge_buckets(parts), self.kind, self.start, step)

    def samples(self, subjects: Sequence[int], step: float) -> tuple[Point, ...]:
        statement = _NODE_SAMPLES if self.kind is SubjectKind.NODE else _CONTAINER_SAMPLES
        since = self.start - LOOKBACK_SECONDS
        parts, until = [], []
        for subject in subjects:
            rows = columns(self.connection.execute(statement, (subject, since)).fetchall(), 5 + WIDTH)
            at = [report_time(own, received) for own, received in rows[:, :2].tolist()]
            rows[:, 0] = np.maximum.accumulate(at) if at else at
            rows[:, 1] = subject
            if rows[:, 2].any():
                parts.append(rows[rows[:, 2] != 0])
                # The last values apply until the node's last report.
                until.append(rows[-1, 0])
        if not parts:
            return ()
        at, subject, _, exists, window_seconds, *values = np.concatenate(parts).T
        samples = Samples(
            subject=subject.astype(np.int64),
            at=at,
            window_seconds=np.nan_to_num(window_seconds, nan=0.0),
            exists=exists != 0,
            values=np.column_stack(values),
            from_at=np.full(at.size, self.start),
        ).held_until(np.array(until))
        sums = sum_buckets(samples, hold(samples).within(self.start, self.end), step)
        return points_of(sums, self.kind, self.start, step)


_SUBJECTS = {
    SubjectKind.NODE: "SELECT id, last_used_at FROM nodes WHERE name = ?",
    SubjectKind.CONTAINER: "SELECT id, last_used_at FROM containers WHERE runtime_id = ?",
    SubjectKind.SERVICE: """
        SELECT c.id, c.last_used_at FROM facts f JOIN containers c ON c.facts_id = f.id
        WHERE json_extract(f.body, '$.service') = ?""",
}
_OLDEST_BUCKET = "SELECT min(bucket) FROM node_rollups WHERE step = ?"
_ROLLUP = f"""
SELECT r.bucket, {", ".join(f"r.{name}" for name in ROLLUP_VALUES)}
FROM json_each(:buckets) each CROSS JOIN {{table}} r
ON r.step = :step AND r.bucket = each.value AND r.{{subject}} = :subject
"""  # noqa: S608 - names of our own
_NODE_ROLLUPS = _ROLLUP.format(table="node_rollups", subject="node_id")
_CONTAINER_ROLLUPS = _ROLLUP.format(table="container_rollups", subject="container_id")
_VALUES = ", ".join(f"s.{name}" for name in SAMPLE_VALUES)
_NODE_SAMPLES = f"""
SELECT r.at, r.received_at, s.report_id IS NOT NULL, 1, s.window_seconds, {_VALUES}
FROM boots b JOIN reports r ON r.boot_id = b.id LEFT JOIN node_samples s ON s.report_id = r.id
WHERE b.node_id = ? AND r.received_at >= ? ORDER BY b.id, r.sequence
"""  # noqa: S608 - names of our own
_CONTAINER_SAMPLES = f"""
SELECT r.at, r.received_at, s.report_id IS NOT NULL, s.facts_id IS NOT NULL, s.window_seconds, {_VALUES}
FROM containers c JOIN boots b ON b.node_id = c.node_id JOIN reports r ON r.boot_id = b.id
LEFT JOIN container_samples s ON s.report_id = r.id AND s.container_id = c.id
WHERE c.id = ? AND r.received_at >= ? ORDER BY b.id, r.sequence
"""  # noqa: S608 - names of our own
