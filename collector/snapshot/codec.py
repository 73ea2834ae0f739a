"""A snapshot as bytes, and back: the journal stores it with a decision, so that the decision can be replayed.

Every column is stored as it is in memory, since a policy may read any of them.
"""

from dataclasses import fields
from typing import Any, get_origin, get_type_hints

import cramjam
import msgspec
import numpy as np

from collector.common.extensions import extend
from collector.snapshot.parts import SnapshotPart
from collector.snapshot.tables import Snapshot
from collector.snapshot.windows import TaskWindows

_LEVEL = 3


_NOT_STORED = ("parts", "claims", "is_filtered")
"""Parts are stored by the names of their types; the others belong to the collector that decides now."""
_STORED = tuple(each.name for each in fields(Snapshot) if each.init and each.name not in _NOT_STORED)
_KINDS = get_type_hints(Snapshot)
_Stored: Any = msgspec.defstruct("_Stored", [(name, _KINDS[name]) for name in _STORED])


class _Column(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]
    data: bytes


def pack(snapshot: Snapshot) -> bytes:
    """A whole snapshot, compressed."""
    columns = {name: getattr(snapshot, name) for name in _STORED}
    parts = {kind.__name__: part for kind in _kinds() if (part := snapshot.part(kind)) is not None}
    packed = msgspec.msgpack.encode((columns, parts), enc_hook=_packed)
    return bytes(cramjam.zstd.compress(packed, level=_LEVEL))


def unpack(packed: bytes) -> Snapshot:
    """The snapshot that `pack` made these bytes of. Raise `msgspec.DecodeError` if another version did."""
    content = bytes(cramjam.zstd.decompress(packed))
    stored, parts = _decoder.decode(content)
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


_decoder = msgspec.msgpack.Decoder(tuple[_Stored, dict[str, msgspec.Raw]], dec_hook=_restored)
