"""A snapshot as bytes, and back: what a decision was made from, so that it can be made again.

All of it is kept, column by column, as it is in memory: a policy may look at any of it, and columns of equal
numbers compress well.
"""

from dataclasses import fields
from typing import Any, TypeVar

import msgspec
import numpy as np
import zstandard

from collector.snapshot.power_curves import PowerCurves
from collector.snapshot.tables import Nodes, Services, Snapshot, Tasks

Table = TypeVar("Table")

_LEVEL = 3


def pack(snapshot: Snapshot) -> bytes:
    """All of a snapshot, compressed."""
    kept = {
        "at": snapshot.at,
        "turn": snapshot.turn,
        "seed": snapshot.seed,
        "domain_names": snapshot.domain_names,
        "sent": [_column(rows) for rows in snapshot.sent],
        "nodes": _table(snapshot.nodes),
        "tasks": _table(snapshot.tasks),
        "services": _table(snapshot.services),
    }
    return zstandard.compress(msgspec.msgpack.encode(kept), _LEVEL)


def unpack(packed: bytes) -> Snapshot:
    """The same snapshot."""
    kept = msgspec.msgpack.decode(zstandard.decompress(packed))
    nodes, sent = kept["sent"]
    return Snapshot(
        at=kept["at"],
        nodes=_restored(Nodes, kept["nodes"]),
        tasks=_restored(Tasks, kept["tasks"]),
        services=_restored(Services, kept["services"]),
        turn=kept["turn"],
        seed=kept["seed"],
        domain_names=tuple(kept["domain_names"]),
        sent=(_array(nodes), _array(sent)),
    )


def _table(table: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of columns
    return {field.name: _value(getattr(table, field.name)) for field in fields(table)}


def _value(value: Any) -> Any:  # noqa: ANN401 - a column of whatever type
    match value:
        case np.ndarray():
            return _column(value)
        case PowerCurves():
            return _table(value)
        case _:
            return [dict(each) if isinstance(each, dict) else each for each in value]


def _column(column: "np.ndarray[Any, Any]") -> dict[str, Any]:
    return {
        "dtype": column.dtype.str,
        "shape": column.shape,
        "data": np.ascontiguousarray(column).tobytes(),
    }


def _array(kept: dict[str, Any]) -> "np.ndarray[Any, Any]":
    return np.frombuffer(kept["data"], dtype=kept["dtype"]).reshape(kept["shape"])


def _restored(table: type[Table], kept: dict[str, Any]) -> Table:
    columns: dict[str, Any] = {}
    for name, value in kept.items():
        if name == "power":
            columns[name] = _restored(PowerCurves, value)
        elif isinstance(value, dict):
            columns[name] = _array(value)
        else:
            columns[name] = tuple(value)
    return table(**columns)
