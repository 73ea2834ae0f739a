"""The small numbers by which rows refer to nodes, runs of agents, containers and facts."""

import sqlite3

Key = tuple[str | int, ...]


class IdCache:
    """Those of one table, remembered while they are in use."""

    def __init__(
        self, connection: sqlite3.Connection, table: str, columns: tuple[str, ...], refresh_seconds: float
    ) -> None:
        self._connection = connection
        self._refresh_seconds = refresh_seconds
        self._known: dict[Key, tuple[int, float]] = {}
        names = ", ".join(columns)
        marks = ", ".join("?" for _ in columns)
        self._upsert = (
            f"INSERT INTO {table} ({names}, seen_at) VALUES ({marks}, ?) "  # noqa: S608 - names of our own
            f"ON CONFLICT ({names}) DO UPDATE SET seen_at = max(seen_at, excluded.seen_at) RETURNING id"
        )

    def of(self, key: Key, now: float) -> int:
        """The number of a row, which is made if it is not there, and marked as in use now and then."""
        known = self._known.get(key)
        if known is not None and known[1] >= now - self._refresh_seconds:
            return known[0]
        ((number,),) = self._connection.execute(self._upsert, (*key, now)).fetchall()
        self._known[key] = (number, now)
        return int(number)

    def forget(self, before: float) -> None:
        """No longer believe what was last seen before a time."""
        self._known = {key: value for key, value in self._known.items() if value[1] >= before}


class IdCaches:
    """The numbers of all tables, and which facts each container last had."""

    def __init__(self, connection: sqlite3.Connection, refresh_seconds: float) -> None:
        self._connection = connection
        self.nodes = IdCache(connection, "nodes", ("name",), refresh_seconds)
        self.boots = IdCache(connection, "boots", ("node_id", "name"), refresh_seconds)
        self.containers = IdCache(connection, "containers", ("node_id", "runtime_id"), refresh_seconds)
        self.facts = IdCache(connection, "facts", ("body",), refresh_seconds)
        self._last_facts: dict[int, int] = {}

    def note_facts(self, container_id: int, facts_id: int) -> None:
        """These are a container's facts now: they are kept for as long as the container is."""
        if self._last_facts.get(container_id) != facts_id:
            self._connection.execute(
                "UPDATE containers SET facts_id = ? WHERE id = ?", (facts_id, container_id)
            )
            self._last_facts[container_id] = facts_id

    def has_facts(self, container_id: int) -> bool:
        """Whether anything is known of a container but its id."""
        if container_id in self._last_facts:
            return True
        found = self._connection.execute("SELECT facts_id FROM containers WHERE id = ?", (container_id,))
        return bool(found.fetchone() != (None,))

    def forget(self, before: float) -> None:
        """No longer believe what was last seen before a time."""
        for numbers in (self.nodes, self.boots, self.containers, self.facts):
            numbers.forget(before)
        self._last_facts.clear()
