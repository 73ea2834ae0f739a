"""Write the rollups of a past that no report describes: of a demo, or of another monitoring system."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Floats
from collector.history.sqlite.schema import (
    CONTAINER_JOULES,
    COVERED,
    NODE_JOULES,
    ROLLUP_VALUES,
    SET_DETAIL_FROM,
)

_HOUR_SECONDS = 3600


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PastSlot:
    """One slot of the past: means over it, per node and per container, and the highest values."""

    step_seconds: int
    slot: int
    """Unix time of its start, divided by its length."""
    covered_from: float
    covered_until: float
    """The part of the slot that is known."""
    nodes: Floats
    """A row per node: cores, bytes, bytes per second of disk and network, watts."""
    idle_watts: Floats
    container_watts: Floats
    """The sum over the containers of each node."""
    containers: Floats
    """Means and highest values per container, like `nodes`."""
    peak_factor: float
    """The highest values, relative to the means."""
    node_pressure: Floats | None = None
    """A row per node: the share of time that tasks waited for CPU, memory and disk; None if unknown."""
    container_pressure: Floats | None = None


def write_past(
    connection: sqlite3.Connection,
    nodes: Sequence[str],
    containers: Sequence[str],
    slots: Iterator[PastSlot],
    detail_from: float,
) -> None:
    """Insert the slots, for nodes and containers (by id) that reports have named before.

    Slots of five minutes begin at `detail_from`.
    """
    node_ids = _ids(connection, "SELECT name, id FROM nodes", nodes)
    container_ids = _ids(connection, "SELECT runtime_id, id FROM containers", containers)
    with connection:
        connection.execute("BEGIN")
        for slot in slots:
            _insert(connection, slot, node_ids, container_ids)
        whole_hour = -(-detail_from // _HOUR_SECONDS) * _HOUR_SECONDS
        connection.execute(SET_DETAIL_FROM, (str(whole_hour).encode(),))


def _ids(connection: sqlite3.Connection, query: str, names: Sequence[str]) -> list[int]:
    known = dict(connection.execute(query))
    return [known[name] for name in names]


def _insert(
    connection: sqlite3.Connection, slot: PastSlot, node_ids: list[int], container_ids: list[int]
) -> None:
    seconds = slot.covered_until - slot.covered_from
    key = (slot.step_seconds, slot.slot)
    sums, maxima = _columns(slot.nodes, slot.node_pressure, seconds, slot.peak_factor)
    joules = np.column_stack([slot.nodes[:, -1], slot.idle_watts, slot.container_watts]) * seconds
    connection.executemany(
        _ADD_NODE,
        [
            (*key, each, seconds, *totals, *highest, *energy, slot.covered_from, slot.covered_until)
            for each, totals, highest, energy in zip(node_ids, sums, maxima, joules.tolist(), strict=True)
        ],
    )
    sums, maxima = _columns(slot.containers, slot.container_pressure, seconds, slot.peak_factor)
    joules = slot.containers[:, -1] * seconds
    connection.executemany(
        _ADD_CONTAINER,
        [
            (*key, each, seconds, *totals, *highest, energy)
            for each, totals, highest, energy in zip(
                container_ids, sums, maxima, joules.tolist(), strict=True
            )
        ],
    )


def _columns(
    means: Floats, pressure: Floats | None, seconds: float, peak_factor: float
) -> tuple[list[list[float]], list[list[float]]]:
    """The sums and the maxima of rollups, with pressure in milliseconds and millionths."""
    if pressure is None:
        # SQLite stores what is not a number as unknown.
        pressure = np.full((len(means), 3), np.nan)
    waiting = np.round(pressure * seconds * 1e3)
    highest = np.round(np.minimum(1.0, pressure * peak_factor) * 1e6)
    sums = np.column_stack([means * seconds, waiting]).tolist()
    return sums, np.column_stack([means * peak_factor, highest]).tolist()


def _statement(table: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - names of our own


_ADD_NODE = _statement("node_rollups", ("step", "slot", "node_id", *ROLLUP_VALUES, *NODE_JOULES, *COVERED))
_ADD_CONTAINER = _statement(
    "container_rollups", ("step", "slot", "container_id", *ROLLUP_VALUES, *CONTAINER_JOULES)
)
