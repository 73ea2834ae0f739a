"""Find damage in the file of a history, and notice when the file is removed."""

import logging
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, takewhile
from math import inf
from pathlib import Path

from collector.common.errors import HistoryUnavailable
from collector.history.sqlite.files.stored_reports import PIECE_ROWS, key_ranges, read_reports
from collector.history.sqlite.schema import CHECKED

log = logging.getLogger(__name__)

_PROGRESS_STEPS = 10_000
_HEADER_BYTES = 100
_HURRY_SECONDS = 1.0
_PAUSE = 2.0
"""Pause after each range of reports, relative to its duration, in a check while the collector runs."""


def is_damage(error: Exception) -> bool:
    """Whether a file that raises this when it is read is damaged, rather than missing, locked or full."""
    if not isinstance(error, sqlite3.Error):
        # Python cannot decode a text, or the message of SQLite about a text.
        return isinstance(error, (UnicodeDecodeError, OverflowError))
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return isinstance(error, sqlite3.OperationalError) and "decode" in str(error)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or code in _UNREADABLE


_UNREADABLE = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ)


def find_damage(connection: sqlite3.Connection, seconds: float) -> str | None:
    """Check a file; what is damaged, None if nothing is known to be.

    Its structure, the checksums of rows and those of reports are checked for at most this time each.
    """
    try:
        for check in (_check_structure, _check_rows, _check_reports):
            until = time.monotonic() + seconds
            connection.set_progress_handler(partial(_is_over, until), _PROGRESS_STEPS)
            try:
                if (found := check(connection, until)) is not None:
                    return found
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
                    raise
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        if not is_damage(error):
            raise
        return str(error)
    finally:
        connection.set_progress_handler(None, 0)
    return None


def _is_over(until: float) -> bool:
    return time.monotonic() > until


def _check_structure(connection: sqlite3.Connection, until: float) -> str | None:
    # All of it is one step of SQLite: no progress is reported in between.
    left_seconds = min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
    timer = threading.Timer(left_seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    finally:
        timer.cancel()
        timer.join()
    # What an interrupted check did not reach looks as if it were missing.
    return None if found == "ok" or _is_over(until) else str(found).splitlines()[-1]


def _check_rows(connection: sqlite3.Connection, _until: float) -> str | None:
    for table, checksum in CHECKED.items():
        query = f"SELECT count(*) FROM {table} WHERE checksum IS NOT ({checksum})"  # noqa: S608 - our own
        (count,) = connection.execute(query).fetchone()
        if count:
            return f"{count} rows of {table} do not have their checksum"
    return None


def _check_reports(connection: sqlite3.Connection, until: float) -> str | None:
    for low in _ranges_from_anywhere(connection):
        began = time.monotonic()
        wrong = sum(not each.is_whole for each in read_reports(connection, low, low + PIECE_ROWS))
        if wrong:
            return f"{wrong} of {PIECE_ROWS} reports from {low} on do not have their checksum"
        if _is_over(until):
            break
        if _HURRY_SECONDS < until - began < inf:
            time.sleep(_PAUSE * (time.monotonic() - began))
    return None


def _ranges_from_anywhere(connection: sqlite3.Connection) -> Iterator[int]:
    """Ranges of reports: if time does not suffice for all, each check is of others."""
    (last,) = connection.execute("SELECT max(id) FROM reports").fetchone()
    begin = random.randint(0, max(0, last or 0))  # noqa: S311 - nobody gains by guessing it
    first = takewhile(lambda low: low < begin, key_ranges(connection, "reports", "id"))
    return chain(key_ranges(connection, "reports", "id", begin=begin), first)


class Damage:
    """Damage that was found while a file is in use, by any thread: nothing is stored any more.

    What is stored next to damage may be lost with it. The next start repairs the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.found = ""
        """What is damaged; empty if nothing is known to be."""

    def note(self, found: str) -> None:
        if not self.found:
            self.found = found
            log.error(
                "the history %s is damaged (%s): nothing is stored until a restart repairs it",
                self._path,
                found,
            )
            with suppress(OSError):
                damage_marker(self._path).touch()

    def require_none(self) -> None:
        """Raise `HistoryUnavailable` if there is damage."""
        if self.found:
            raise HistoryUnavailable(
                f"the history is damaged ({self.found}): restart the collector, which sets the damaged file"
                " aside and keeps all that can be read"
            )


def damage_marker(path: str) -> Path:
    """A file that exists if damage was found while the history was in use: the next start repairs it."""
    return Path(f"{path}.damage-found")


class FileWatch:
    """Notices that a file was deleted, replaced or truncated while it is open, or that its disk is full.

    SQLite would go on and write to the file that no longer has a name. The descriptor is closed only after
    the connections are: closing it earlier would release their locks.
    """

    def __init__(self, path: str, min_free_bytes: int) -> None:
        self._path, self._min_free_bytes = Path(path), min_free_bytes
        self._folder = self._path.resolve().parent
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size_bytes = 0
        """Size of the file when it was last looked at."""

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
        # On a full disk, the header may state a size that the file could not grow to: only one that shrank
        # was truncated.
        if len(header) < _HEADER_BYTES or mine.st_size < min(self._size_bytes, _stated_bytes(header)):
            raise HistoryUnavailable(_gone(self._path, "truncated"))
        self._size_bytes = mine.st_size
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
