"""One node's, container's or service's history, from samples where they are kept, else from rollups."""

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.history.interface import Point, Series, SubjectKind
from collector.history.sqlite.rollups import FINE_SECONDS, STEPS
from collector.history.sqlite.schema import ROLLUP_VALUES
from collector.history.sqlite.timeline import (
    WIDTH,
    Interval,
    Sample,
    SlotSums,
    intervals,
    report_time,
    sum_slots,
)
from wire.resources import Quantities

MAX_POINTS = 2000
_RAW = 0
_LOOK_BACK_SECONDS = 900.0
"""What held at the start of a period was said at the last heartbeat before it."""
_LARGEST = 2**63 - 1

Slots = dict[int, list[SlotSums]]
"""What is known of each slot, of every one of which it is the sum."""


def resolution_for(step_seconds: float, start: float, oldest_at: Mapping[int, float]) -> int:
    """Which rollups to go by, by their step, or 0 for samples.

    The finest that the steps asked for need; or coarser ones, where these go back further and must.
    """
    levels = sorted({_RAW, *STEPS} & {_RAW, *oldest_at})
    level = max(each for each in levels if each <= max(step_seconds, _RAW))
    for coarser in levels[levels.index(level) + 1 :]:
        known_from = oldest_at.get(level, math.inf)
        if known_from > start and oldest_at.get(coarser, math.inf) + coarser < known_from:
            level = coarser
    return level


def step_for(step_seconds: float, start: float, end: float, level: int) -> float:
    """The step to answer in: no finer than the samples, and so that there are not too many points."""
    step = max(step_seconds, (end - start) / (MAX_POINTS - 1), 1.0)
    return level * math.ceil(step / level) if level else step


class SeriesReader:
    """Tells series."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def tell(self, kind: SubjectKind, name: str, start: float, end: float, step_seconds: float) -> Series:
        """The history of one of them in `[start, end)`."""
        # Samples of a service lie all over the cluster's; its rollups are found at once.
        finest = FINE_SECONDS if kind is SubjectKind.SERVICE else _RAW
        oldest_at = self._oldest_at()
        level = max(finest, resolution_for(max(step_seconds, finest), start, oldest_at))
        step = step_for(step_seconds, start, end, level)
        subjects = [number for (number,) in self._connection.execute(_SUBJECTS[kind], (name,))]
        asked = _Asked(kind, subjects, start, end, step)
        slots = self._rollups(asked, level) if level else self._samples(asked)
        points = tuple(
            _point(slot * step, slots[slot]) for slot in sorted(slots) if start < (slot + 1) * step
        )
        return Series(step_seconds=step, points=points)

    def _oldest_at(self) -> dict[int, float]:
        """From when on there are samples, and rollups of each step."""
        found = {}
        for step in STEPS:
            (slot,) = self._connection.execute(_OLDEST_SLOT, (step,)).fetchone()
            if slot is not None:
                found[step] = float(slot * step)
        (received_at,) = self._connection.execute("SELECT min(received_at) FROM reports").fetchone()
        if received_at is not None:
            found[_RAW] = received_at
        return found

    def _rollups(self, asked: "_Asked", level: int) -> Slots:
        query = _NODE_ROLLUPS if asked.kind is SubjectKind.NODE else _CONTAINER_ROLLUPS
        places = json.dumps(list(range(int(asked.start // level), math.ceil(asked.end / level))))
        merged: defaultdict[int, dict[int, SlotSums]] = defaultdict(dict)
        for subject in asked.subjects:
            given = {"step": level, "slots": places, "subject": subject}
            for slot, seconds, *values in self._connection.execute(query, given):
                known = merged[int(slot * level // asked.step)].setdefault(subject, SlotSums())
                known.merge(SlotSums(seconds, values[:WIDTH], values[WIDTH:]))
        return {slot: list(each.values()) for slot, each in merged.items()}

    def _samples(self, asked: "_Asked") -> Slots:
        query = _NODE_SAMPLES if asked.kind is SubjectKind.NODE else _CONTAINER_SAMPLES
        slots: defaultdict[int, list[SlotSums]] = defaultdict(list)
        for subject in asked.subjects:
            rows = self._connection.execute(query, (subject, asked.start - _LOOK_BACK_SECONDS))
            held = _within(_looks(rows), asked.start, asked.end)
            for slot, sums in sum_slots(held, asked.step).items():
                slots[slot].append(sums)
        return slots


@dataclass(frozen=True, slots=True)
class _Asked:
    """Whose history, of which time, in which steps."""

    kind: SubjectKind
    subjects: Sequence[int]
    start: float
    end: float
    step: float


def _looks(rows: Iterator[Sequence[float | None]]) -> list[Sample]:
    """Samples, and then that the last one held until the node's last word."""
    looks: list[Sample] = []
    last_at = -math.inf
    for at, received_at, is_sample, is_there, window_seconds, *values in rows:
        last_at = max(last_at, report_time(at or 0.0, received_at or 0.0))
        if is_sample:
            looks.append(Sample(last_at, window_seconds or 0.0, tuple(values) if is_there else None))
    if looks and last_at > looks[-1].at:
        looks.append(Sample(last_at, 0.0, looks[-1].values))
    return looks


def _within(looks: Sequence[Sample], start: float, end: float) -> Iterator[Interval]:
    for stretch in intervals(looks, start):
        begins_at, ends_at = max(start, stretch.begins_at), min(end, stretch.ends_at)
        if begins_at < ends_at:
            yield Interval(begins_at, ends_at, stretch.values)


def _point(at: float, known: Sequence[SlotSums]) -> Point:
    """Several at once are added up, over the time that is known of the longest."""
    seconds = max(sums.seconds for sums in known)
    means, most = [], []
    for place in range(WIDTH):
        totals = [total for sums in known if (total := sums.totals[place]) is not None]
        tops = [top for sums in known if (top := sums.most[place]) is not None]
        means.append(sum(totals) / seconds if totals and seconds else None)
        most.append(sum(tops) if tops else None)
    return Point(
        at=at,
        mean=_quantities(means),
        max=_quantities(most),
        mean_watts=means[-1],
        max_watts=most[-1],
    )


def _quantities(values: Sequence[float | None]) -> Quantities:
    cpu, memory, disk, network, _ = values
    return Quantities(cpu, None if memory is None else min(round(memory), _LARGEST), disk, network)


_SUBJECTS = {
    SubjectKind.NODE: "SELECT id FROM nodes WHERE name = ?",
    SubjectKind.CONTAINER: "SELECT id FROM containers WHERE runtime_id = ?",
    SubjectKind.SERVICE: """
        SELECT c.id FROM facts f JOIN containers c ON c.facts_id = f.id
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
_VALUES = "s.cpu_cores, s.memory_bytes, s.disk_bytes_per_second, s.network_bytes_per_second, s.watts"
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
