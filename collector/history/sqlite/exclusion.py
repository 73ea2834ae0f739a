"""Leaves nodes out of every answer about the past, without deleting what they reported.

A view of a connection has precedence over a table of the same name. So with these views, every query of the
connection finds the rows of the other nodes only, and no query has to know.
"""

import json
import sqlite3
from collections.abc import Collection

_EXCLUDED = "SELECT id FROM main.nodes WHERE name IN (SELECT value FROM json_each({nodes}))"
_VIEWS = {
    "nodes": f"id NOT IN ({_EXCLUDED})",
    "boots": f"node_id NOT IN ({_EXCLUDED})",
    "containers": f"node_id NOT IN ({_EXCLUDED})",
    "node_rollups": f"node_id NOT IN ({_EXCLUDED})",
    "reports": f"boot_id NOT IN (SELECT id FROM main.boots WHERE node_id IN ({_EXCLUDED}))",  # noqa: S608 - names of our own
}
_BEGAN = """
SELECT min(at) FROM (
    SELECT min(r.received_at) AS at FROM main.nodes n JOIN main.boots b ON b.node_id = n.id
    JOIN main.reports r ON r.boot_id = b.id WHERE n.name = :node
    UNION ALL
    SELECT min(r.covered_from) FROM main.nodes n JOIN main.node_rollups r ON r.node_id = n.id
    WHERE n.name = :node
)
"""
_SERVICES = """
SELECT DISTINCT json_extract(f.body, '$.service') AS service FROM main.nodes n
JOIN main.containers c ON c.node_id = n.id JOIN main.facts f ON f.id = c.facts_id
WHERE n.name = ? AND service IS NOT NULL
"""


def exclude(connection: sqlite3.Connection, nodes: Collection[str]) -> None:
    """Let a connection for reading find nothing of these nodes, and all of the others."""
    listed = "'" + json.dumps(sorted(nodes)).replace("'", "''") + "'"
    connection.execute("PRAGMA query_only = OFF")
    try:
        for table, condition in _VIEWS.items():
            connection.execute(f"DROP VIEW IF EXISTS temp.{table}")
            if nodes:
                where = condition.format(nodes=listed)
                connection.execute(f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} WHERE {where}")  # noqa: S608 - names of our own, and text in quotes
    finally:
        connection.execute("PRAGMA query_only = ON")


def read_contribution(connection: sqlite3.Connection, node: str) -> tuple[float | None, frozenset[str]]:
    """When a node first reported, as far as that is known, and the services that it reported."""
    (began_at,) = connection.execute(_BEGAN, {"node": node}).fetchone()
    return began_at, frozenset(service for (service,) in connection.execute(_SERVICES, (node,)))
