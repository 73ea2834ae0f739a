"""Checksums of what the history stores: a value that changed on the disk is found, and never answered with.

SQLite notices damage of its own structure only. A row has its checksum in the column `checksum`, computed by
the SQL function `row_checksum`. The checksum of a report covers its samples and events as well: a report is
kept whole, or not at all.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from zlib import crc32

import msgspec

from collector.history.sqlite.rows import Row

_encode = msgspec.msgpack.Encoder().encode
_EXACT = 2.0**53


def row_checksum(*values: object) -> int:
    """The checksum of the values of a row."""
    return crc32(_encode(_stored(values)))


def report_checksum(report: Row, node: Row | None, containers: Iterable[Row], events: Iterable[Row]) -> int:
    """The checksum of a report: of its own row, its samples and its events, all without the report's id."""
    ordered = sorted(map(_stored, containers), key=_number)
    parts = (
        _stored(report),
        None if node is None else _stored(node),
        ordered,
        [_stored(each) for each in events],
    )
    return crc32(_encode(parts))


def register(connection: sqlite3.Connection) -> None:
    """Let statements on this connection compute checksums."""
    connection.create_function("row_checksum", -1, row_checksum, deterministic=True)


def _stored(values: Sequence[object]) -> list[object]:
    """The values as SQLite returns them: a column of whole numbers, or of others, has no -0.0, 1.0 or 1."""
    return [
        int(each) if type(each) is float and each.is_integer() and abs(each) < _EXACT else each
        for each in values
    ]


def _number(row: Sequence[object]) -> int:
    return row[0]  # type: ignore[return-value]  # the id of the container
