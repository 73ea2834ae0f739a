"""Averages over a window, in SQL: what held at each time, weighted by how long it did.

A window is measured by the node's own clock, which may be off, and ends at the node's last word: a beacon
says that all still holds. Samples are taken in the order of their sequence, which no clock can upset; a step
back in time weighs nothing. What held at the window's start was said at the last heartbeat before it at the
latest, so that nothing earlier needs to be read.
"""

from collections.abc import Sequence

import msgspec

from collector.history.interface import Mean, Standing

_WINDOWS = """
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

_NODE_SAMPLES = """
    SELECT p.node, p.boot_id AS subject, p.sequence, p.at, p.from_at, p.until_at, s.facts_id,
           s.window_seconds, s.cpu_cores, s.memory_bytes, s.watts, s.joules_total, NULL AS cpu_seconds_total
    FROM spoken p JOIN node_samples s ON s.report_id = p.report_id"""

_CONTAINER_SAMPLES = """
    SELECT p.node, s.container_id AS subject, p.sequence, p.at, p.from_at, p.until_at, s.facts_id,
           s.window_seconds, s.cpu_cores, s.memory_bytes, s.watts, s.joules_total, s.cpu_seconds_total
    FROM spoken p JOIN container_samples s ON s.report_id = p.report_id"""

# Three pieces of time belong to a sample: from the one before it to the time that it tells of, where that
# one still held; the time that it tells of; and, if it is the last, the time since. Counters tell of all the
# time between two samples. A container that is gone has a sample without facts: nothing holds from then on.
_MEANS = """
, samples AS ({samples}
), steps AS (
    SELECT *, lag(sequence) OVER earlier AS before_sequence, lag(at) OVER earlier AS before_at,
           lag(facts_id) OVER earlier AS before_facts_id, lag(cpu_cores) OVER earlier AS before_cpu_cores,
           lag(memory_bytes) OVER earlier AS before_memory_bytes, lag(watts) OVER earlier AS before_watts,
           cpu_seconds_total - lag(cpu_seconds_total) OVER earlier AS cpu_seconds,
           joules_total - lag(joules_total) OVER earlier AS joules,
           nullif(max(0, at - lag(at) OVER earlier), 0) AS apart_seconds,
           max(at - window_seconds, coalesce(lag(at) OVER earlier, 0)) AS turned_at,
           lead(at) OVER earlier IS NULL AS is_last
    FROM samples WINDOW earlier AS (PARTITION BY subject ORDER BY sequence)
), rates AS (
    -- A counter that goes backwards began anew: that one step tells nothing.
    SELECT *, CASE WHEN cpu_seconds >= 0 THEN cpu_seconds / apart_seconds END AS counted_cores,
           CASE WHEN joules >= 0 THEN joules / apart_seconds END AS counted_watts
    FROM steps
), pieces AS (
    SELECT node, subject, from_at, until_at, before_sequence AS sequence, 0 AS is_last,
           before_at AS begins_at, coalesce(turned_at, at) AS ends_at,
           coalesce(counted_cores, before_cpu_cores) AS cpu_cores, before_memory_bytes AS memory_bytes,
           coalesce(counted_watts, before_watts) AS watts
    FROM rates WHERE before_facts_id IS NOT NULL
    UNION ALL
    SELECT node, subject, from_at, until_at, sequence, 0, turned_at, at,
           coalesce(counted_cores, cpu_cores), memory_bytes, coalesce(counted_watts, watts)
    FROM rates WHERE facts_id IS NOT NULL
    UNION ALL
    SELECT node, subject, from_at, until_at, sequence, 1, at, until_at, cpu_cores, memory_bytes, watts
    FROM rates WHERE facts_id IS NOT NULL AND is_last
), weighed AS (
    SELECT *, max(0, min(ends_at, until_at) - max(begins_at, from_at)) AS seconds FROM pieces
), means AS (
    SELECT node, subject, count(DISTINCT sequence) FILTER (WHERE seconds > 0 OR is_last) AS samples,
           sum(seconds) AS seconds, {cpu_cores}, {memory_bytes}, {watts}
    FROM weighed GROUP BY subject
)
"""

# Where no time has passed yet, the last sample is all there is.
_MEAN = """
           coalesce(sum(seconds * {name}) / nullif(sum(seconds) FILTER (WHERE {name} IS NOT NULL), 0),
                    max({name}) FILTER (WHERE is_last)) AS {name}"""

_VALUES = ("cpu_cores", "memory_bytes", "watts")


def _query(samples: str, answer: str) -> str:
    means = {name: _MEAN.format(name=name) for name in _VALUES}
    return _WINDOWS + _MEANS.format(samples=samples, **means) + answer


NODE_MEANS = _query(_NODE_SAMPLES, "SELECT node, samples, seconds, cpu_cores, memory_bytes, watts FROM means")
CONTAINER_MEANS = _query(
    _CONTAINER_SAMPLES,
    """
SELECT m.node, c.runtime_id, m.samples, m.seconds, m.cpu_cores, m.memory_bytes, m.watts
FROM means m JOIN containers c ON c.id = m.subject""",
)


def parameters(window_seconds: float, standings: Sequence[Standing]) -> dict[str, object]:
    """What these queries are asked with."""
    places = [(standing.node, standing.boot, standing.at) for standing in standings]
    return {"window": window_seconds, "standings": msgspec.json.encode(places).decode()}


def mean_of(
    samples: int, seconds: float, cpu_cores: float | None, memory_bytes: float | None, watts: float | None
) -> Mean:
    """A mean, from the columns that these queries end with."""
    return Mean(
        samples=samples,
        seconds=seconds,
        cpu_cores=cpu_cores,
        memory_bytes=None if memory_bytes is None else round(memory_bytes),
        watts=watts,
    )
