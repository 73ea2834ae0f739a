"""The columns of promises as bytes, and back."""

from typing import Any

import msgspec

from collector.slo.promises import Promise
from collector.snapshot.codec import pack_column, unpack_column
from collector.snapshot.parts import PartCodec
from collector.snapshot.promises import COLUMNS, TaskPromises


def _pack(promises: TaskPromises) -> dict[str, Any]:
    columns = {name: pack_column(getattr(promises, name)) for name in COLUMNS}
    return {"promises": promises.promises, "columns": columns}


def _unpack(packed: dict[str, Any]) -> TaskPromises:
    columns: dict[str, Any] = {name: unpack_column(column) for name, column in packed["columns"].items()}
    return TaskPromises(promises=msgspec.convert(packed["promises"], tuple[Promise, ...]), **columns)


PARTS = (PartCodec("promises", TaskPromises, _pack, _unpack),)
