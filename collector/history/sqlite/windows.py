"""Read usage in slots of five minutes: from the rollups, and from reports that they do not include yet."""

import json
import sqlite3
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from collector.history.interface import SlotUsage
from collector.history.sqlite.rollup_store import RollupReader
from collector.history.sqlite.rollups import FINE_SECONDS, usage_by_slot
from collector.history.sqlite.timeline import SlotSums

_SUMS = "r.slot, r.seconds, r.cpu_core_seconds, r.memory_byte_seconds, r.disk_bytes, r.network_bytes"
_NODES = f"""
SELECT n.name, {_SUMS} FROM node_rollups r JOIN nodes n ON n.id = r.node_id
WHERE r.step = {FINE_SECONDS} AND r.slot >= ?
"""  # noqa: S608 - names of our own
_CONTAINERS = f"""
SELECT n.name, c.runtime_id, {_SUMS}
FROM container_rollups r JOIN containers c ON c.id = r.container_id JOIN nodes n ON n.id = c.node_id
WHERE r.step = {FINE_SECONDS} AND r.slot >= ?
"""  # noqa: S608 - names of our own
_NUMBERS = """
SELECT c.id, c.runtime_id FROM json_each(?) each JOIN containers c ON c.runtime_id = each.value
"""
_RESOURCES = 4


class WindowReader:
    """Reads `SlotUsage`; changes nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._rollups = RollupReader(connection)

    def read(self, since: float, containers: AbstractSet[str]) -> list[SlotUsage]:
        """The slots that begin at or after a time, of nodes and of containers with these ids.

        The same slot may occur twice: its parts add up.
        """
        first = int(-(-since // FINE_SECONDS))
        # One read transaction, so that nothing is rolled up in between.
        self._connection.execute("BEGIN")
        try:
            return [*self._rolled_up(first, containers), *self._pending(first, containers)]
        finally:
            self._connection.execute("ROLLBACK")

    def _rolled_up(self, first: int, containers: AbstractSet[str]) -> Iterator[SlotUsage]:
        for node, slot, seconds, *totals in self._connection.execute(_NODES, (first,)):
            yield SlotUsage(node, None, slot, seconds or 0.0, _four(totals))
        for node, container, slot, seconds, *totals in self._connection.execute(_CONTAINERS, (first,)):
            if container in containers:
                yield SlotUsage(node, container, slot, seconds or 0.0, _four(totals))

    def _pending(self, first: int, containers: AbstractSet[str]) -> Iterator[SlotUsage]:
        names = dict(self._connection.execute(_NUMBERS, (json.dumps(list(containers)),)))
        for node_id, node in self._connection.execute("SELECT id, name FROM nodes").fetchall():
            readings = self._rollups.read_pending(node_id)
            if not readings:
                continue
            of_node, of_containers = usage_by_slot(readings)
            yield from _slots(node, None, of_node, first)
            for container_id, slots in of_containers.items():
                if container_id in names:
                    yield from _slots(node, names[container_id], slots, first)


def _slots(node: str, container: str | None, slots: dict[int, SlotSums], first: int) -> Iterator[SlotUsage]:
    for slot, sums in slots.items():
        if slot >= first:
            yield SlotUsage(node, container, slot, sums.seconds, _four(sums.totals))


def _four(totals: list[float | None]) -> tuple[float | None, float | None, float | None, float | None]:
    cpu, memory, disk, network = totals[:_RESOURCES]
    return cpu, memory, disk, network
