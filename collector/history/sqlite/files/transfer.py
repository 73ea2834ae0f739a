"""Copy a history into a new file: from an older format, or out of a damaged file.

Tables are copied in pieces. A piece that cannot be read is halved; one key that cannot be read is left out.
So a damaged page costs the rows on it, or those of the pages that it leads to.
"""

import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

_PIECE_ROWS = 128
_MOST_PIECES = 100
"""Pieces that are tried where the end of a table cannot be read."""
OLDEST_FORMAT = 4
"""The first format with accounts. Formats before it only have the samples of a few hours."""

_OLD_TABLES = {"rollup_progress": "rolled"}
"""Names of tables before format 6."""
_OLD_COLUMNS = {"last_used_at": "seen_at"}
_FILLED: Mapping[tuple[str, str], str] = {
    ("reports", "size"): "500",
    # Energy was spread over the whole slot.
    ("node_rollups", "covered_from"): "CAST(slot * step AS REAL)",
    ("node_rollups", "covered_until"): "CAST((slot + 1) * step AS REAL)",
}
"""Columns that older formats do not have, and their values."""


@dataclass(frozen=True, slots=True)
class TableCopy:
    """What was copied of one table."""

    table: str
    rows: int
    unreadable_pieces: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """The rows of a table with keys in `[low, high)`."""

    key: str
    low: int
    high: int
    prefix: str = ""

    @property
    def condition(self) -> str:
        return f"{self.prefix}{self.key} >= {self.low} AND {self.key} < {self.high}"

    def halves(self) -> list["_Piece"]:
        """Both halves; none if it is one key."""
        if self.high - self.low <= 1:
            return []
        middle = (self.low + self.high) // 2
        return [
            _Piece(self.key, self.low, middle, self.prefix),
            _Piece(self.key, middle, self.high, self.prefix),
        ]


def copy_history(source: sqlite3.Connection, target: sqlite3.Connection) -> list[TableCopy]:
    """Copy every table of the new format that the old one has as well."""
    tables = [name for (name,) in target.execute(_TABLES)]
    copies = [copy for table in tables if (copy := _copy_table(source, target, table)) is not None]
    for delete in _ORPHANS:
        # New reports must not get the number of one whose samples are left.
        target.execute(delete)
    return copies


def _copy_table(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> TableCopy | None:
    old_table = _old_name(source, table)
    if old_table is None:
        return None
    expressions: dict[str, str] = {}
    old_columns = _columns(source, old_table)
    for column, is_required in _columns(target, table).items():
        expression = _expression(table, column, old_columns)
        if expression is not None:
            expressions[column] = expression
        elif is_required:
            return None  # its meaning changed, such as the usage of a day before format 5
    names, marks = ", ".join(expressions), ", ".join("?" for _ in expressions)
    # Names of our own.
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - see above
    select = f"SELECT {', '.join(expressions.values())} FROM {old_table}"  # noqa: S608 - see above
    only_right = _has_its_checksum(source, old_table)
    rows = unreadable = 0
    target.execute("BEGIN")
    pieces = _pieces(source, old_table, old_columns)
    while pieces:
        piece = pieces.pop()
        try:
            found = source.execute(f"{select} WHERE {piece.condition}{only_right}").fetchall()
        except sqlite3.DatabaseError:
            parts = piece.halves()
            pieces += parts
            unreadable += not parts
            continue
        rows += target.executemany(insert, found).rowcount if found else 0
    target.execute("COMMIT")
    return TableCopy(table, rows, unreadable)


def _has_its_checksum(source: sqlite3.Connection, table: str) -> str:
    """A condition for the rows that have their checksum: the new file would compute a new one for any row."""
    (statement,) = source.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    found = _CHECKSUM.search(statement)
    return "" if found is None else f" AND checksum IS ({found[1]})"


def _old_name(source: sqlite3.Connection, table: str) -> str | None:
    for name in (table, _OLD_TABLES.get(table)):
        if name is not None and source.execute(_HAS_TABLE, (name,)).fetchone() is not None:
            return name
    return None


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, bool]:
    """The columns of a table, and whether each is required."""
    found = connection.execute(f"PRAGMA table_info({table})").fetchall()
    return {name: bool(not_null or key) for _, name, _, not_null, _, key in found}


def _expression(table: str, column: str, old: Mapping[str, bool]) -> str | None:
    for name in (column, _OLD_COLUMNS.get(column), column.replace("max_", "most_", 1)):
        if name in old:
            return name
    return _FILLED.get((table, column))


def _pieces(source: sqlite3.Connection, table: str, columns: Mapping[str, bool]) -> list[_Piece]:
    """A table in pieces, along the order that it is stored in."""
    if "step" in columns:
        return [
            _Piece("slot", low, low + _PIECE_ROWS, f"step = {step} AND ")
            for step in (300, 3600)
            for low in _range(source, table, "slot", f"WHERE step = {step}")
        ]
    key = "report_id" if "report_id" in columns else "id" if "id" in columns else None
    if key is None:
        return [_Piece("1", 1, 2)]
    places = _range(source, table, key)
    if key == "report_id":
        # The end of one table may be damaged, that of another is hardly so too.
        numbers = _range(source, "reports", "id")
        places = range(places.start, max(places.stop, numbers.stop), _PIECE_ROWS)
    return [_Piece(key, low, low + _PIECE_ROWS) for low in places]


def _range(source: sqlite3.Connection, table: str, key: str, where: str = "") -> range:
    """Where pieces begin: from the lowest to the highest key that can be read."""
    found = []
    for order in ("ASC", "DESC"):
        try:
            query = f"SELECT {key} FROM {table} {where} ORDER BY {key} {order} LIMIT 1"  # noqa: S608 - our own
            row = source.execute(query).fetchone()
        except sqlite3.DatabaseError:
            row = None
        found.append(None if row is None else int(row[0]))
    low, high = found
    if low is None and high is None:
        return range(0)
    # If one end cannot be read, the pieces begin at the other; the damaged ones fail one by one.
    if low is None:
        low = max(0, (high or 0) - _MOST_PIECES * _PIECE_ROWS)
    if high is None:
        high = low + _MOST_PIECES * _PIECE_ROWS
    return range(low, high + 1, _PIECE_ROWS)


_ORPHANS = [
    f"DELETE FROM {table} WHERE report_id NOT IN (SELECT id FROM reports)"  # noqa: S608 - names of our own
    for table in ("node_samples", "container_samples", "events")
]
_CHECKSUM = re.compile(r"checksum INTEGER GENERATED ALWAYS AS \((.*)\) STORED")
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
