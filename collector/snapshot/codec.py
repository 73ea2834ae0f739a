"""A snapshot as bytes, and back: the journal stores it with a decision, so that the decision can be replayed.

Every column is stored as it is in memory, since a policy may read any of them.
"""

from typing import Any, get_origin

import cramjam
import msgspec
import numpy as np

from collector.common.extensions import extend
from collector.snapshot.constraints import Constraint, PlacementRules
from collector.snapshot.parts import SnapshotPart
from collector.snapshot.tables import Nodes, Pending, Services, Snapshot, Tasks
from collector.snapshot.windows import TaskWindows

_LEVEL = 3


class _Stored(msgspec.Struct):
    """The fields of a snapshot that are stored, under their names."""

    at: float
    nodes: Nodes
    tasks: Tasks
    services: Services
    turn: int
    seed: int
    domain_names: tuple[str, ...]
    pending: Pending
    rules: dict[int, PlacementRules]
    constraints: dict[int, tuple[Constraint, ...]]


class _Column(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]
    data: bytes


def pack(snapshot: Snapshot) -> bytes:
    """A whole snapshot, compressed."""
    columns = {name: getattr(snapshot, name) for name in _Stored.__struct_fields__}
    parts = {kind.__name__: part for kind in _kinds() if (part := snapshot.part(kind)) is not None}
    packed = msgspec.msgpack.encode((columns, parts), enc_hook=_packed)
    return bytes(cramjam.zstd.compress(packed, level=_LEVEL))


def unpack(packed: bytes) -> Snapshot:
    """The snapshot that `pack` made these bytes of. Raise `msgspec.DecodeError` if another version did."""
    content = bytes(cramjam.zstd.decompress(packed))
    stored, parts = msgspec.msgpack.decode(
        content, type=tuple[_Stored, dict[str, msgspec.Raw]], dec_hook=_restored
    )
    return Snapshot(
        **msgspec.structs.asdict(stored),
        parts={
            kind: msgspec.msgpack.decode(parts[kind.__name__], type=kind, dec_hook=_restored)
            for kind in _kinds()
            if kind.__name__ in parts
        },
    )


def _kinds() -> tuple[type[SnapshotPart], ...]:
    return extend("snapshot", "PARTS")


def _packed(value: Any) -> _Column:  # noqa: ANN401 - a value of any type
    column = value.amounts if isinstance(value, TaskWindows) else value
    assert isinstance(column, np.ndarray)
    return _Column(column.dtype.str, column.shape, np.ascontiguousarray(column).tobytes())


def _restored(kind: Any, value: Any) -> Any:  # noqa: ANN401 - a value of any type
    assert kind is TaskWindows or get_origin(kind) is np.ndarray
    packed = msgspec.convert(value, _Column)
    column = np.frombuffer(packed.data, dtype=packed.dtype).reshape(packed.shape)
    return TaskWindows.of(column) if kind is TaskWindows else column
