"""Find damage in the file of a history, and notice when the file is removed while it is open."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from collector.history.interface import HistoryUnavailable
from collector.history.sqlite.schema import CHECKED_TABLES

_PROGRESS_STEPS = 10_000
_HEADER_BYTES = 100


def find_damage(
    connection: sqlite3.Connection, seconds: float, clock: Callable[[], float] = time.monotonic
) -> str | None:
    """Check the structure of a file for at most this time; returns what is damaged, None if nothing is."""
    until = clock() + seconds
    connection.set_progress_handler(lambda: clock() > until, _PROGRESS_STEPS)
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
