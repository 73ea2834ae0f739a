"""Read reports, events and values: synchronous, on one connection, in one thread."""

import json
import logging
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from collector.common.reported_alerts import KEPT, ReportedAlert
from collector.config import LimitsConfig
from collector.history.interface import (
    DEFAULT_LIMITS,
    MOST_GONE,
    MOST_REPORTS,
    EventPosition,
    ReceivedReport,
    StoredEvent,
    StoredHistograms,
    StoredState,
    UsageKey,
    UsageTotal,
)
from collector.history.sqlite.rows import (
    CONTAINER_VALUES,
    NODE_VALUES,
    Row,
    decode_alert,
    decode_container,
    decode_event,
    decode_heartbeat,
    decode_node,
    decode_totals,
    decode_usage,
)
from wire.messages import ContainerState, Event, Report

log = logging.getLogger(__name__)
Stored = TypeVar("Stored")
Value = TypeVar("Value")

_MOST_BOOTS = 3
"""Runs of an agent that are read: only the last one counts, but reports of the one before may come late."""

_SINCE_HEARTBEAT = f"""
WITH recent AS (
    SELECT id, node_id, name FROM (
        SELECT id, node_id, name, row_number() OVER (PARTITION BY node_id ORDER BY id DESC) AS age FROM boots
    ) WHERE age <= {_MOST_BOOTS}
),
since AS (
    SELECT * FROM (
        SELECT r.*, n.name AS node, b.name AS boot,
               row_number() OVER (PARTITION BY r.boot_id ORDER BY r.sequence DESC) AS age
        FROM recent b
        JOIN nodes n ON n.id = b.node_id
        JOIN reports r ON r.boot_id = b.id AND r.sequence >= coalesce(
            (SELECT max(sequence) FROM reports h WHERE h.boot_id = b.id AND h.heartbeat IS NOT NULL), 0
        )
    ) WHERE age <= {MOST_REPORTS} OR heartbeat IS NOT NULL
)
"""  # noqa: S608 - numbers of our own

_RECEIVED_SINCE = """
WITH since AS (
    SELECT r.*, n.name AS node, b.name AS boot
    FROM reports r JOIN boots b ON b.id = r.boot_id JOIN nodes n ON n.id = b.node_id
    WHERE r.received_at >= ?
)
"""

_REPORTS_OF = f"""
SELECT r.id, r.received_at, r.node, r.boot, r.sequence, r.at, r.heartbeat, f.body,
       {", ".join(f"s.{name}" for name in NODE_VALUES)}
FROM since r LEFT JOIN node_samples s ON s.report_id = r.id {{which}}
LEFT JOIN facts f ON f.id = s.facts_id
ORDER BY r.received_at, r.id
"""  # noqa: S608 - names of our own

_CONTAINERS_OF = f"""
SELECT r.boot_id, s.report_id, c.runtime_id, f.body, {", ".join(f"s.{name}" for name in CONTAINER_VALUES)}
FROM {{samples}} JOIN containers c ON c.id = s.container_id
LEFT JOIN facts f ON f.id = s.facts_id
ORDER BY s.report_id, c.runtime_id
"""  # noqa: S608 - names of our own

# Only the newest state of a run counts, and a state can have long texts.
_REPORTS = f"""
{_SINCE_HEARTBEAT},
newest AS (
    SELECT r.boot_id, max(r.sequence) AS sequence FROM since r JOIN node_samples s ON s.report_id = r.id
    GROUP BY r.boot_id
)
{_REPORTS_OF.format(which="AND (r.boot_id, r.sequence) IN (SELECT boot_id, sequence FROM newest)")}
"""  # noqa: S608 - names of our own

# The newest report of each container counts, so the others need not be read.
_NEWEST_SAMPLES = """newest r JOIN container_samples s
    ON s.report_id = r.report_id AND s.container_id = r.container_id"""
_CONTAINERS = f"""
{_SINCE_HEARTBEAT},
newest AS (
    SELECT r.boot_id, s.container_id, s.report_id, max(r.sequence)
    FROM since r JOIN container_samples s ON s.report_id = r.id
    GROUP BY r.boot_id, s.container_id
)
{_CONTAINERS_OF.format(samples=_NEWEST_SAMPLES)}
"""  # noqa: S608 - names of our own

_REPORTS_SINCE = _RECEIVED_SINCE + _REPORTS_OF.format(which="")
_CONTAINERS_SINCE = _RECEIVED_SINCE + _CONTAINERS_OF.format(
    samples="since r JOIN container_samples s ON s.report_id = r.id"
)

_EVENTS_SINCE = """
SELECT e.report_id, e.body FROM reports r JOIN events e ON e.report_id = r.id
WHERE r.received_at >= ? ORDER BY e.report_id, e.number
"""

_ALERTS = f"""
SELECT node, boot, sequence, body FROM (
    SELECT n.name AS node, b.name AS boot, a.sequence, a.body,
           row_number() OVER (PARTITION BY n.id, a.resource ORDER BY a.opened_at DESC) AS age
    FROM alerts a JOIN boots b ON b.id = a.boot_id JOIN nodes n ON n.id = b.node_id
) WHERE age <= {KEPT}
"""  # noqa: S608 - a number of our own

_USAGE = """
SELECT n.name, u.bucket, u.body FROM json_each(:nodes) each JOIN nodes n ON n.name = each.value
JOIN usage u ON u.node_id = n.id WHERE length(u.body) <= :max_bytes
"""

_PENDING_USAGE = """
SELECT node, boot, sequence, bucket, body FROM (
    SELECT n.name AS node, p.boot, p.sequence, p.bucket, p.body,
           sum(length(p.body)) OVER (PARTITION BY n.id ORDER BY p.rowid) AS size_bytes
    FROM json_each(:nodes) each JOIN nodes n ON n.name = each.value
    JOIN pending_usage p ON p.node_id = n.id
) WHERE size_bytes <= :max_bytes ORDER BY node
"""

_EVENTS = """
SELECT n.name, e.body, e.at, e.report_id, e.number
FROM events e JOIN reports r ON r.id = e.report_id JOIN boots b ON b.id = r.boot_id
JOIN nodes n ON n.id = b.node_id
WHERE (:node IS NULL OR n.name = :node)
AND (:at IS NULL OR (e.at, e.report_id, e.number) < (:at, :report_id, :number))
ORDER BY e.at DESC, e.report_id DESC, e.number DESC LIMIT :limit
"""


def read_events(
    connection: sqlite3.Connection, limit: int, node: str | None = None, before: EventPosition | None = None
) -> list[StoredEvent]:
    """The latest events, latest first."""
    at, report_id, number = (None, None, None) if before is None else before
    given = {"limit": limit, "node": node, "at": at, "report_id": report_id, "number": number}
    rows = connection.execute(_EVENTS, given)
    return [
        StoredEvent(row[0], event, row[2:])
        for row in rows
        if (event := _decoded(decode_event, row[1])) is not None
    ]


def read_values(connection: sqlite3.Connection, kind: str) -> dict[str, bytes]:
    """All values of a kind, by key."""
    return dict(connection.execute("SELECT key, value FROM key_values WHERE kind = ?", (kind,)))


def read_state(connection: sqlite3.Connection, limits: LimitsConfig = DEFAULT_LIMITS) -> StoredState:
    """What a starting collector restores first."""
    # One read transaction, so that all queries see the same reports.
    connection.execute("BEGIN")
    try:
        return StoredState(
            reports=_reports(connection, limits),
            alerts=[
                ReportedAlert(node, boot, sequence, alert)
                for node, boot, sequence, body in connection.execute(_ALERTS)
                if (alert := _decoded(decode_alert, body)) is not None
            ],
        )
    finally:
        connection.execute("ROLLBACK")


def read_usage(
    connection: sqlite3.Connection, nodes: Sequence[str], limits: LimitsConfig = DEFAULT_LIMITS
) -> StoredHistograms:
    """The usage of some nodes: few at a time, as it takes ten times the memory once it is decoded."""
    given = {"nodes": json.dumps(nodes), "max_bytes": limits.max_bytes}
    return StoredHistograms(
        totals=[
            UsageTotal(node, bucket, totals)
            for node, bucket, body in connection.execute(_USAGE, given)
            if (totals := _decoded(decode_totals, body)) is not None
        ],
        pending=[
            (UsageKey(node, boot, sequence, bucket), usage)
            for node, boot, sequence, bucket, body in connection.execute(_PENDING_USAGE, given)
            if (usage := _decoded(decode_usage, body)) is not None
        ],
    )


def read_reports(connection: sqlite3.Connection, since: float) -> list[ReceivedReport]:
    """All reports received since a time."""
    connection.execute("BEGIN")
    try:
        parts = _Parts()
        for _, report_id, *container in connection.execute(_CONTAINERS_SINCE, (since,)):
            parts.add(report_id, *container)
        for report_id, body in connection.execute(_EVENTS_SINCE, (since,)):
            if (event := _decoded(decode_event, body)) is not None:
                parts.events[report_id].append(event)
        return [parts.report(row) for row in connection.execute(_REPORTS_SINCE, (since,))]
    finally:
        connection.execute("ROLLBACK")


def _reports(connection: sqlite3.Connection, limits: LimitsConfig) -> list[ReceivedReport]:
    parts = _Parts()
    counts: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    sizes_bytes: Counter[int] = Counter()
    for boot_id, report_id, runtime_id, facts, *values in connection.execute(_CONTAINERS):
        if facts is None:
            ended[boot_id] += 1
            is_within = ended[boot_id] <= MOST_GONE
        else:
            # A history may hold more than the limits of today allow.
            counts[boot_id] += 1
            sizes_bytes[boot_id] += len(facts)
            is_within = counts[boot_id] <= limits.max_containers and sizes_bytes[boot_id] <= limits.max_bytes
        if is_within:
            parts.add(report_id, runtime_id, facts, *values)
    return [parts.report(row) for row in connection.execute(_REPORTS)]


class _Parts:
    """The parts of reports that have tables of their own, by the id of the report."""

    def __init__(self) -> None:
        self.containers: defaultdict[int, list[ContainerState]] = defaultdict(list)
        self.gone: defaultdict[int, list[str]] = defaultdict(list)
        self.events: defaultdict[int, list[Event]] = defaultdict(list)

    def add(self, report_id: int, runtime_id: str, facts: str | None, *values: Any) -> None:  # noqa: ANN401 - of many types
        """Add a container, from a row of `_CONTAINERS_OF`; without facts, it is gone."""
        if facts is None:
            self.gone[report_id].append(runtime_id)
        elif (found := _decoded(partial(decode_container, runtime_id, facts), values)) is not None:
            self.containers[report_id].append(found)

    def report(self, row: Row) -> ReceivedReport:
        """The report of a row of `_REPORTS_OF`."""
        report_id, received_at, node, boot, sequence, at, heartbeat, facts, *values = row
        report = Report(
            node=node,
            boot=boot,
            sequence=sequence,
            at=at,
            state=None if facts is None else _decoded(partial(decode_node, facts), tuple(values)),
            containers=tuple(self.containers[report_id]),
            gone=tuple(self.gone[report_id]),
            events=tuple(self.events[report_id]),
            heartbeat=_decoded(decode_heartbeat, heartbeat),
        )
        return ReceivedReport(report, received_at)


def _decoded(decode: Callable[[Stored], Value | None], stored: Stored) -> Value | None:
    """A stored value; None if it is not valid any more, which is logged."""
    try:
        return decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, TypeError) as error:
        log.warning("left out a value of the history that is not valid: %s", error)
        return None
