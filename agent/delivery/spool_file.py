"""Reports in an SQLite file. Committed reports survive a crash of the process.

A commit writes to the WAL without waiting for the disk (synchronous=NORMAL): kill -9 loses nothing that was
committed. A power failure can lose the last few seconds, never the file.
Everything here blocks and raises. `agent.delivery.spool` handles the errors.
"""

import os
import shutil
import sqlite3
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from wire.errors import os_reason

_APPLICATION_ID = 0x57535031  # "WSP1": distinguishes a spool from the database of another program
_VERSION = 1
_TABLE = """
    CREATE TABLE report (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,  -- time on the spool's own scale, which clock changes do not affect
        wall REAL NOT NULL,  -- Unix time by the node's clock when the report was stored
        body BLOB NOT NULL
    )
"""
_ROW_BYTES = 32  # approximate size of a row without its body
_LAST_ROW = 2**62  # above any row that a spool creates
_END_OF_TIME = 1e11  # three thousand years, in seconds
_GIVE_BACK_PAGES = 256
_LOG = "-wal"
_KEEP_SET_ASIDE = 3
_READ_ROWS = 50
_PAGE_BYTES, _SIZE_AT = 4096, 28
_LONGEST_BODY = 16 << 20

_PRIMARY_CODE = 0xFF
_DAMAGE = {
    sqlite3.SQLITE_CORRUPT: "its content is damaged",
    sqlite3.SQLITE_NOTADB: "it is not a database",
    sqlite3.SQLITE_ERROR: "its tables are not those of a spool",
}
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check its permissions",
    sqlite3.SQLITE_BUSY: "another process uses it; set a different storage.directory for each agent",
}


class SpoolUnusableError(Exception):
    """The file cannot be used now; the message is the reason."""


class SpoolFullError(SpoolUnusableError):
    """The file can be read but not written."""


class SpoolDamagedError(Exception):
    """The file is not a valid spool; the message is the reason."""


@dataclass(slots=True, eq=False)
class Entry:
    """One waiting report."""

    body: bytes
    arrived: float
    """Monotonic time; used only until it is stored."""
    row: int | None = None
    file: "SpoolFile | None" = None


class SpoolFile:
    """An open spool, locked against other processes.

    Reports are removed at the front only: `_removed_to` is the last removed row. Removed rows that cannot be
    deleted because the disk is full are no longer returned.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, wall: float, monotonic: float) -> None:
        self._connection = connection
        self._path = path
        self.count: int
        self.size_bytes: int
        self.count, self.size_bytes, first, self._last = connection.execute(
            "SELECT count(*), coalesce(sum(coalesce(length(body), 0) + ?), 0),"
            " coalesce(min(id), 1), coalesce(max(id), 0) FROM report",
            (_ROW_BYTES,),
        ).fetchone()
        self._removed_to = first - 1
        self._has_deletable_rows = False
        self.damaged_reports = 0
        newest_at, newest_wall = connection.execute(
            "SELECT CAST(at AS REAL), CAST(wall AS REAL) FROM report WHERE id = ?"
            " UNION ALL SELECT 0.0, ? LIMIT 1",
            (self._last, wall),
        ).fetchone()
        if self._last > _LAST_ROW or abs(newest_at) > _END_OF_TIME:
            raise SpoolDamagedError(_DAMAGE[sqlite3.SQLITE_CORRUPT])
        # While the agent was stopped, only the wall clock measured time; one that was set back adds nothing.
        self._origin = newest_at + max(0.0, wall - newest_wall) - monotonic

    @classmethod
    def open(cls, path: Path, *, wall: float, monotonic: float) -> Self:
        """Open the file; creates it and its directory if missing."""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(path)
        except OSError as error:
            raise SpoolUnusableError(os_reason(error)) from error
        with _translated_errors():
            # No timeout: another agent holds the lock for as long as it runs.
            connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            with _translated_errors():
                _prepare(connection)
                return cls(connection, path, wall, monotonic)
        except BaseException:
            connection.close()
            raise

    def append(self, entries: Sequence[Entry], wall: float) -> None:
        """Commit all entries, or none."""
        packed = [zlib.compress(entry.body) for entry in entries]
        rows = range(self._last + 1, self._last + 1 + len(entries))
        with _translated_errors(), self._transaction():
            self._delete_rows()
            self._connection.executemany(
                "INSERT INTO report (id, at, wall, body) VALUES (?, ?, ?, ?)",
                (
                    (row, self._origin + entry.arrived, wall, body)
                    for row, entry, body in zip(rows, entries, packed, strict=True)
                ),
            )
        for row, entry, body in zip(rows, entries, packed, strict=True):
            entry.file, entry.row = self, row
            self.count += 1
            self.size_bytes += len(body) + _ROW_BYTES
        self._last += len(entries)

    def first(self, max_count: int, max_bytes: int) -> list[Entry]:
        """The oldest reports, at least one if there is any; drops and counts damaged ones at the front."""
        found: list[Entry] = []
        found_bytes = 0
        with _translated_errors(), closing(self._connection.cursor()) as cursor:
            cursor.execute("SELECT id, body FROM report WHERE id > ? ORDER BY id", (self._removed_to,))
            for row, packed in cursor:
                body = _unpack(packed)
                if body is None and not found:
                    self.damaged_reports += 1
                    self._forget_rows(row, 1, (len(packed) if isinstance(packed, bytes) else 0) + _ROW_BYTES)
                    continue
                if body is None or (found and found_bytes + len(body) > max_bytes):
                    break
                found.append(Entry(body, 0.0, row, self))
                found_bytes += len(body)
                if len(found) == max_count:
                    break
        if self.count and not found:
            raise SpoolDamagedError(_DAMAGE[sqlite3.SQLITE_CORRUPT])
        return found

    def remove(self, first_row: int, last_row: int) -> int:
        """Remove rows at the front; returns how many were still there.

        If there are older rows, from before this file could be opened, nothing is removed yet.
        """
        before = self.count
        with _translated_errors():
            (oldest,) = self._connection.execute(
                "SELECT min(id) FROM report WHERE id > ?", (self._removed_to,)
            ).fetchone()
            if oldest is None or oldest < first_row:
                return 0
            gone, gone_bytes = self._connection.execute(
                "SELECT count(*), coalesce(sum(coalesce(length(body), 0) + ?), 0)"
                " FROM report WHERE id > ? AND id <= ?",
                (_ROW_BYTES, self._removed_to, last_row),
            ).fetchone()
            self._forget_rows(last_row, gone, gone_bytes)
            self._try_delete_rows()
        return before - self.count

    def drop_oldest(self, monotonic: float, max_age_seconds: float, surplus_bytes: int) -> int:
        """Drop rows that are too old, and as many as `surplus_bytes` requires; returns their number."""
        too_old = self._origin + monotonic - max_age_seconds
        before = self.count
        with _translated_errors():
            with closing(self._connection.cursor()) as cursor:
                cursor.execute(
                    "SELECT id, coalesce(CAST(at AS REAL), 0.0), coalesce(length(body), 0) FROM report"
                    " WHERE id > ? ORDER BY id",
                    (self._removed_to,),
                )
                for row, at, length in cursor:
                    # The newest is never dropped for size: a bound below one report must not stop all
                    # reports.
                    if at >= too_old and (surplus_bytes <= 0 or self.count == 1):
                        break
                    surplus_bytes -= length + _ROW_BYTES
                    self._forget_rows(row, 1, length + _ROW_BYTES)
            if self.count != before:
                self._try_delete_rows()
        return before - self.count

    def close(self) -> None:
        # If the disk is full, committed rows stay in the WAL.
        with suppress(sqlite3.Error):
            self._connection.close()

    def discard(self) -> None:
        """Delete the file, which contains no waiting report, and close it."""
        # In this order: while it is open, no other process can use it.
        for path in (self._path, _wal_of(self._path)):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise SpoolUnusableError(os_reason(error)) from error
        self.close()

    def _forget_rows(self, through_row: int, count: int, size_bytes: int) -> None:
        self._removed_to = max(self._removed_to, through_row)
        self.count -= count
        self.size_bytes -= size_bytes
        self._has_deletable_rows = True

    def _delete_rows(self) -> None:
        if self._has_deletable_rows:
            self._connection.execute("DELETE FROM report WHERE id <= ?", (self._removed_to,))
            self._has_deletable_rows = False

    def _try_delete_rows(self) -> None:
        try:
            self._delete_rows()
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            if self.count == 0 and pages > _GIVE_BACK_PAGES:
                # A backlog was sent: free its disk space.
                self._connection.execute("VACUUM")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            if _code(error) != sqlite3.SQLITE_FULL:
                raise
            self._has_deletable_rows = True

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        had_deletable_rows = self._has_deletable_rows
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._has_deletable_rows = had_deletable_rows
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def move_aside(path: Path, wall: float) -> Path:
    """Rename a damaged file, for inspection; deletes all but the last few."""
    name = f"{path.name}.corrupt-"
    aside = path.with_name(name + time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(wall)))
    try:
        path.rename(aside)
        if _wal_of(path).exists():
            _wal_of(path).rename(_wal_of(aside))
        for each in sorted(path.parent.glob(f"{name}*Z"))[:-_KEEP_SET_ASIDE]:
            each.unlink(missing_ok=True)
            _wal_of(each).unlink(missing_ok=True)
    except OSError as error:
        raise SpoolUnusableError(f"it is damaged and cannot be renamed: {os_reason(error)}") from error
    return aside


def read_damaged(path: Path) -> Iterator[list[bytes]]:
    """The reports in a damaged file that can be read, in order, some at a time."""
    found: list[int] = []
    with suppress(sqlite3.Error, OSError), _damaged(path) as connection:
        if connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
            return
        # The rows before the damage, then those after it: their numbers take little memory.
        for order in ("ASC", "DESC"):
            with suppress(sqlite3.Error, OverflowError):
                rows = connection.execute(f"SELECT id FROM report ORDER BY id {order}")  # noqa: S608 - our own
                found += (row for (row,) in rows if isinstance(row, int))
        ordered = sorted(set(found))
        for start in range(0, len(ordered), _READ_ROWS):
            bodies = [_read_body(connection, row) for row in ordered[start : start + _READ_ROWS]]
            yield [body for body in bodies if body is not None]


@contextmanager
def _damaged(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a copy of a damaged file, which SQLite opens even if the file is too short."""
    copy = path.with_name(path.name + ".reading")
    try:
        for source, target in ((path, copy), (_wal_of(path), _wal_of(copy))):
            if source.exists():
                shutil.copyfile(source, target)
        with copy.open("r+b") as file:
            pages = -(-file.seek(0, os.SEEK_END) // _PAGE_BYTES)
            file.truncate(pages * _PAGE_BYTES)
            # SQLite opens no file that is shorter than its header says.
            file.seek(_SIZE_AT)
            file.write(pages.to_bytes(4, "big"))
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_BODY)
            # A lock of this process alone needs no file of shared memory.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
            yield connection
    finally:
        for each in (copy, _wal_of(copy)):
            each.unlink(missing_ok=True)


def _read_body(connection: sqlite3.Connection, row: int) -> bytes | None:
    try:
        found = connection.execute("SELECT body FROM report WHERE id = ?", (row,)).fetchone()
    except (sqlite3.Error, OverflowError):
        return None
    return None if found is None else _unpack(found[0])


def _wal_of(path: Path) -> Path:
    return path.with_name(path.name + _LOG)


def _create(path: Path) -> None:
    """Create the file with access for its owner only, unless it exists; rejects directories and devices."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if not stat.S_ISREG(path.stat().st_mode):
            raise SpoolUnusableError("it is not a regular file; set another storage.directory") from None


def _prepare(connection: sqlite3.Connection) -> None:
    # Invalid UTF-8 in a damaged row must not keep the others from being read.
    connection.text_factory = bytes
    # A kernel lock from the first access on, which ends with the process.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
    connection.execute("PRAGMA cache_size = -512")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != _APPLICATION_ID:
        # A valid database of another program: renaming it could break that program.
        raise SpoolUnusableError("it is the database of another program; set another storage.directory")
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {1 << 20}").fetchone()
    if not tables:
        connection.executescript(
            f"BEGIN IMMEDIATE; {_TABLE}; PRAGMA application_id = {_APPLICATION_ID};"
            f" PRAGMA user_version = {_VERSION}; COMMIT;"
        )
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != _VERSION:
        raise SpoolDamagedError(f"its format version is {version}, not {_VERSION}")
    if connection.execute("PRAGMA quick_check(1)").fetchone() != (b"ok",):
        raise SpoolDamagedError(_DAMAGE[sqlite3.SQLITE_CORRUPT])


def _unpack(packed: object) -> bytes | None:
    """The report; None if it is damaged, by the checksum of zlib."""
    if not isinstance(packed, bytes):
        return None
    try:
        return zlib.decompress(packed)
    except zlib.error:
        return None


def _code(error: sqlite3.Error) -> int:
    # Errors of the sqlite3 module itself have no code; they come from values that no spool contains.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = _code(error)
        if code in _DAMAGE:
            raise SpoolDamagedError(_DAMAGE[code]) from error
        kind = SpoolFullError if code == sqlite3.SQLITE_FULL else SpoolUnusableError
        raise kind(_REASONS.get(code, str(error))) from error
    except (UnicodeError, OverflowError) as error:
        # SQLite's error about a damaged schema quotes it, and Python cannot decode that.
        raise SpoolDamagedError(_DAMAGE[sqlite3.SQLITE_CORRUPT]) from error
