"""Series of a node, container or service: from samples while they are kept, else from rollups."""

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.history.interface import Point, Series, SubjectKind
from collector.history.sqlite.rollups import FINE_SECONDS, STEPS
from collector.history.sqlite.schema import ROLLUP_VALUES, SAMPLE_VALUES
from collector.history.sqlite.timeline import (
    PRESSURE,
    WATTS,
    WIDTH,
    Interval,
    Sample,
    SlotSums,
    intervals,
    report_time,
    sum_slots,
)
from wire.messages import Pressure
from wire.resources import Quantities

MAX_POINTS = 2000
_RAW = 0
_FEW_SLOTS = 3
"""With fewer rollups, a chart has hardly a line to draw."""
_MOST_SAMPLED = 20
"""Containers of a service whose samples are read: each costs a look into all reports of its node."""
LOOKBACK_SECONDS = 900.0
"""The values at the start of a period come with the last heartbeat before it."""
_LARGEST = 2**63 - 1

Slots = dict[int, list[SlotSums]]
"""Per slot, the sums of each node or container."""


def resolution_for(step_seconds: float, start: float, oldest_at: Mapping[int, float]) -> int:
    """The step of the rollups to read, or 0 for samples.

    The coarsest that fits the requested step; or a coarser one if only that goes back to `start`.
    """
    resolutions = sorted({_RAW, *STEPS} & {_RAW, *oldest_at})
    resolution = max(each for each in resolutions if each <= max(step_seconds, _RAW))
    for coarser in resolutions[resolutions.index(resolution) + 1 :]:
        available_from = oldest_at.get(resolution, math.inf)
        if available_from > start and oldest_at.get(coarser, math.inf) + coarser < available_from:
            resolution = coarser
    return resolution


def step_for(step_seconds: float, start: float, end: float, resolution: int) -> float:
    """The step of the series: no finer than its source, and at most `MAX_POINTS` points."""
    step = max(step_seconds, (end - start) / (MAX_POINTS - 1), 1.0)
    return resolution * math.ceil(step / resolution) if resolution else step


def oldest_times(connection: sqlite3.Connection) -> dict[int, float]:
    """The time of the oldest sample, and of the oldest rollup of each step."""
    found = {}
    for step in STEPS:
        (slot,) = connection.execute(_OLDEST_SLOT, (step,)).fetchone()
        if slot is not None:
            found[step] = float(slot * step)
    (received_at,) = connection.execute("SELECT min(received_at) FROM reports").fetchone()
    if received_at is not None:
        found[_RAW] = received_at
    return found


class SeriesReader:
    """Reads series."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def read(self, kind: SubjectKind, name: str, start: float, end: float, step_seconds: float) -> Series:
        """The series of one subject in `[start, end)`."""
        oldest_at = oldest_times(self._connection)
        found = self._connection.execute(_SUBJECTS[kind], (name,)).fetchall()
        recent = [number for number, used_at in found if used_at >= oldest_at.get(_RAW, math.inf)]
        # The samples of a service are spread over all reports; its rollups have an index.
        is_small = kind is not SubjectKind.SERVICE or len(recent) <= _MOST_SAMPLED
        finest = _RAW if is_small else FINE_SECONDS
        resolution = max(finest, resolution_for(max(step_seconds, finest), start, oldest_at))
        step = step_for(step_seconds, start, end, resolution)
        if resolution:
            slots = self._rollups(_Query(kind, [number for number, _ in found], start, end, step), resolution)
        else:
            slots = self._samples(_Query(kind, recent, start, end, step))
        if resolution and is_small and len(slots) < min(_FEW_SLOTS, (end - start) / step):
            # What is new has hardly any rollups yet.
            own_step = step_for(step_seconds, start, end, _RAW)
            sampled = self._samples(_Query(kind, recent, start, end, own_step))
            if len(sampled) > len(slots):
                slots, step = sampled, own_step
        points = tuple(
            _point(slot * step, slots[slot], kind) for slot in sorted(slots) if start < (slot + 1) * step
        )
        return Series(step_seconds=step, points=points)

    def _rollups(self, query: "_Query", step: int) -> Slots:
        statement = _NODE_ROLLUPS if query.kind is SubjectKind.NODE else _CONTAINER_ROLLUPS
        numbers = json.dumps(list(range(int(query.start // step), math.ceil(query.end / step))))
        merged: defaultdict[int, dict[int, SlotSums]] = defaultdict(dict)
        for subject in query.subjects:
            given = {"step": step, "slots": numbers, "subject": subject}
            for slot, seconds, *values in self._connection.execute(statement, given):
                sums = merged[int(slot * step // query.step)].setdefault(subject, SlotSums())
                sums.merge(SlotSums.of_stored(seconds, values))
        return {slot: list(each.values()) for slot, each in merged.items()}

    def _samples(self, query: "_Query") -> Slots:
        statement = _NODE_SAMPLES if query.kind is SubjectKind.NODE else _CONTAINER_SAMPLES
        slots: defaultdict[int, list[SlotSums]] = defaultdict(list)
        for subject in query.subjects:
            rows = self._connection.execute(statement, (subject, query.start - LOOKBACK_SECONDS))
            periods = _clipped(_parse_samples(rows), query.start, query.end)
            for slot, sums in sum_slots(periods, query.step).items():
                slots[slot].append(sums)
        return slots


@dataclass(frozen=True, slots=True)
class _Query:
    """The ids of the subject, the period and the step."""

    kind: SubjectKind
    subjects: Sequence[int]
    start: float
    end: float
    step: float


def _parse_samples(rows: Iterator[Sequence[float | None]]) -> list[Sample]:
    """The samples; the last one is repeated at the time of the node's last report."""
    samples: list[Sample] = []
    last_at = -math.inf
    for at, received_at, is_sample, exists, window_seconds, *values in rows:
        last_at = max(last_at, report_time(at or 0.0, received_at or 0.0))
        if is_sample:
            samples.append(Sample(last_at, window_seconds or 0.0, tuple(values) if exists else None))
    if samples and last_at > samples[-1].at:
        samples.append(Sample(last_at, 0.0, samples[-1].values))
    return samples


def _clipped(samples: Sequence[Sample], start: float, end: float) -> Iterator[Interval]:
    for period in intervals(samples, start):
        begins_at, ends_at = max(start, period.begins_at), min(end, period.ends_at)
        if begins_at < ends_at:
            yield Interval(begins_at, ends_at, period.values)


def _point(at: float, parts: Sequence[SlotSums], kind: SubjectKind) -> Point:
    """The sum of several containers, over the time of the one with most samples."""
    seconds = max(sums.seconds for sums in parts)
    means, maxima = [], []
    for index in range(WIDTH):
        totals = [total for sums in parts if (total := sums.totals[index]) is not None]
        highest = [each for sums in parts if (each := sums.maxima[index]) is not None]
        means.append(sum(totals) / seconds if totals and seconds else None)
        maxima.append(sum(highest) if highest else None)
    return Point(
        at=at,
        mean=_quantities(means),
        max=_quantities(maxima),
        mean_watts=means[WATTS],
        max_watts=maxima[WATTS],
        # Shares of time do not add up.
        mean_pressure=Pressure() if kind is SubjectKind.SERVICE else _pressure(means),
        max_pressure=Pressure() if kind is SubjectKind.SERVICE else _pressure(maxima),
    )


def _pressure(values: Sequence[float | None]) -> Pressure:
    return Pressure(*(None if each is None else min(1.0, each) for each in values[PRESSURE]))


def _quantities(values: Sequence[float | None]) -> Quantities:
    cpu, memory, disk, network = values[:WATTS]
    return Quantities(cpu, None if memory is None else min(round(memory), _LARGEST), disk, network)


_SUBJECTS = {
    SubjectKind.NODE: "SELECT id, last_used_at FROM nodes WHERE name = ?",
    SubjectKind.CONTAINER: "SELECT id, last_used_at FROM containers WHERE runtime_id = ?",
    SubjectKind.SERVICE: """
        SELECT c.id, c.last_used_at FROM facts f JOIN containers c ON c.facts_id = f.id
        WHERE json_extract(f.body, '$.service') = ?""",
}
_OLDEST_SLOT = "SELECT min(slot) FROM node_rollups WHERE step = ?"
_ROLLUP = f"""
SELECT r.slot, {", ".join(f"r.{name}" for name in ROLLUP_VALUES)}
FROM json_each(:slots) each CROSS JOIN {{table}} r
ON r.step = :step AND r.slot = each.value AND r.{{subject}} = :subject
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
