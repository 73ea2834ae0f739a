"""Getting hold of the SQLite file, for one collector at a time, or saying in one sentence why not."""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collector.history.sqlite.schema import TABLES, VERSION
from wire.errors import UserError

log = logging.getLogger(__name__)

IN_MEMORY = ":memory:"
_APPLICATION_ID = 0x57415454  # "WATT", so that no other program's database is taken for ours
_CHOOSE = "choose another with history.path"

_REASONS = {
    sqlite3.SQLITE_NOTADB: "it is not a database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_FULL: "the disk is full, or history.max_size_bytes is reached",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_READONLY: "it may not be written",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; may this user read and write it?",
    sqlite3.SQLITE_BUSY: "another program holds it locked",
    sqlite3.SQLITE_LOCKED: "another program holds it locked",
}
_PRIMARY_CODE = 0xFF


def reason(error: sqlite3.Error) -> str:
    """Why SQLite could not do it, for a person."""
    code = getattr(error, "sqlite_errorcode", None)
    return _REASONS.get(code & _PRIMARY_CODE, str(error)) if code is not None else str(error)


@contextmanager
def lock_file(path: str) -> Iterator[None]:
    """Be the only collector on this file while the block runs; its folder is made if it is missing."""
    if path == IN_MEMORY:
        yield
        return
    # A link must not let two collectors hold the same file under two names.
    file = Path(path).resolve()
    if file.is_dir():
        raise UserError(f"{path} is a folder, not a database: {_CHOOSE}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A lock of its own: SQLite's belong to its connections, of which a collector has two.
        lock = os.open(file.with_name(file.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UserError(f"cannot keep the history in {path} ({why}): {_CHOOSE}") from error
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
            f"another collector (process {holder}) keeps its history in {path}: stop it, or {_CHOOSE}"
        ) from None
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UserError(f"cannot keep the history in {path} ({why}): make room, or {_CHOOSE}") from error


def open_for_writing(path: str) -> sqlite3.Connection:
    """A connection to a database of the present shape, which is made if there is none."""
    try:
        connection = _connect(path)
    except sqlite3.Error as error:
        raise UserError(f"cannot open the database {path} ({reason(error)}): {_CHOOSE}") from error
    try:
        if older := _older_format(connection):
            connection.close()
            _set_aside(path, older)
            connection = _connect(path)
        _prepare(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise UserError(f"cannot use the database {path} ({reason(error)}): mend it, or {_CHOOSE}") from error
    except UserError:
        connection.close()
        raise
    return connection


def open_for_reading(path: str) -> sqlite3.Connection:
    """A second connection, which sees what was committed and can change nothing."""
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: str) -> sqlite3.Connection:
    # Each connection stays in one thread, but not in the one that closes it at the end.
    return sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)


def _older_format(connection: sqlite3.Connection) -> int | None:
    """The format of a database that is ours and older than we write."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return version if application == _APPLICATION_ID and version < VERSION else None


def _set_aside(path: str, version: int) -> None:
    """Keep an older database beside the new one: it holds hours, which are soon there again."""
    aside = f"{path}.format-{version}"
    try:
        # SQLite's companions are gone by now, unless the disk is full; a new database must not find them.
        for suffix in ("-wal", "-shm", ""):
            if Path(path + suffix).exists():
                Path(path + suffix).rename(aside + suffix)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UserError(
            f"cannot rename {path}, whose format is old, to {aside} ({why}): {_CHOOSE}"
        ) from error
    log.warning("the history in %s has an older format: it is now %s, and a new one is begun", path, aside)


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != _APPLICATION_ID:
        raise UserError(f"{path} is the database of another program: {_CHOOSE}")
    if version > VERSION:
        raise UserError(
            f"{path} was written by a newer collector (format {version}, this one knows {VERSION}): "
            f"install that version again, or {_CHOOSE}"
        )
    if not tables:
        # Space can only be given back later if that is decided before the first table.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    # What was acknowledged is on the disk, also when the power fails: one flush per commit, and a
    # commit serves everyone who waits.
    connection.execute("PRAGMA synchronous = FULL")
    if not tables:
        connection.executescript(
            f"BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {_APPLICATION_ID}; "
            f"PRAGMA user_version = {VERSION}; COMMIT;"
        )
    # A full or read-only disk shows itself now, not with the first report.
    connection.executescript(f"BEGIN IMMEDIATE; PRAGMA user_version = {VERSION}; COMMIT;")
