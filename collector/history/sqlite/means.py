"""Averages over a window: what held at each time, weighted by how long it did.

A window is measured by the node's own clock, which may be off, and ends at the node's last word: a beacon
says that all still holds. Samples are taken in the order of their sequence, which no clock can upset; a step
back in time weighs nothing. What held at the window's start was said at the last heartbeat before it at the
latest, so that nothing earlier needs to be read.

SQL finds the samples; they are weighed in columns, all subjects at once, which takes a fraction of the time
that window functions do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from collector.history.interface import Mean, WindowEnd

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_SPOKEN = """
WITH windows AS (
    SELECT n.name AS node, b.id AS boot_id,
           json_extract(each.value, '$[2]') - :window AS from_at,
           json_extract(each.value, '$[2]') AS until_at
    FROM json_each(:standings) each
    JOIN nodes n ON n.name = json_extract(each.value, '$[0]')
    JOIN boots b ON b.node_id = n.id AND b.name = json_extract(each.value, '$[1]')
), spoken AS (
    SELECT w.*, r.id AS report_id, r.sequence, r.at
    FROM windows w JOIN reports r ON r.boot_id = w.boot_id AND r.sequence >= coalesce((
        SELECT h.sequence FROM reports h
        WHERE h.boot_id = w.boot_id AND h.heartbeat IS NOT NULL AND h.at <= w.from_at
        ORDER BY h.sequence DESC LIMIT 1
    ), 0)
)"""

_SAMPLES = """
SELECT p.node, {subject} AS subject, p.from_at, p.until_at, p.at, s.facts_id, s.window_seconds, s.cpu_cores,
       s.memory_bytes, s.watts, s.joules_total, {cpu_seconds_total}
FROM spoken p JOIN {table} s ON s.report_id = p.report_id
ORDER BY subject, p.sequence
"""
NODE_SAMPLES = _SPOKEN + _SAMPLES.format(subject="p.boot_id", table="node_samples", cpu_seconds_total="NULL")
CONTAINER_SAMPLES = _SPOKEN + _SAMPLES.format(
    subject="s.container_id", table="container_samples", cpu_seconds_total="s.cpu_seconds_total"
)


def parameters(window_seconds: float, window_ends: Sequence[WindowEnd]) -> dict[str, object]:
    """What these queries are asked with."""
    places = [(standing.node, standing.boot, standing.at) for standing in window_ends]
    return {"window": window_seconds, "standings": msgspec.json.encode(places).decode()}


def means_of(rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, int, Mean]]:
    """Node, subject and mean of every subject that a sample was found of, from the rows of these queries."""
    if not rows:
        return
    nodes, subjects, *numbers = zip(*rows, strict=True)
    columns = [np.array(column, dtype=np.float64) for column in numbers]
    # Strangers may claim numbers whose sums are beyond all numbers; that harms none but them.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        starts, found = _weigh(np.array(subjects, dtype=np.int64), _Samples(*columns))
    for row, (is_there, samples, seconds, *values) in zip(starts, found, strict=True):
        if is_there:
            cores, memory_bytes, watts = (None if value != value else value for value in values)  # noqa: PLR0124 - NaN
            yield (
                nodes[row],
                subjects[row],
                Mean(
                    samples=int(samples),
                    seconds=seconds,
                    cpu_cores=cores,
                    memory_bytes=None if memory_bytes is None else round(memory_bytes),
                    watts=watts,
                ),
            )


@dataclass(frozen=True, slots=True)
class _Samples:
    """One row per sample, by subject and sequence; NaN where nothing was said."""

    from_at: Floats
    until_at: Floats
    at: Floats
    facts: Floats
    """NaN where a container is gone: nothing holds from then on."""
    window_seconds: Floats
    cpu_cores: Floats
    memory_bytes: Floats
    watts: Floats
    joules_total: Floats
    cpu_seconds_total: Floats


def _weigh(subjects: NDArray[np.int64], said: _Samples) -> tuple[list[int], list[list[float]]]:
    """Per subject: its first row; whether anything held, how many samples did, for how long, and the means.

    Three pieces of time belong to a sample: from the one before it to the time that it tells of, where that
    one still held; the time that it tells of; and, if it is the last, the time since. Counters tell of all
    the time between two samples.
    """
    begins: Flags = np.concatenate(([True], subjects[1:] != subjects[:-1]))
    is_last: Flags = np.concatenate((begins[1:], [True]))
    starts = np.flatnonzero(begins)

    def earlier(column: Floats) -> Floats:
        """What the sample before said."""
        moved = np.concatenate(([np.nan], column[:-1]))
        moved[begins] = np.nan
        return moved

    def within(since: Floats, until: Floats, counts: Flags) -> Floats:
        """How much of the window lies between two times."""
        seconds = np.minimum(until, said.until_at) - np.maximum(since, said.from_at)
        return np.where(counts & (seconds > 0), seconds, 0.0)

    before_at = earlier(said.at)
    holds = ~np.isnan(said.facts)
    held_before = ~np.isnan(earlier(said.facts))
    turned_at = np.maximum(said.at - said.window_seconds, np.where(begins, 0.0, before_at))
    lasts = holds & is_last
    before = within(before_at, np.where(holds, turned_at, said.at), held_before)
    own = within(turned_at, said.at, holds)
    since = within(said.at, said.until_at, lasts)

    def rate(counter: Floats) -> Floats:
        """What a counter tells; one that goes backwards began anew, and tells nothing of that step."""
        risen, apart = counter - earlier(counter), said.at - before_at
        return np.where((risen >= 0) & (apart > 0), risen / apart, np.nan)

    def mean(level: Floats, counted: Floats) -> Floats:
        is_counted = ~np.isnan(counted)
        pieces = (
            (before, np.where(is_counted, counted, earlier(level))),
            (own, np.where(is_counted, counted, level)),
            (since, level),
        )
        weighed, seconds = np.zeros(level.size), np.zeros(level.size)
        for piece, value in pieces:
            known = ~np.isnan(value)
            weighed += np.where(known, piece * value, 0.0)
            seconds += np.where(known, piece, 0.0)
        whole = np.add.reduceat(seconds, starts)
        # Where no time has passed yet, the last sample is all there is.
        last = np.where(lasts, level, np.nan)[np.append(starts[1:] - 1, level.size - 1)]
        return np.where(whole > 0, np.add.reduceat(weighed, starts) / whole, last)

    # The time before a sample is that of the one before it.
    held: Flags = (own > 0) | lasts | np.append(before[1:] > 0, [False])
    uncounted = np.full(subjects.size, np.nan)
    found = np.column_stack(
        (
            np.logical_or.reduceat(holds | held_before, starts),
            np.add.reduceat(held.astype(np.float64), starts),
            np.add.reduceat(before + own + since, starts),
            mean(said.cpu_cores, rate(said.cpu_seconds_total)),
            mean(said.memory_bytes, uncounted),
            mean(said.watts, rate(said.joules_total)),
        )
    )
    return starts.tolist(), found.tolist()
