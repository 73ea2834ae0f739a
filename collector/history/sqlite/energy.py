"""Energy of any period: whole hours from hourly rollups, the edges from five-minute rollups."""

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from collector.history.interface import Account, GroupBy
from collector.history.sqlite.rollups import COARSE_SECONDS, FINE_SECONDS
from collector.history.sqlite.rows import StoredContainerFacts, decode_container_facts
from collector.history.sqlite.timeline import overlaps

_DAY_SECONDS = 86_400


def parts(start: float, end: float, detail_from: float) -> Iterator[tuple[int, int, float]]:
    """The rollups of a period: step, slot, and the share of the slot within the period.

    Energy is spread evenly within a slot. Before `detail_from` there are only hourly rollups.
    """
    for hour, seconds in overlaps(start, end, COARSE_SECONDS):
        begins_at = hour * COARSE_SECONDS
        if seconds >= COARSE_SECONDS or begins_at < detail_from:
            yield COARSE_SECONDS, hour, seconds / COARSE_SECONDS
        else:
            begin = max(start, begins_at)
            for slot, within in overlaps(begin, begin + seconds, FINE_SECONDS):
                yield FINE_SECONDS, slot, within / FINE_SECONDS


class EnergyReader:
    """Sums up energy."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def accounts(self, start: float, end: float, by: GroupBy, label: str | None) -> list[Account]:
        """The energy used in `[start, end)`, highest first, or by day."""
        (oldest,) = self._connection.execute(_OLDEST_SLOT, (FINE_SECONDS,)).fetchone()
        # The first hour of five-minute rollups may be incomplete.
        detail_from = (
            math.inf if oldest is None else -(-oldest * FINE_SECONDS // COARSE_SECONDS) * COARSE_SECONDS
        )
        given = {"parts": json.dumps(list(parts(start, end, detail_from)))}
        match by:
            case GroupBy.DAY:
                rows = self._connection.execute(_BY_DAY, given)
                return [_node_account(_day(day), *joules) for day, *joules in rows]
            case GroupBy.NODE:
                return _sorted(_node_account(*row) for row in self._connection.execute(_BY_NODE, given))
            case GroupBy.CONTAINER:
                return _sorted(
                    Account(key=key, joules=joules, node=node, name=facts.name, service=facts.service)
                    for node, key, facts, joules in self._containers(given)
                )
            case GroupBy.SERVICE:
                return self._grouped(given, lambda facts: facts.service)
            case GroupBy.LABEL:
                return self._grouped(given, lambda facts: facts.labels.get(label or ""))

    def _containers(self, given: dict[str, str]) -> Iterator[tuple[str, str, StoredContainerFacts, float]]:
        for node, runtime_id, body, joules in self._connection.execute(_BY_CONTAINER, given):
            facts = (
                StoredContainerFacts(runtime_id, "unknown") if body is None else decode_container_facts(body)
            )
            yield node, runtime_id, facts, joules

    def _grouped(
        self, given: dict[str, str], key_of: Callable[[StoredContainerFacts], str | None]
    ) -> list[Account]:
        sums: defaultdict[str | None, float] = defaultdict(float)
        for _, _, facts, joules in self._containers(given):
            sums[key_of(facts)] += joules
        return _sorted(Account(key=key, joules=joules) for key, joules in sums.items())


def _sorted(accounts: Iterator[Account]) -> list[Account]:
    return sorted(accounts, key=lambda account: (-account.joules, account.key or "", account.node or ""))


def _node_account(key: str, joules: float, idle_joules: float, containers_joules: float) -> Account:
    return Account(
        key=key,
        joules=joules,
        idle_joules=idle_joules,
        # Rounding can make it negative.
        system_joules=max(0.0, joules - idle_joules - containers_joules),
        containers_joules=containers_joules,
    )


def _day(number: int) -> str:
    return datetime.fromtimestamp(number * _DAY_SECONDS, UTC).date().isoformat()


_OLDEST_SLOT = "SELECT min(slot) FROM node_rollups WHERE step = ?"
_PARTS = """
WITH parts AS (
    SELECT json_extract(value, '$[0]') AS step, json_extract(value, '$[1]') AS slot,
           json_extract(value, '$[2]') AS share
    FROM json_each(:parts)
)
"""
_NODE_SUMS = """
sum(p.share * r.joules), sum(p.share * r.idle_joules), sum(p.share * r.containers_joules)
FROM parts p CROSS JOIN node_rollups r ON r.step = p.step AND r.slot = p.slot
"""
_BY_DAY = f"""{_PARTS}
SELECT p.slot * p.step / {_DAY_SECONDS} AS day, {_NODE_SUMS} GROUP BY day ORDER BY day
"""
_BY_NODE = f"{_PARTS} SELECT n.name, {_NODE_SUMS} JOIN nodes n ON n.id = r.node_id GROUP BY n.id"
_BY_CONTAINER = f"""{_PARTS}
, sums AS (
    SELECT r.container_id, sum(p.share * r.joules) AS joules
    FROM parts p CROSS JOIN container_rollups r ON r.step = p.step AND r.slot = p.slot
    GROUP BY r.container_id
)
SELECT n.name, c.runtime_id, f.body, s.joules
FROM sums s JOIN containers c ON c.id = s.container_id JOIN nodes n ON n.id = c.node_id
LEFT JOIN facts f ON f.id = c.facts_id
WHERE s.joules > 0
"""  # noqa: S608 - names of our own
