"""Open the SQLite file, for one collector at a time, and the threads that use it."""

import asyncio
import fcntl
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from collector.history.interface import HistoryUnavailable
from collector.history.sqlite.schema import TABLES, VERSION
from wire.errors import UserError

log = logging.getLogger(__name__)

Result = TypeVar("Result")

IN_MEMORY = ":memory:"
_APPLICATION_ID = 0x57415454  # "WATT", so that no other program's database is taken for ours
_CHOOSE = "choose another with history.path"

_REASONS = {
    sqlite3.SQLITE_NOTADB: "it is not a database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_FULL: "the disk is full, or history.max_size_bytes is reached",
    sqlite3.SQLITE_IOERR: "input/output error on the disk",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that this user can read and write it",
    sqlite3.SQLITE_BUSY: "another program has locked it",
    sqlite3.SQLITE_LOCKED: "another program has locked it",
}
_PRIMARY_CODE = 0xFF


def reason(error: sqlite3.Error) -> str:
    """The reason of an error, for a person."""
    code = getattr(error, "sqlite_errorcode", None)
    return _REASONS.get(code & _PRIMARY_CODE, str(error)) if code is not None else str(error)


class DiskThread:
    """A thread that runs one call after another, so that the disk never blocks the event loop."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run a call there; raises `HistoryUnavailable` if the database fails."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise HistoryUnavailable(reason(error)) from error

    def close(self) -> None:
        self._thread.shutdown()


@contextmanager
def disk_thread(name: str) -> Iterator[DiskThread]:
    """A thread while the block runs."""
    thread = DiskThread(name)
    try:
        yield thread
    finally:
        thread.close()


@contextmanager
def lock_file(path: str) -> Iterator[None]:
    """Lock a database file for this collector while the block runs; creates its folder if missing."""
    if path == IN_MEMORY:
        yield
        return
    # Two collectors must not use the same file under two names.
    file = Path(path).resolve()
    if file.is_dir():
        raise UserError(f"{path} is a folder, not a database: {_CHOOSE}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A separate lock file: SQLite's locks belong to connections, and a collector has several.
        lock = os.open(file.with_name(file.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UserError(f"cannot store the history in {path} ({why}): {_CHOOSE}") from error
    try:
        _lock(lock, path)
        yield
    finally:
        os.close(lock)


def _lock(lock: int, path: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        raise UserError(
            f"another collector (process {holder}) uses the history {path}: stop it, or {_CHOOSE}"
        ) from None
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UserError(
            f"cannot store the history in {path} ({why}): free some space, or {_CHOOSE}"
        ) from error


def open_for_writing(path: str) -> sqlite3.Connection:
    """A connection to a database in the current format, which is created if missing."""
    try:
        connection = _connect(path)
    except sqlite3.Error as error:
        raise UserError(f"cannot open the database {path} ({reason(error)}): {_CHOOSE}") from error
    try:
        if older := _older_format(connection):
            connection.close()
            _rename_old(path, older)
            connection = _connect(path)
        _prepare(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise UserError(
            f"cannot use the database {path} ({reason(error)}): repair it, or {_CHOOSE}"
        ) from error
    except UserError:
        connection.close()
        raise
    return connection


def open_for_reading(path: str) -> sqlite3.Connection:
    """A read-only connection, which sees what is committed."""
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: str) -> sqlite3.Connection:
    # Each connection is used by one thread, but may be closed by another.
    return sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)


def _older_format(connection: sqlite3.Connection) -> int | None:
    """The version of a history in an older format; None for any other database."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return version if application == _APPLICATION_ID and version < VERSION else None


def _rename_old(path: str, version: int) -> None:
    """Rename an older database, so that a new one can be created."""
    aside = f"{path}.format-{version}"
    try:
        # SQLite has removed its log files by now, unless the disk is full; a new database must not find them.
        for suffix in ("-wal", "-shm", ""):
            if Path(path + suffix).exists():
                Path(path + suffix).rename(aside + suffix)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UserError(
            f"cannot rename {path}, which has an older format, to {aside} ({why}): {_CHOOSE}"
        ) from error
    log.warning("the history %s has an older format: renamed it to %s and created a new one", path, aside)


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != _APPLICATION_ID:
        raise UserError(f"{path} is a database of another program: {_CHOOSE}")
    if version > VERSION:
        raise UserError(
            f"{path} was written by a newer collector (format {version}, this one reads {VERSION}): "
            f"install that version again, or {_CHOOSE}"
        )
    if not tables:
        # Must be set before the first table is created.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    # What was acknowledged survives a power failure: one flush per commit, and one commit for all waiting
    # requests.
    connection.execute("PRAGMA synchronous = FULL")
    if not tables:
        connection.executescript(
            f"BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {_APPLICATION_ID}; "
            f"PRAGMA user_version = {VERSION}; COMMIT;"
        )
    # Fail now on a full or read-only disk, not with the first report.
    connection.executescript(f"BEGIN IMMEDIATE; PRAGMA user_version = {VERSION}; COMMIT;")
