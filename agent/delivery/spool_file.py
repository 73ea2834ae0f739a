"""Reports in an SQLite file: what was committed there survives the death of the process.

A commit writes to the log beside the file without waiting for the disk (WAL, synchronous=NORMAL): kill -9
loses nothing that was committed. When the power fails the last moments may be lost, never the file.
Everything here blocks and raises. `agent.delivery.spool` handles the errors.
"""

import os
import sqlite3
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_APPLICATION_ID = 0x57535031  # "WSP1", so that no other program's database is taken for a spool
_VERSION = 1
_TABLE = """
    CREATE TABLE report (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,  -- on a time line of the spool's own, which no step of the clock moves
        wall REAL NOT NULL,  -- unix time by the node's clock when the report was stored
        body BLOB NOT NULL
    )
"""
_ROW_BYTES = 32  # what a row takes beside its body, roughly
_LAST_ROW = 2**62  # far beyond any that a spool gives out, and with room above
_END_OF_TIME = 1e11  # three thousand years, in seconds
_GIVE_BACK_PAGES = 256
_LOG = "-wal"
_KEEP_SET_ASIDE = 3

_PRIMARY_CODE = 0xFF
_DAMAGE = {
    sqlite3.SQLITE_CORRUPT: "its content is damaged",
    sqlite3.SQLITE_NOTADB: "it is not a database",
    sqlite3.SQLITE_ERROR: "its tables are not those of a spool",
}
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_READONLY: "it may not be written",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; may this user read and write it?",
    sqlite3.SQLITE_BUSY: "another process uses it; give each agent a spool.path of its own",
}


class SpoolUnusableError(Exception):
    """The file cannot be used now, and why."""


class SpoolFullError(SpoolUnusableError):
    """Nothing more can be written, but what is there can be read."""


class SpoolDamagedError(Exception):
    """The file is not, or no longer, a spool, and why."""


@dataclass(slots=True, eq=False)
class Entry:
    """One report that waits."""

    body: bytes
    arrived: float
    """Monotonic time; of use only until it is stored."""
    row: int | None = None
    file: "SpoolFile | None" = None


class SpoolFile:
    """An open spool, which no other process can open meanwhile.

    Reports leave at the front only, so `_removed_to` is the last row that is no longer wanted. Rows that
    cannot be deleted because the disk is full are at least no longer returned.
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
        # While the agent was away only the clock knows how time went by; a clock set back adds nothing.
        self._origin = newest_at + max(0.0, wall - newest_wall) - monotonic

    @classmethod
    def open(cls, path: Path, *, wall: float, monotonic: float) -> Self:
        """Open the file, or make it and its folder."""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(path)
        except OSError as error:
            raise SpoolUnusableError((error.strerror or str(error)).lower()) from error
        with _translated_errors():
            # Without patience: a lock is held by another agent, for as long as it runs.
            connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            with _translated_errors():
                _prepare(connection)
                return cls(connection, path, wall, monotonic)
        except BaseException:
            connection.close()
            raise

    def append(self, entries: Sequence[Entry], wall: float) -> None:
        """Commit all of them, or none."""
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
        """The oldest, at least one if there is any; a damaged one at the front is dropped and counted."""
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
        """Forget rows at the front; how many of them were still there.

        If there are older ones, from before this file could be opened, these rows wait for their turn.
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
        """Drop what is too old, and as much more as `surplus_bytes` asks for; how many that was."""
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
                    # The newest is never too much: a bound too small for one report must not stop them all.
                    if at >= too_old and (surplus_bytes <= 0 or self.count == 1):
                        break
                    surplus_bytes -= length + _ROW_BYTES
                    self._forget_rows(row, 1, length + _ROW_BYTES)
            if self.count != before:
                self._try_delete_rows()
        return before - self.count

    def close(self) -> None:
        # Where the disk is full, what was committed stays in the log beside the file.
        with suppress(sqlite3.Error):
            self._connection.close()

    def discard(self) -> None:
        """Delete the file, which holds nothing any more that is wanted, and close it."""
        # In this order: while it is open nobody else can have taken it over.
        for path in (self._path, _wal_of(self._path)):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise SpoolUnusableError((error.strerror or str(error)).lower()) from error
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
                # A backlog is gone: the disk gets its room back.
                self._connection.execute("VACUUM")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            if _code(error) != sqlite3.SQLITE_FULL:
                raise
            self._has_deletable_rows = True

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        was_untidy = self._has_deletable_rows
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._has_deletable_rows = was_untidy
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def move_aside(path: Path, wall: float) -> Path:
    """Rename a damaged file, so that someone can look at it; only the last few are kept."""
    name = f"{path.name}.corrupt-"
    aside = path.with_name(name + time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(wall)))
    try:
        path.rename(aside)
        if _wal_of(path).exists():
            _wal_of(path).rename(_wal_of(aside))
        all_aside = sorted(
            each
            for each in path.parent.iterdir()
            if each.name.startswith(name) and not each.name.endswith(_LOG)
        )
        for each in all_aside[:-_KEEP_SET_ASIDE]:
            each.unlink(missing_ok=True)
            _wal_of(each).unlink(missing_ok=True)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SpoolUnusableError(f"it is damaged and cannot be set aside: {why}") from error
    return aside


def _wal_of(path: Path) -> Path:
    return path.with_name(path.name + _LOG)


def _create(path: Path) -> None:
    """Make the file for its owner alone, unless it is there; a folder or a device is left in peace."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if not stat.S_ISREG(path.stat().st_mode):
            raise SpoolUnusableError("it is not a file; choose another with spool.path") from None


def _prepare(connection: sqlite3.Connection) -> None:
    # A damaged text must not stop the reading of what is whole.
    connection.text_factory = bytes
    # Held from the first access to the end, and by the kernel: it goes with the process, however it ends.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
    connection.execute("PRAGMA cache_size = -512")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != _APPLICATION_ID:
        # Whole, and someone's: moving it out of the way could do harm elsewhere.
        raise SpoolUnusableError("it is the database of another program; choose another with spool.path")
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
        raise SpoolDamagedError(f"its format is {version}, and this agent knows {_VERSION}")
    if connection.execute("PRAGMA quick_check(1)").fetchone() != (b"ok",):
        raise SpoolDamagedError(_DAMAGE[sqlite3.SQLITE_CORRUPT])


def _unpack(packed: object) -> bytes | None:
    """The report, or None if it is damaged: zlib's checksum tells."""
    if not isinstance(packed, bytes):
        return None
    try:
        return zlib.decompress(packed)
    except zlib.error:
        return None


def _code(error: sqlite3.Error) -> int:
    # Errors of the sqlite3 module itself, which bear no code, come from values that no spool holds.
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
        # SQLite's complaint about a damaged schema quotes it, and Python cannot read that.
        raise SpoolDamagedError(_DAMAGE[sqlite3.SQLITE_CORRUPT]) from error
