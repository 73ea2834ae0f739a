"""The small numbers by which rows refer to nodes, boots, containers and facts."""

import sqlite3
from hashlib import blake2b

Key = tuple[str | int, ...]

_LONG_TEXT = 64
_DIGEST_BYTES = 16


class IdCache:
    """The ids of one table, cached while they are in use."""

    def __init__(
        self, connection: sqlite3.Connection, table: str, columns: tuple[str, ...], refresh_seconds: float
    ) -> None:
        self._connection = connection
        self._refresh_seconds = refresh_seconds
        self._cached: dict[Key | bytes, tuple[int, float]] = {}
        names = ", ".join(columns)
        marks = ", ".join("?" for _ in columns)
        self._upsert = (
            f"INSERT INTO {table} ({names}, last_used_at) VALUES ({marks}, ?) ON CONFLICT ({names}) "  # noqa: S608 - names of our own
            "DO UPDATE SET last_used_at = max(last_used_at, excluded.last_used_at) RETURNING id"
        )

    def get(self, key: Key, now: float) -> int:
        """The id of a row, which is inserted if missing, and marked as used from time to time."""
        short = _shortened(key)
        cached = self._cached.get(short)
        if cached is not None and cached[1] >= now - self._refresh_seconds:
            return cached[0]
        ((number,),) = self._connection.execute(self._upsert, (*key, now)).fetchall()
        self._cached[short] = (number, now)
        return int(number)

    def expire(self, before: float) -> None:
        """Drop the ids that were last marked before a time."""
        self._cached = {key: value for key, value in self._cached.items() if value[1] >= before}


def _shortened(key: Key) -> Key | bytes:
    """The key, or a digest of it if it is long: labels of many containers would fill the memory."""
    text = key[0]
    if len(key) > 1 or not isinstance(text, str) or len(text) <= _LONG_TEXT:
        return key
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


class IdCaches:
    """The ids of all tables, and the last facts of each container."""

    def __init__(self, connection: sqlite3.Connection, refresh_seconds: float) -> None:
        self._connection = connection
        self.nodes = IdCache(connection, "nodes", ("name",), refresh_seconds)
        self.boots = IdCache(connection, "boots", ("node_id", "name"), refresh_seconds)
        self.containers = IdCache(connection, "containers", ("node_id", "runtime_id"), refresh_seconds)
        self.facts = IdCache(connection, "facts", ("body",), refresh_seconds)
        self._last_facts: dict[int, int] = {}

    def set_facts(self, container_id: int, facts_id: int) -> None:
        """Store the current facts of a container, which are kept for as long as the container is."""
        if self._last_facts.get(container_id) != facts_id:
            self._connection.execute(
                "UPDATE containers SET facts_id = ? WHERE id = ?", (facts_id, container_id)
            )
            self._last_facts[container_id] = facts_id

    def has_facts(self, container_id: int) -> bool:
        """Whether more than the id of a container is stored."""
        if container_id in self._last_facts:
            return True
        found = self._connection.execute("SELECT facts_id FROM containers WHERE id = ?", (container_id,))
        return bool(found.fetchone() != (None,))

    def expire(self, before: float) -> None:
        """Drop the ids that were last marked before a time."""
        for cache in (self.nodes, self.boots, self.containers, self.facts):
            cache.expire(before)
        self._last_facts.clear()
