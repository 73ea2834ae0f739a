"""Read usage in slots of five minutes: from the rollups, and from reports that they do not include yet."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import isnan
from operator import itemgetter

import numpy as np

from collector.history.interface import SlotUsage
from collector.history.sqlite.rollup_store import RollupReader
from collector.history.sqlite.rollups import FINE_SECONDS, NodeReading
from collector.history.sqlite.timeline import Sample, SampleColumns, sum_samples

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
_NODES_AT_ONCE = 200
_RESOURCES = 4
_UNKNOWN = (None,) * _RESOURCES
Subject = tuple[str, str | None]
"""A node and one of its containers; None for the node itself."""


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
        nodes = self._connection.execute("SELECT id, name FROM nodes").fetchall()
        for start in range(0, len(nodes), _NODES_AT_ONCE):
            samples = _Samples()
            for node_id, node in nodes[start : start + _NODES_AT_ONCE]:
                samples.add(node, self._rollups.read_pending(node_id), names)
            yield from samples.usage(first)


class _Samples:
    """Samples of some nodes and their containers, which are summed up at once."""

    def __init__(self) -> None:
        self._subjects: list[Subject] = []
        self._rows: list[tuple[int, float, Sample]] = []

    def add(self, node: str, readings: Sequence[NodeReading], names: Mapping[int, str]) -> None:
        """Add the readings of a node, and of its containers with these names."""
        places: dict[int | None, int] = {}
        for reading in readings:
            given = [
                (None, reading.sample),
                *((each.container_id, each.sample) for each in reading.containers),
            ]
            for number, sample in given:
                if sample is None or (number is not None and number not in names):
                    continue
                if number not in places:
                    places[number] = len(self._subjects)
                    self._subjects.append((node, None if number is None else names[number]))
                self._rows.append((places[number], readings[0].at, sample))

    def usage(self, first: int) -> Iterator[SlotUsage]:
        """The usage in slots from a first one on."""
        rows = sorted(self._rows, key=itemgetter(0))
        samples = [sample for _, _, sample in rows]
        values = [_UNKNOWN if sample.values is None else sample.values[:_RESOURCES] for sample in samples]
        sums = sum_samples(
            SampleColumns(
                subject=np.array([subject for subject, _, _ in rows], dtype=np.int64),
                at=np.array([sample.at for sample in samples]),
                window_seconds=np.array([sample.window_seconds for sample in samples]),
                exists=np.array([sample.values is not None for sample in samples], dtype=np.bool_),
                values=np.array(values, dtype=np.float64).reshape(-1, _RESOURCES),
                from_at=np.array([from_at for _, from_at, _ in rows]),
            ),
            FINE_SECONDS,
        )
        for subject, slot, seconds, totals in zip(
            sums.subject.tolist(),
            sums.slot.tolist(),
            sums.seconds.tolist(),
            sums.totals.tolist(),
            strict=True,
        ):
            if slot >= first:
                known = _four([None if isnan(total) else total for total in totals])
                node, container = self._subjects[subject]
                yield SlotUsage(node, container, slot, seconds, known)


def _four(totals: Sequence[float | None]) -> tuple[float | None, float | None, float | None, float | None]:
    cpu, memory, disk, network = totals
    return cpu, memory, disk, network
