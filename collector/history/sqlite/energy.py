"""Energy of any period: whole hours from hourly rollups, the edges from five-minute rollups.

The energy of a bucket is spread evenly over the time in it that the node's reports cover, for the node and
its containers alike. So a period that ends now includes all energy that is rolled up, and the periods of any
partition add up to the whole.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from collector.history.interface import Account, GroupBy
from collector.history.rollups import COARSE_SECONDS, FINE_SECONDS
from collector.history.sqlite.rows import decode_container_facts, unknown_container
from collector.history.sqlite.schema import DETAIL_FROM, GET_VALUE
from collector.history.timeline import overlaps
from wire.messages import ContainerState

_DAY_SECONDS = 86_400

_Given = dict[str, str | float]
"""Parameters of a query: the period, and the rollups that it overlaps."""


def parts(start: float, end: float, detail_from: float) -> Iterator[tuple[int, int]]:
    """Step and bucket of the rollups that a period overlaps; only hourly ones before `detail_from`."""
    for hour, seconds in overlaps(start, end, COARSE_SECONDS):
        begins_at = hour * COARSE_SECONDS
        if seconds >= COARSE_SECONDS or begins_at < detail_from:
            yield COARSE_SECONDS, hour
        else:
            begin = max(start, begins_at)
            for bucket, _ in overlaps(begin, begin + seconds, FINE_SECONDS):
                yield FINE_SECONDS, bucket


def _is_whole(hour: int, start: float, end: float) -> bool:
    return start <= hour * COARSE_SECONDS and (hour + 1) * COARSE_SECONDS <= end


def read_energy(
    connection: sqlite3.Connection, start: float, end: float, by: GroupBy, label: str | None
) -> list[Account]:
    """The energy used in `[start, end)`, highest first, or by day."""
    first, last = connection.execute(_STORED_HOURS, (COARSE_SECONDS,)).fetchone()
    if first is None:
        return []
    (reached,) = connection.execute(_REACHED, (COARSE_SECONDS, last)).fetchone()
    if reached is not None and end > reached:
        # Nothing is known of later times: all of the last hour counts, and none of its parts is read.
        end = (last + 1) * COARSE_SECONDS
    start, end = max(start, first * COARSE_SECONDS), min(end, (last + 1) * COARSE_SECONDS)
    found = connection.execute(GET_VALUE, DETAIL_FROM).fetchone()
    detail_from = 0.0 if found is None else float(found[0])
    all_parts = list(parts(start, end, detail_from))
    hours = [bucket for step, bucket in all_parts if step == COARSE_SECONDS and _is_whole(bucket, start, end)]
    edges = [each for each in all_parts if each[0] != COARSE_SECONDS or not _is_whole(each[1], start, end)]
    given: _Given = {
        "parts": json.dumps(all_parts),
        "edges": json.dumps(edges),
        "first_hour": min(hours, default=0),
        "last_hour": max(hours, default=-1),
        "start": start,
        "end": end,
    }
    match by:
        case GroupBy.DAY:
            rows = connection.execute(_BY_DAY, given)
            return [_node_account(_day(day), *joules) for day, *joules in rows]
        case GroupBy.NODE:
            return _sorted(_node_account(*row) for row in connection.execute(_BY_NODE, given))
        case GroupBy.CONTAINER:
            return _sorted(
                Account(key=key, joules=joules, node=node, name=facts.name, service=facts.service)
                for node, key, facts, joules in _containers(connection, given)
            )
        case GroupBy.SERVICE:
            return _grouped(connection, given, lambda facts: facts.service)
        case GroupBy.LABEL:
            return _grouped(connection, given, lambda facts: facts.labels.get(label or ""))


def _containers(
    connection: sqlite3.Connection, given: _Given
) -> Iterator[tuple[str, str, ContainerState, float]]:
    for node, runtime_id, body, joules in connection.execute(_BY_CONTAINER, given):
        facts = unknown_container(runtime_id) if body is None else decode_container_facts(body)
        yield node, runtime_id, facts, joules


def _grouped(
    connection: sqlite3.Connection, given: _Given, key_of: Callable[[ContainerState], str | None]
) -> list[Account]:
    sums: defaultdict[str | None, float] = defaultdict(float)
    for _, _, facts, joules in _containers(connection, given):
        sums[key_of(facts)] += joules
    return _sorted(Account(key=key, joules=joules) for key, joules in sums.items())


def _sorted(accounts: Iterator[Account]) -> list[Account]:
    return sorted(accounts, key=lambda account: (-account.joules, account.key or "", account.node or ""))


def _node_account(
    key: str,
    joules: float,
    idle_joules: float,
    containers_joules: float,
    covered_seconds: float | None = None,
) -> Account:
    return Account(
        key=key,
        joules=joules,
        idle_joules=idle_joules,
        covered_seconds=covered_seconds,
        # Rounding can make it negative.
        system_joules=max(0.0, joules - idle_joules - containers_joules),
        containers_joules=containers_joules,
    )


def _day(number: int) -> str:
    return datetime.fromtimestamp(number * _DAY_SECONDS, UTC).date().isoformat()


# The ends of an index, also through a view that leaves nodes out: `min` with `max` would read all rows.
_STORED_HOURS = """
SELECT (SELECT bucket FROM node_rollups WHERE step = ?1 ORDER BY bucket LIMIT 1),
       (SELECT bucket FROM node_rollups WHERE step = ?1 ORDER BY bucket DESC LIMIT 1)
"""
_REACHED = "SELECT max(covered_until) FROM node_rollups WHERE step = ? AND bucket = ?"
_SHARES = """
WITH parts AS (
    SELECT json_extract(value, '$[0]') AS step, json_extract(value, '$[1]') AS bucket
    FROM json_each({parts})
), shares AS (
    SELECT p.step, p.bucket, r.node_id, r.joules, r.idle_joules, r.containers_joules,
           coalesce(CASE WHEN r.covered_until > r.covered_from THEN
               max(0.0, min(:end, r.covered_until) - max(:start, r.covered_from))
               / (r.covered_until - r.covered_from)
           ELSE r.covered_from >= :start AND r.covered_from < :end END, 0.0) AS share,
           coalesce(r.covered_until - r.covered_from, 0.0) AS seconds
    FROM parts p CROSS JOIN node_rollups r ON r.step = p.step AND r.bucket = p.bucket
)
"""
_PARTS = _SHARES.format(parts=":parts")
_NODE_SUMS = "sum(s.share * s.joules), sum(s.share * s.idle_joules), sum(s.share * s.containers_joules)"
_BY_DAY = f"""{_PARTS}
SELECT s.bucket * s.step / {_DAY_SECONDS} AS day, {_NODE_SUMS} FROM shares s GROUP BY day ORDER BY day
"""  # noqa: S608 - names of our own
_BY_NODE = f"""{_PARTS}
SELECT n.name, {_NODE_SUMS}, sum(s.share * s.seconds)
FROM shares s JOIN nodes n ON n.id = s.node_id GROUP BY n.id
"""  # noqa: S608 - names of our own
# All of a whole hour counts: one range of the table. Only at the edges does the share of each node matter.
_BY_CONTAINER = f"""{_SHARES.format(parts=":edges")}
, sums AS (
    SELECT container_id, sum(joules) AS joules FROM (
        SELECT r.container_id, r.joules FROM container_rollups r
        WHERE r.step = {COARSE_SECONDS} AND r.bucket BETWEEN :first_hour AND :last_hour
        UNION ALL
        SELECT r.container_id, s.share * r.joules
        FROM parts p CROSS JOIN container_rollups r ON r.step = p.step AND r.bucket = p.bucket
        JOIN containers c ON c.id = r.container_id
        JOIN shares s ON s.step = r.step AND s.bucket = r.bucket AND s.node_id = c.node_id
    ) GROUP BY container_id
)
SELECT n.name, c.runtime_id, f.body, s.joules
FROM sums s JOIN containers c ON c.id = s.container_id JOIN nodes n ON n.id = c.node_id
LEFT JOIN facts f ON f.id = c.facts_id
WHERE s.joules > 0
"""  # noqa: S608 - names of our own
