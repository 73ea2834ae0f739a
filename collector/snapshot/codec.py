"""A snapshot as bytes, and back: the journal stores it with a decision, so that the decision can be replayed.

Every column is stored as it is in memory, since a policy may read any of them.
"""

from dataclasses import fields
from typing import Any, TypeVar

import cramjam
import msgspec
import numpy as np

from collector.common.applications import ApplicationTraits
from collector.common.extensions import extend
from collector.snapshot.constraints import Constraint, PlacementRules
from collector.snapshot.parts import PartCodec
from collector.snapshot.power_curves import PowerCurves
from collector.snapshot.tables import Nodes, Pending, Services, Snapshot, Tasks
from collector.snapshot.windows import TaskWindows

Table = TypeVar("Table")

_LEVEL = 3


def pack(snapshot: Snapshot) -> bytes:
    """A whole snapshot, compressed."""
    pending = {name: rows for name, rows in snapshot.pending._asdict().items() if name != "applications"}
    columns = {
        "at": snapshot.at,
        "turn": snapshot.turn,
        "seed": snapshot.seed,
        "domain_names": snapshot.domain_names,
        "pending": {name: pack_column(rows) for name, rows in pending.items()},
        "pending_applications": snapshot.pending.applications,
        "nodes": _table(snapshot.nodes),
        "tasks": _table(snapshot.tasks),
        "services": _table(snapshot.services),
        "rules": list(snapshot.rules.items()),
        "constraints": list(snapshot.constraints.items()),
        "parts": {
            each.key: each.pack(part) for each in _codecs() if (part := snapshot.part(each.kind)) is not None
        },
    }
    return bytes(cramjam.zstd.compress(msgspec.msgpack.encode(columns), level=_LEVEL))


def unpack(packed: bytes) -> Snapshot:
    """The snapshot that `pack` made these bytes of."""
    columns = msgspec.msgpack.decode(bytes(cramjam.zstd.decompress(packed)))
    return Snapshot(
        at=columns["at"],
        nodes=_restored(Nodes, columns["nodes"]),
        tasks=_restored(Tasks, columns["tasks"]),
        services=_restored(Services, columns["services"]),
        turn=columns["turn"],
        seed=columns["seed"],
        domain_names=tuple(columns["domain_names"]),
        pending=Pending(
            **{name: unpack_column(rows) for name, rows in columns["pending"].items()},
            applications=msgspec.convert(columns["pending_applications"], tuple[ApplicationTraits, ...]),
        ),
        parts={
            each.kind: each.unpack(columns["parts"][each.key])
            for each in _codecs()
            if each.key in columns["parts"]
        },
        rules=dict(msgspec.convert(columns["rules"], list[tuple[int, PlacementRules]])),
        constraints=dict(
            msgspec.convert(columns.get("constraints", ()), list[tuple[int, tuple[Constraint, ...]]])
        ),
    )


def _codecs() -> tuple[PartCodec[Any], ...]:
    return extend("snapshot", "PARTS")


def _table(table: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of columns
    return {field.name: _value(getattr(table, field.name)) for field in fields(table)}


def _value(value: Any) -> Any:  # noqa: ANN401 - a column of any type
    match value:
        case np.ndarray():
            return pack_column(value)
        case TaskWindows():
            return pack_column(value.amounts)
        case PowerCurves():
            return pack_column(value.rows)
        case _:
            return [dict(each) if isinstance(each, dict) else each for each in value]


def pack_column(column: "np.ndarray[Any, Any]") -> dict[str, Any]:
    """A column for msgpack."""
    return {
        "dtype": column.dtype.str,
        "shape": column.shape,
        "data": np.ascontiguousarray(column).tobytes(),
    }


def unpack_column(packed: dict[str, Any]) -> "np.ndarray[Any, Any]":
    """The column that `pack_column` made this of."""
    return np.frombuffer(packed["data"], dtype=packed["dtype"]).reshape(packed["shape"])


def _restored(table: type[Table], packed: dict[str, Any]) -> Table:
    columns: dict[str, Any] = {}
    for name, value in packed.items():
        if name == "power":
            columns[name] = PowerCurves(unpack_column(value))
        elif name == "windows":
            columns[name] = TaskWindows.of(unpack_column(value))
        elif isinstance(value, dict):
            columns[name] = unpack_column(value)
        else:
            columns[name] = tuple(value)
    return table(**columns)
