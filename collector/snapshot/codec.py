"""A snapshot as bytes, and back: the journal stores it with a decision, so that the decision can be replayed.

Every column is stored as it is in memory, since a policy may read any of them.
"""

from dataclasses import fields
from typing import Any, TypeVar

import cramjam
import msgspec
import numpy as np

from collector.slo.promises import Promise
from collector.features.network.applications.table import Applications
from collector.snapshot.constraints import Constraint, PlacementRules
from collector.features.network.mesh.delays import Delays
from collector.features.network.applications.images import ImageTable
from collector.snapshot.power_curves import PowerCurves
from collector.snapshot.promises import TaskPromises
from collector.snapshot.tables import Nodes, Pending, Services, Snapshot, Tasks
from collector.snapshot.windows import TaskWindows

Table = TypeVar("Table")

_LEVEL = 3


def pack(snapshot: Snapshot) -> bytes:
    """A whole snapshot, compressed."""
    columns = {
        "at": snapshot.at,
        "turn": snapshot.turn,
        "seed": snapshot.seed,
        "domain_names": snapshot.domain_names,
        "pending": [_column(rows) for rows in snapshot.pending],
        "nodes": _table(snapshot.nodes),
        "tasks": _table(snapshot.tasks),
        "services": _table(snapshot.services),
        "rules": list(snapshot.rules.items()),
        "constraints": list(snapshot.constraints.items()),
        "slo": None if snapshot.slo is None else _table(snapshot.slo),
        "delays": None if snapshot.delays is None else _table(snapshot.delays),
        "applications": _packed_applications(snapshot.applications),
        "images": _packed_images(snapshot.images),
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
        pending=Pending(*map(_array, columns["pending"])),
        slo=None if columns["slo"] is None else _promises(columns["slo"]),
        rules=dict(msgspec.convert(columns["rules"], list[tuple[int, PlacementRules]])),
        constraints=dict(
            msgspec.convert(columns.get("constraints", ()), list[tuple[int, tuple[Constraint, ...]]])
        ),
        delays=None if columns["delays"] is None else _restored(Delays, columns["delays"]),
        applications=_applications(columns["applications"]),
        images=_images(columns["images"]),
    )


def _table(table: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of columns
    return {field.name: _value(getattr(table, field.name)) for field in fields(table)}


def _value(value: Any) -> Any:  # noqa: ANN401 - a column of any type
    match value:
        case np.ndarray():
            return _column(value)
        case TaskWindows():
            return _column(value.amounts)
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


def _array(packed: dict[str, Any]) -> "np.ndarray[Any, Any]":
    return np.frombuffer(packed["data"], dtype=packed["dtype"]).reshape(packed["shape"])


def _promises(packed: dict[str, Any]) -> TaskPromises:
    columns = {name: _array(value) for name, value in packed.items() if isinstance(value, dict)}
    return TaskPromises(promises=msgspec.convert(packed["promises"], tuple[Promise, ...]), **columns)


def _packed_applications(applications: Applications | None) -> dict[str, Any] | None:
    if applications is None:
        return None
    return {
        "names": applications.names,
        "delay_max": _column(applications.delay_max),
        "of_service": _column(applications.of_service),
        "links": [(row, sorted(links)) for row, links in applications.links.items()],
    }


def _applications(packed: dict[str, Any] | None) -> Applications | None:
    if packed is None:
        return None
    return Applications(
        names=tuple(packed["names"]),
        delay_max=_array(packed["delay_max"]),
        of_service=_array(packed["of_service"]),
        links={row: frozenset((a, b) for a, b in links) for row, links in packed["links"]},
    )


def _packed_images(images: ImageTable | None) -> dict[str, Any] | None:
    """Each name once, as most nodes have the same ones."""
    if images is None:
        return None
    names = sorted(frozenset[str]().union(*images.references))
    number = {name: place for place, name in enumerate(names)}
    return {"names": names, "nodes": [sorted(map(number.__getitem__, each)) for each in images.references]}


def _images(packed: dict[str, Any] | None) -> ImageTable | None:
    if packed is None:
        return None
    names = packed["names"]
    return ImageTable(references=tuple(frozenset(names[place] for place in each) for each in packed["nodes"]))


def _restored(table: type[Table], packed: dict[str, Any]) -> Table:
    columns: dict[str, Any] = {}
    for name, value in packed.items():
        if name == "power":
            columns[name] = _restored(PowerCurves, value)
        elif name == "windows":
            columns[name] = TaskWindows.of(_array(value))
        elif isinstance(value, dict):
            columns[name] = _array(value)
        else:
            columns[name] = tuple(value)
    return table(**columns)
