"""Everything that is asked of the SQLite history: synchronous, on one connection, in one thread."""

import sqlite3
from collections import defaultdict

from collector.history.interface import ContainerKey, Mean, Received
from collector.history.rows import CONTAINER_FIELDS, NODE_FIELDS, container_of, report_of
from wire.messages import ContainerState

# A window ends at a node's newest sample and is measured by the node's own clock, which may be off; the
# index on our own clock only narrows the search. A report is never received before it was sampled, and
# twice the window leaves room for one that came late.
_WINDOW = """
WITH recent AS (
    SELECT s.*, b.node_id, n.name AS node,
           max(s.at) OVER (PARTITION BY b.node_id) AS newest_at
    FROM node_samples s JOIN boots b ON b.id = s.boot_id JOIN nodes n ON n.id = b.node_id
    WHERE s.received_at >= :now - 2 * :window AND (:node IS NULL OR n.name = :node)
), windowed AS (
    SELECT * FROM recent WHERE at >= newest_at - :window
)
"""

_NODE_MEANS = f"""
{_WINDOW}
SELECT node, count(*), max(at) - min(at), avg(cpu_cores), avg(memory_bytes), avg(watts)
FROM windowed GROUP BY node_id
"""  # noqa: S608 - parts of our own

# A counter that goes backwards is a container that was started anew: that one step tells nothing.
_CONTAINER_MEANS = f"""
{_WINDOW}, steps AS (
    SELECT w.node, s.container_id, s.memory_bytes, s.watts, w.at,
           s.cpu_seconds_total - lag(s.cpu_seconds_total) OVER by_time AS cpu_seconds,
           w.at - lag(w.at) OVER by_time AS seconds
    FROM windowed w JOIN container_samples s ON s.sample_id = w.id
    WINDOW by_time AS (PARTITION BY s.container_id ORDER BY w.at)
), means AS (
    SELECT node, container_id, count(*) AS samples, max(at) - min(at) AS seconds,
           sum(cpu_seconds) FILTER (WHERE cpu_seconds >= 0) AS cpu_seconds,
           sum(seconds) FILTER (WHERE cpu_seconds >= 0) AS counted_seconds,
           avg(memory_bytes) AS memory_bytes, avg(watts) AS watts
    FROM steps GROUP BY container_id
)
SELECT m.node, c.runtime_id, m.samples, m.seconds, m.cpu_seconds / nullif(m.counted_seconds, 0),
       m.memory_bytes, m.watts
FROM means m JOIN containers c ON c.id = m.container_id
"""  # noqa: S608 - parts of our own

_LAST_SAMPLES = """
SELECT s.id, s.received_at, n.name, b.name, f.body, {fields}
FROM boots b
JOIN nodes n ON n.id = b.node_id
JOIN node_samples s ON s.boot_id = b.id
    AND s.sequence = (SELECT max(sequence) FROM node_samples WHERE boot_id = b.id)
JOIN facts f ON f.id = s.facts_id
ORDER BY s.received_at, s.id
"""

_LAST_CONTAINERS = """
SELECT s.sample_id, c.runtime_id, f.body, {fields}
FROM boots b
JOIN node_samples n ON n.boot_id = b.id
    AND n.sequence = (SELECT max(sequence) FROM node_samples WHERE boot_id = b.id)
JOIN container_samples s ON s.sample_id = n.id
JOIN containers c ON c.id = s.container_id
JOIN facts f ON f.id = s.facts_id
ORDER BY c.runtime_id
"""


class Reader:
    """Answers questions about what is stored."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def node_means(self, window_seconds: float, now: float) -> dict[str, Mean]:
        values = {"now": now, "window": window_seconds, "node": None}
        return {node: _mean(*rest) for node, *rest in self._connection.execute(_NODE_MEANS, values)}

    def container_means(
        self, window_seconds: float, now: float, node: str | None
    ) -> dict[ContainerKey, Mean]:
        values = {"now": now, "window": window_seconds, "node": node}
        rows = self._connection.execute(_CONTAINER_MEANS, values)
        return {(name, runtime_id): _mean(*rest) for name, runtime_id, *rest in rows}

    def last_reports(self) -> list[Received]:
        containers: defaultdict[int, list[ContainerState]] = defaultdict(list)
        # One read transaction, so that both queries speak of the same samples.
        self._connection.execute("BEGIN")
        try:
            rows = self._connection.execute(_LAST_CONTAINERS.format(fields=CONTAINER_FIELDS))
            for sample_id, runtime_id, facts, *fields in rows:
                containers[sample_id].append(container_of(runtime_id, facts, tuple(fields)))
            rows = self._connection.execute(_LAST_SAMPLES.format(fields=NODE_FIELDS))
            return [
                Received(report_of(node, boot, facts, tuple(fields), containers[sample_id]), received_at)
                for sample_id, received_at, node, boot, facts, *fields in rows
            ]
        finally:
            self._connection.execute("ROLLBACK")


def _mean(
    samples: int, seconds: float, cpu_cores: float | None, memory_bytes: float | None, watts: float | None
) -> Mean:
    return Mean(
        samples=samples,
        seconds=seconds,
        cpu_cores=cpu_cores,
        memory_bytes=None if memory_bytes is None else round(memory_bytes),
        watts=watts,
    )
