"""Open the SQLite file, for one collector at a time, and the threads that use it."""

import asyncio
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import ParamSpec, TypeVar

from collector.common.errors import HistoryUnavailable
from collector.history.sqlite.files.damage import copy_history, find_damage
from collector.history.sqlite.schema import TABLES, VERSION
from wire.errors import UserError

log = logging.getLogger(__name__)

Given = ParamSpec("Given")
Result = TypeVar("Result")

IN_MEMORY = ":memory:"
_APPLICATION_ID = 0x57415454  # "WATT", so that no other program's database is taken for ours
_CHECK_SECONDS = 0.25
"""How long a file is checked before it is used. A large one is checked further in the background."""
_PRIVATE, _OTHERS = 0o600, 0o077
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


def reason(error: Exception) -> str:
    """The reason of an error of SQLite or of the system, for a person."""
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    code = getattr(error, "sqlite_errorcode", None)
    return _REASONS.get(code & _PRIMARY_CODE, str(error)) if code is not None else str(error)


class DiskThread:
    """A thread that runs one call after another, so that the disk never blocks the event loop."""

    def __init__(self, name: str, failure: str = "") -> None:
        """Messages about its failures begin with `failure`."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._failure = failure

    async def run(self, work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Run a call there; raises `HistoryUnavailable` if the database fails."""
        call = partial(work, *given, **named)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except sqlite3.Error as error:
            raise HistoryUnavailable(self._failure + reason(error)) from error

    def close(self) -> None:
        self._thread.shutdown()


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
        lock = os.open(file.with_name(file.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        make_private(file)
    except OSError as error:
        raise UserError(f"cannot store the history in {path} ({reason(error)}): {_CHOOSE}") from error
    try:
        _lock(lock, path)
        yield
    finally:
        os.close(lock)


def make_private(file: Path) -> None:
    """Let only its owner read a database, which is created if missing; raises `OSError`.

    SQLite gives its log files the same mode.
    """
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _PRIVATE))
    except FileExistsError:
        # No open and close: that would release the locks of other connections to the file.
        for each in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
            with suppress(FileNotFoundError, PermissionError):
                if each.stat().st_mode & _OTHERS:
                    each.chmod(_PRIVATE)


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
        raise UserError(
            f"cannot store the history in {path} ({reason(error)}): free some space, or {_CHOOSE}"
        ) from error


def open_for_writing(path: str) -> sqlite3.Connection:
    """A connection to a database in the current format, which is created if missing.

    A damaged one is repaired; the damaged file stays next to it.
    """
    try:
        connection = _connect(path)
    except sqlite3.Error as error:
        raise UserError(f"cannot open the database {path} ({reason(error)}): {_CHOOSE}") from error
    try:
        _prepare(connection, path)
        damage = None if path == IN_MEMORY else _check(connection, path)
    except sqlite3.DatabaseError as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE != sqlite3.SQLITE_CORRUPT:
            raise UserError(
                f"cannot use the database {path} ({reason(error)}): run wattpack admin repair, or {_CHOOSE}"
            ) from error
        damage = str(error)
    except UserError:
        connection.close()
        raise
    if damage is not None:
        connection.close()
        log.error("the history %s is damaged: %s", path, damage)
        connection = repair_file(path)
    return connection


def _check(connection: sqlite3.Connection, path: str) -> str | None:
    """Check a file for a moment, or to its end if damage was found while it was in use."""
    marker = damage_marker(path)
    damage = find_damage(connection, inf if marker.exists() else _CHECK_SECONDS)
    marker.unlink(missing_ok=True)
    return damage


def damage_marker(path: str) -> Path:
    """A file that exists if a check in the background found damage: the next start repairs it."""
    return Path(f"{path}.damage-found")


def repair_file(path: str) -> sqlite3.Connection:
    """Set a damaged file aside, and copy all that can be read of it into a new one.

    If that fails, the file has its name again.
    """
    aside = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    _rename(path, aside)
    target = _connect(path)
    try:
        with closing(_connect(aside)) as source:
            _prepare(target, path)
            rows, unreadable = copy_history(source, target)
    except (sqlite3.Error, UserError) as error:
        target.close()
        for suffix in ("-wal", "-shm", ""):
            Path(path + suffix).unlink(missing_ok=True)
        _rename(aside, path)
        raise UserError(
            f"cannot copy the history {path} into a new file ({reason(error)}): {_CHOOSE}"
        ) from error
    log.warning(
        "repaired the history: kept %d rows, %d pieces could not be read. The damaged file is %s",
        rows,
        unreadable,
        aside,
    )
    return target


def open_existing(path: str) -> sqlite3.Connection:
    """A connection to a history in the current format. Raise `UserError` if it is anything else."""
    connection = _connect(path)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION_ID or version != VERSION:
        connection.close()
        raise UserError(f"{path} is no history in the current format: start the collector with it once")
    return connection


def open_for_reading(path: str) -> sqlite3.Connection:
    """A read-only connection, which sees what is committed."""
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: str) -> sqlite3.Connection:
    # Each connection is used by one thread, but may be closed by another.
    return sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)


def _rename(path: str, aside: str) -> None:
    try:
        # SQLite has removed its log files by now, unless the disk is full; a new database must not find them.
        for suffix in ("-wal", "-shm", ""):
            if Path(path + suffix).exists():
                Path(path + suffix).rename(aside + suffix)
    except OSError as error:
        raise UserError(f"cannot rename {path} to {aside} ({reason(error)}): {_CHOOSE}") from error


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != _APPLICATION_ID:
        raise UserError(f"{path} is a database of another program: {_CHOOSE}")
    if tables and version != VERSION:
        raise UserError(
            f"{path} has format {version}, and this collector reads format {VERSION}: use the version of"
            f" Wattpack that wrote it, or {_CHOOSE}"
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
