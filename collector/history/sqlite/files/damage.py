"""Find damage in the file of a history, copy what can be read, and notice when the file is removed."""

import os
import sqlite3
import time
from collections.abc import Collection
from pathlib import Path

from collector.common.errors import HistoryUnavailable
from collector.history.sqlite.schema import CHECKED_TABLES

_PROGRESS_STEPS = 10_000
_HEADER_BYTES = 100


def find_damage(connection: sqlite3.Connection, seconds: float) -> str | None:
    """Check the structure of a file for at most this time; returns what is damaged, None if nothing is."""
    until = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > until, _PROGRESS_STEPS)
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return None
        raise
    except sqlite3.DatabaseError as error:
        return str(error)
    finally:
        connection.set_progress_handler(None, 0)
    return None if found == "ok" else str(found).splitlines()[-1]


def count_wrong_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """The number of account rows that do not have their checksum, by table; only tables with any."""
    found = {}
    for table, checksum in CHECKED_TABLES.items():
        query = f"SELECT count(*) FROM {table} WHERE checksum IS NOT ({checksum})"  # noqa: S608 - our own
        (count,) = connection.execute(query).fetchone()
        if count:
            found[table] = count
    return found


def set_wrong_rows_aside(connection: sqlite3.Connection) -> int:
    """Delete the account rows that do not have their checksum; returns how many."""
    return sum(
        connection.execute(f"DELETE FROM {table} WHERE checksum IS NOT ({checksum})").rowcount  # noqa: S608 - our own
        for table, checksum in CHECKED_TABLES.items()
    )


class FileWatch:
    """Notices that a file was deleted, replaced or truncated while it is open, or that its disk is full.

    SQLite would go on and write to the file that no longer has a name. The descriptor is closed only after
    the connections are: closing it earlier would release their locks.
    """

    def __init__(self, path: str, min_free_bytes: int) -> None:
        self._path, self._min_free_bytes = Path(path), min_free_bytes
        self._folder = self._path.resolve().parent
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def require_file(self) -> None:
        """Raise `HistoryUnavailable` if reports would be stored in a file that is gone, or on a full disk."""
        mine = os.fstat(self._file)
        try:
            named = self._path.stat()
        except OSError:
            raise HistoryUnavailable(_gone(self._path, "deleted")) from None
        if (named.st_ino, named.st_dev) != (mine.st_ino, mine.st_dev):
            raise HistoryUnavailable(_gone(self._path, "replaced"))
        header = os.pread(self._file, _HEADER_BYTES, 0)
        if len(header) < _HEADER_BYTES or mine.st_size < _stated_bytes(header):
            raise HistoryUnavailable(_gone(self._path, "truncated"))
        found = os.statvfs(self._folder)
        free_bytes = found.f_bavail * found.f_frsize
        if free_bytes < self._min_free_bytes:
            raise HistoryUnavailable(
                f"it is read-only, because only {free_bytes >> 20} MiB are free on its disk,"
                f" of the {self._min_free_bytes >> 20} MiB that it leaves to others: free some space"
            )

    def close(self) -> None:
        os.close(self._file)


def _stated_bytes(header: bytes) -> int:
    """The size of a database by its own header."""
    page_bytes = int.from_bytes(header[16:18], "big")
    return (65536 if page_bytes == 1 else page_bytes) * int.from_bytes(header[28:32], "big")


def _gone(path: Path, what: str) -> str:
    return (
        f"the file {path} was {what} while the collector runs. Reports wait in the agents' spools: put the"
        " file back, or restart the collector to begin a new history"
    )


# --- Copy what can be read of a damaged history into a new file --------------------------------------
#
# Tables are copied in pieces. A piece that cannot be read is halved; one key that cannot be read is left out.
# So a damaged page costs the rows on it, or those of the pages that it leads to.

_PIECE_ROWS = 128
_MOST_PIECES = 100
"""Pieces that are tried where the end of a table cannot be read."""


_Piece = tuple[str, int, int]
"""A column, perhaps after a condition, and the range `[low, high)` of its values."""


def copy_history(source: sqlite3.Connection, target: sqlite3.Connection) -> tuple[int, int]:
    """Copy every table; returns the number of rows copied, and of pieces that could not be read."""
    copied = [_copy_table(source, target, table) for (table,) in target.execute(_TABLES).fetchall()]
    for delete in _ORPHANS:
        # New reports must not get the number of one whose samples are left.
        target.execute(delete)
    return sum(rows for rows, _ in copied), sum(unreadable for _, unreadable in copied)


def _copy_table(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> tuple[int, int]:
    columns = [name for _, name, *_ in target.execute(f"PRAGMA table_info({table})")]
    names, marks = ", ".join(columns), ", ".join("?" for _ in columns)
    # Names of our own.
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - see above
    select = f"SELECT {names} FROM {table}"  # noqa: S608 - see above
    # The new file would compute a checksum for a row that has a wrong one.
    only_right = f" AND checksum IS ({CHECKED_TABLES[table]})" if table in CHECKED_TABLES else ""
    rows = unreadable = 0
    target.execute("BEGIN")
    pieces = _pieces(source, table, columns)
    while pieces:
        key, low, high = pieces.pop()
        try:
            found = source.execute(
                f"{select} WHERE {key} BETWEEN {low} AND {high - 1}{only_right}"
            ).fetchall()
        except sqlite3.DatabaseError:
            middle = (low + high) // 2
            pieces += [(key, low, middle), (key, middle, high)] if high - low > 1 else []
            unreadable += high - low <= 1
            continue
        rows += target.executemany(insert, found).rowcount if found else 0
    target.execute("COMMIT")
    return rows, unreadable


def _pieces(source: sqlite3.Connection, table: str, columns: Collection[str]) -> list[_Piece]:
    """A table in pieces, along the order that it is stored in."""
    if "step" in columns:
        return [
            (f"step = {step} AND bucket", low, low + _PIECE_ROWS)
            for step in (300, 3600)
            for low in _range(source, table, "bucket", f"WHERE step = {step}")
        ]
    key = "report_id" if "report_id" in columns else "id" if "id" in columns else None
    if key is None:
        return [("1", 1, 2)]
    places = _range(source, table, key)
    if key == "report_id":
        # The end of one table may be damaged, that of another is hardly so too.
        numbers = _range(source, "reports", "id")
        places = range(places.start, max(places.stop, numbers.stop), _PIECE_ROWS)
    return [(key, low, low + _PIECE_ROWS) for low in places]


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
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
