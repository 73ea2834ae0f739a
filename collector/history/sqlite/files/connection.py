"""Open the SQLite file, for one collector at a time, and the threads that use it."""

import asyncio
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import chain, count
from math import inf
from pathlib import Path
from typing import ParamSpec, TypeVar

from collector.common.errors import HistoryUnavailable
from collector.history.sqlite.files.checksums import register
from collector.history.sqlite.files.counts import Counts, CountsFile, counts_path
from collector.history.sqlite.files.damage import damage_marker, find_damage, is_damage
from collector.history.sqlite.files.salvage import salvage
from collector.history.sqlite.schema import TABLES, VERSION
from wire.errors import UserError

log = logging.getLogger(__name__)

Given = ParamSpec("Given")
Result = TypeVar("Result")

IN_MEMORY = ":memory:"
_APPLICATION_ID = 0x57415454  # "WATT", so that no other program's database is taken for ours
_CHECK_SECONDS = 0.25
"""How long each part of a file is checked before it is used; a large one is checked on in the background."""
_PRIVATE, _OTHERS = 0o600, 0o077
_A_TABLE, _SCHEMA_BYTES = b"CREATE TABLE container_rollups", 1 << 18
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

    def __init__(
        self, name: str, failure: str = "", on_damage: Callable[[str], None] = lambda _: None
    ) -> None:
        """Messages about its failures begin with `failure`; `on_damage` gets a sentence on a damaged file."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._failure = failure
        self._on_damage = on_damage

    async def run(self, work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Run a call there; raises `HistoryUnavailable` if the database fails."""
        call = partial(work, *given, **named)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            if is_damage(error):
                self._on_damage(str(error))
            elif not isinstance(error, sqlite3.Error):
                raise
            raise HistoryUnavailable(self._failure + reason(error)) from error

    def close(self) -> None:
        self._thread.shutdown()


@contextmanager
def lock_file(path: str) -> Iterator[None]:
    """Lock a database file for this collector while the block runs; creates its folder if missing."""
    if path == IN_MEMORY:
        yield
        return
    # Two collectors must not use the same file under two names: symbolic links are resolved, and a hard link
    # has the same lock on the file itself.
    file = Path(path).resolve()
    if file.is_dir():
        raise UserError(f"{path} is a folder, not a database: {_CHOOSE}")
    with ExitStack() as stack:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            # A separate lock file: the file itself can be renamed and replaced while it is locked.
            lock = os.open(
                file.with_name(file.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE
            )
            stack.callback(os.close, lock)
            make_private(file)
            itself = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, itself)
        except OSError as error:
            raise UserError(f"cannot store the history in {path} ({reason(error)}): {_CHOOSE}") from error
        _lock(lock, path)
        try:
            fcntl.flock(itself, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another collector uses the history {path} under another name (a hard link): stop it,"
                f" or {_CHOOSE}"
            ) from None
        yield


def make_private(file: Path) -> None:
    """Let only its owner read a database, which is created if missing; raises `OSError`.

    SQLite gives its log files the same mode.
    """
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _PRIVATE))
        # The counts of one that was deleted say nothing about a new one.
        Path(counts_path(str(file))).unlink(missing_ok=True)
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
    damage = None if path == IN_MEMORY else examine(path, _CHECK_SECONDS)
    if damage is not None:
        log.error("the history %s is damaged: %s", path, damage)
        return repair_file(path)
    try:
        connection = _connect(path)
        _prepare(connection)
    except sqlite3.Error as error:
        raise UserError(f"cannot use the database {path} ({reason(error)}): {_CHOOSE}") from error
    return connection


def examine(path: str, seconds: float) -> str | None:
    """Check a file for a while, or to its end if damage was found while it was in use; what is damaged.

    Raise `UserError` if it is not a history in the current format, or cannot be read now.
    """
    counts, marker = Counts.read_file(path), damage_marker(path)
    is_ours = _is_history(path) or counts is not None
    try:
        with closing(_connect(path)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if not tables and not is_ours:
                return None
            if not is_ours and application != _APPLICATION_ID:
                raise UserError(f"{path} is a database of another program: {_CHOOSE}")
            if version != VERSION and (counts is None or counts.version != VERSION):
                raise UserError(
                    f"{path} has format {version}, and this collector reads format {VERSION}: use the version"
                    f" of Wattpack that wrote it, or {_CHOOSE}"
                )
            if (application, version) != (_APPLICATION_ID, VERSION):
                return "its header is not that of a history"
            if counts is None:
                log.warning(
                    "%s is missing or damaged: whether the last commits are missing is not known",
                    counts_path(path),
                )
            seconds = inf if marker.exists() else seconds
            damage = lost_commits(connection, counts) or find_damage(connection, seconds)
            if damage is None and seconds == inf:
                marker.unlink(missing_ok=True)  # the disk could not read for a while
            return damage
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        if _is_damaged(error, path, is_ours=is_ours):
            return str(error)
        raise UserError(f"cannot use the database {path} ({reason(error)}): {_CHOOSE}") from error


def _is_damaged(error: Exception, path: str, *, is_ours: bool) -> bool:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE
    if code == sqlite3.SQLITE_NOTADB:
        return is_ours
    if code == sqlite3.SQLITE_READONLY:
        return os.access(path, os.W_OK)  # the header says so
    # SQLite has other errors for tables that are not as they were.
    return is_damage(error) or code == sqlite3.SQLITE_ERROR


def _is_history(path: str) -> bool:
    """Whether a file has the tables of a history near its begin, even if no database can be read."""
    try:
        with Path(path).open("rb") as file:
            return _A_TABLE in file.read(_SCHEMA_BYTES)
    except OSError:
        return False


def lost_commits(connection: sqlite3.Connection, counts: Counts | None) -> str | None:
    """What is missing at the end of a history: its log was cut or damaged."""
    if counts is None:
        return None
    missing = counts.commits - Counts.read(connection).commits
    return f"its last {missing} commits are missing" if missing > 0 else None


def repair_file(path: str) -> sqlite3.Connection:
    """Set a damaged file aside, and copy all that can be read of it into a new one.

    If that fails, the file has its name again.
    """
    had = Counts.read_file(path)
    aside = set_aside(path)
    try:
        make_private(Path(path))
        target = _connect(path)
        try:
            _prepare(target)
            salvaged = salvage(aside, f"{path}.salvage", target, had)
        except BaseException:
            target.close()
            raise
    except (OSError, sqlite3.Error) as error:
        for suffix in ("-wal", "-shm", ""):
            Path(path + suffix).unlink(missing_ok=True)
        _rename(aside, path)
        raise UserError(
            f"cannot copy the history {path} into a new file ({reason(error)}): free some space on its disk,"
            f" or {_CHOOSE}"
        ) from error
    with closing(CountsFile(path)) as counts:
        counts.write(Counts.read(target))
    damage_marker(path).unlink(missing_ok=True)
    log.warning("repaired the history: %s. The damaged file is %s", salvaged.sentence(), aside)
    return target


def set_aside(path: str) -> str:
    """Rename a damaged database with its log; returns its new name."""
    name = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    aside = next(each for each in names if not Path(each).exists())
    _rename(path, aside)
    return aside


def open_for_reading(path: str) -> sqlite3.Connection:
    """A read-only connection, which sees what is committed."""
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: str) -> sqlite3.Connection:
    # Each connection is used by one thread, but may be closed by another.
    connection = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
    register(connection)
    return connection


def _rename(path: str, aside: str) -> None:
    try:
        # SQLite has removed its log files by now, unless the disk is full; a new database must not find them.
        for suffix in ("-wal", "-shm", ""):
            if Path(path + suffix).exists():
                Path(path + suffix).rename(aside + suffix)
    except OSError as error:
        raise UserError(f"cannot rename {path} to {aside} ({reason(error)}): {_CHOOSE}") from error


def _prepare(connection: sqlite3.Connection) -> None:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
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
