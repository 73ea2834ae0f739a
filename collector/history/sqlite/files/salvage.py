"""Copy what can be read of a damaged history into a new one, and count what is lost.

Tables are read in ranges of keys. A range that cannot be read is halved; a key that cannot be read is left
out. So a damaged page costs the rows on it, or those of the pages that it leads to. Only rows that have their
checksum are copied, and only if what they refer to is.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from collector.history.rollups import COARSE_SECONDS, FINE_SECONDS
from collector.history.sqlite.files.checksums import register
from collector.history.sqlite.files.counts import Counts
from collector.history.sqlite.files.stored_reports import (
    EVENT_COLUMNS,
    PIECE_ROWS,
    ReportRows,
    key_ranges,
    read_reports,
)
from collector.history.sqlite.rows import CONTAINER_COLUMNS, NODE_COLUMNS, REPORT_COLUMNS, Row
from collector.history.sqlite.schema import ACCOUNTS, CHECKED

_KEYS = {
    "nodes": "id",
    "boots": "id",
    "facts": "id",
    "containers": "id",
    "alerts": "boot_id",
    "usage": "rowid",
    "pending_usage": "rowid",
    "rollup_progress": "node_id",
}
"""The numbers by which tables are read in ranges."""
_PAGE_BYTES = 4096
_LOG_AT, _WITH_LOG, _SIZE_AT = 18, b"\2\2", 28
"""Places in the header of a database."""
_LONGEST_VALUE = 64 << 20


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What was kept of a damaged history."""

    kept: Counts
    had: Counts | None
    """What was there; None if that is not known."""
    is_complete: bool
    """Whether `had` includes the last commits: it is from the file with the counts."""
    missing_commits: int | None
    """Commits that the damaged file itself lacks; None if that is not known."""

    def sentence(self) -> str:
        """What was kept, and what is lost."""
        parts, at_least = [], "" if self.is_complete else "at least "
        for what in ("reports", "accounts", "others"):
            kept = getattr(self.kept, what)
            had = "an unknown number of" if self.had is None else f"{at_least}{getattr(self.had, what)}"
            name = {"accounts": "rows of energy accounts", "others": "other rows"}.get(what, what)
            parts.append(f"{kept} of {had} {name}")
        end = ""
        if self.missing_commits is None:
            end = "; whether its last commits are missing is not known"
        elif self.missing_commits > 0:
            end = f"; its last {self.missing_commits} commits are missing"
        return f"kept {', '.join(parts)}{end}"


def salvage(damaged: str, work: str, target: sqlite3.Connection, had: Counts | None) -> Salvaged:
    """Copy what can be read of a damaged file, by way of a copy of the file in `work`."""
    is_complete = had is not None
    try:
        _copy_file(damaged, work, target)
        with closing(_open(work)) as source:
            stored = _stored_counts(source)
            missing = None if stored is None or had is None else had.commits - stored.commits
            had = _newer(stored, had)
            target.execute("BEGIN")
            for table in CHECKED:
                _copy_table(source, target, table)
            _copy_reports(source, target)
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(work + suffix).unlink(missing_ok=True)
    for statement in (*_ORPHANS, _PROGRESS):
        target.execute(statement)
    if had is not None:
        target.execute("UPDATE counts SET rows = ? WHERE name = 'commits'", (had.commits + 1,))
    target.execute("COMMIT")
    return Salvaged(Counts.read(target), had, is_complete, missing)


def _newer(first: Counts | None, second: Counts | None) -> Counts | None:
    # The file has a checksum: it is right where both are as new.
    found = [each for each in (second, first) if each is not None]
    return max(found, key=lambda each: each.commits, default=None)


def _stored_counts(source: sqlite3.Connection) -> Counts | None:
    """The counts in a damaged file; None if they cannot be right."""
    try:
        counts = Counts.read(source)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError):
        return None
    is_right = counts.rows.keys() == {"commits", "reports", *CHECKED} and all(
        type(each) is int and each >= 0 for each in counts.rows.values()
    )
    return counts if is_right else None


# --- The copy that is read ----------------------------------------------------------------------------


def _copy_file(damaged: str, work: str, target: sqlite3.Connection) -> None:
    """Copy a file with its log, and let SQLite open it: with its full size, and a schema that is right."""
    for suffix in ("", "-wal"):
        Path(work + suffix).unlink(missing_ok=True)
        if Path(damaged + suffix).exists():
            _copy_readable(Path(damaged + suffix), Path(work + suffix))
    with Path(work).open("r+b") as file:
        pages = -(-file.seek(0, os.SEEK_END) // _PAGE_BYTES)
        file.truncate(pages * _PAGE_BYTES)
        # SQLite opens no file that is shorter than its header says.
        file.seek(_SIZE_AT)
        file.write(pages.to_bytes(4, "big"))
    if not _has_schema(work, target):
        _write_schema(work, target)


def _copy_readable(source: Path, copy: Path) -> None:
    """Copy a file; what the disk cannot read becomes zeros."""
    try:
        shutil.copyfile(source, copy)
    except OSError:
        copied = source.stat().st_size
        with source.open("rb", buffering=0) as old, copy.open("wb") as new:
            new.truncate(copied)
            for start in range(0, copied, _PAGE_BYTES):
                with suppress(OSError):
                    page = os.pread(old.fileno(), _PAGE_BYTES, start)
                    new.seek(start)
                    new.write(page)


def _has_schema(work: str, target: sqlite3.Connection) -> bool:
    """Whether the tables are those of a new history, in pages of their own."""
    query = (
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%' ORDER BY 1, 2"
    )
    try:
        with closing(_open(work)) as source:
            # Texts must be read as they were written, too.
            is_plain = source.execute("PRAGMA encoding").fetchone() == ("UTF-8",)
            return is_plain and source.execute(query).fetchall() == target.execute(query).fetchall()
    except (sqlite3.Error, UnicodeDecodeError, OverflowError):
        return False


def _write_schema(work: str, target: sqlite3.Connection) -> None:
    """Write the schema of a new history over that of the copy: tables are always at the same place."""
    pages: dict[int, bytes] = {}
    with closing(sqlite3.connect(":memory:")) as new:
        target.backup(new)
        roots = {row[0] for row in new.execute("SELECT rootpage FROM sqlite_master")}
        image = new.serialize()
    for number in range(1, len(image) // _PAGE_BYTES + 1):
        if number not in roots:
            pages[number] = image[(number - 1) * _PAGE_BYTES : number * _PAGE_BYTES]
    with Path(work).open("r+b") as file:
        count = max(file.seek(0, os.SEEK_END), len(image)) // _PAGE_BYTES
        for number, page in pages.items():
            file.seek((number - 1) * _PAGE_BYTES)
            file.write(page)
        file.truncate(count * _PAGE_BYTES)
        file.seek(_LOG_AT)
        file.write(_WITH_LOG)
        file.seek(_SIZE_AT)
        file.write(count.to_bytes(4, "big"))


def _open(work: str) -> sqlite3.Connection:
    connection = sqlite3.connect(work, isolation_level=None)
    # A damaged length must not take all memory.
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    register(connection)
    return connection


# --- Tables ---------------------------------------------------------------------------------------------


class _TableCopy:
    """Copies the rows of a table one by one, as there may be very many."""

    def __init__(self, source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> None:
        self._source, self._target = source, target
        columns = [name for _, name, *_ in target.execute(f"PRAGMA table_info({table})")]
        names, marks = ", ".join(columns), ", ".join("?" for _ in columns)
        # Names of our own. A row may be read again, from the other side of what cannot be read.
        self._insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - see above
        # Rows are read before they are checked: otherwise SQLite computes the checksum from the value that a
        # condition asks for, while a damaged row in this place may have another.
        self._read = f"SELECT {names} FROM (SELECT * FROM {table} WHERE"  # noqa: S608 - see above
        self._check = f"LIMIT -1) WHERE checksum IS ({CHECKED[table]})"

    def copy(self, where: str, *given: int) -> bool:
        """Copy rows; False if some cannot be read."""
        is_complete = True

        def rows() -> Iterator[Row]:
            nonlocal is_complete
            try:
                yield from self._source.execute(f"{self._read} {where} {self._check}", given)
            except _UNREADABLE:
                is_complete = False

        self._target.executemany(self._insert, rows())
        return is_complete

    def copy_both_ends(self, where: str, order: str) -> None:
        """Copy the rows up to the first that cannot be read, and from the end down to the last."""
        backwards = ", ".join(f"{each} DESC" for each in order.split(", "))
        if not self.copy(f"{where} ORDER BY {order}"):
            self.copy(f"{where} ORDER BY {backwards}")


def _copy_table(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> None:
    rows = _TableCopy(source, target, table)
    if table in ACCOUNTS:
        for step in (FINE_SECONDS, COARSE_SECONDS):
            _copy_ranges(source, rows, table, "bucket", f"step = {step}")
    elif table in _KEYS:
        _copy_ranges(source, rows, table, _KEYS[table], "1")
    else:
        rows.copy_both_ends("1", "kind, key")


def _copy_ranges(source: sqlite3.Connection, rows: _TableCopy, table: str, key: str, where: str) -> None:
    for low in key_ranges(source, table, key, where):
        for only in _halved(partial(rows.copy, f"{where} AND {key} BETWEEN ? AND ?"), low):
            if table in _PLACES:
                rows.copy_both_ends(f"{where} AND {key} = {only}", _PLACES[table])


_UNREADABLE = (sqlite3.Error, UnicodeDecodeError, OverflowError)
_PLACES = {
    "node_rollups": "node_id",
    "container_rollups": "container_id",
    "alerts": "resource, opened_at",
}
"""The order of the rows that share a number."""


def _halved(copy: Callable[[int, int], bool], low: int) -> Iterator[int]:
    """Copy a range of keys, or as many parts of it as can be read; yields the keys that cannot."""
    pieces = [(low, low + PIECE_ROWS)]
    while pieces:
        low, high = pieces.pop()
        if copy(low, high - 1):
            continue
        if high - low > 1:
            middle = (low + high) // 2
            pieces += [(low, middle), (middle, high)]
        else:
            yield low


def _copy_reports(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    def copy(first: int, last: int) -> bool:
        try:
            reports = [each for each in read_reports(source, first, last + 1) if each.is_whole]
        except _UNREADABLE:
            return False
        _insert_reports(target, reports)
        return True

    for low in key_ranges(source, "reports", "id"):
        for _ in _halved(copy, low):
            pass


def _insert_reports(target: sqlite3.Connection, reports: Iterable[ReportRows]) -> None:
    for each in reports:
        added = target.execute(_ADD_REPORT, (*each.row, each.checksum))
        if added.rowcount:
            target.executemany(_ADD_NODE, [each.node] if each.node else [])
            target.executemany(_ADD_CONTAINER, each.containers)
            target.executemany(_ADD_EVENT, each.events)


def _insert(table: str, columns: Sequence[str], rest: str = "") -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' for _ in columns)}) {rest}"  # noqa: S608 - our own


_ADD_REPORT = _insert("reports", ("id", *REPORT_COLUMNS, "checksum"), "ON CONFLICT DO NOTHING")
_ADD_NODE = _insert("node_samples", NODE_COLUMNS)
_ADD_CONTAINER = _insert("container_samples", CONTAINER_COLUMNS)
_ADD_EVENT = _insert("events", EVENT_COLUMNS)


def _without(table: str, column: str, parent: str) -> str:
    return f"DELETE FROM {table} WHERE {column} IS NOT NULL AND {column} NOT IN (SELECT id FROM {parent})"  # noqa: S608 - our own


def _reports_without(table: str, column: str, parent: str) -> str:
    return (
        f"DELETE FROM reports WHERE id IN (SELECT report_id FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608 - our own
        f" AND {column} NOT IN (SELECT id FROM {parent}))"
    )


_ORPHANS = (
    _without("boots", "node_id", "nodes"),
    _without("containers", "node_id", "nodes"),
    _without("containers", "facts_id", "facts"),
    *(_without(each, "boot_id", "boots") for each in ("reports", "alerts", "rollup_progress")),
    _reports_without("node_samples", "facts_id", "facts"),
    _reports_without("container_samples", "facts_id", "facts"),
    _reports_without("container_samples", "container_id", "containers"),
    _reports_without("events", "container_id", "containers"),
    # New reports must not get the number of one whose samples are left.
    *(_without(each, "report_id", "reports") for each in ("node_samples", "container_samples", "events")),
    *(_without(each, "node_id", "nodes") for each in ("usage", "pending_usage", "node_rollups")),
    _without("container_rollups", "container_id", "containers"),
)
"""What refers to rows that are lost means nothing, or something else."""
_PROGRESS = f"""
INSERT INTO rollup_progress (node_id, boot_id, sequence, checksum)
SELECT node_id, boot_id, sequence, row_checksum(node_id, boot_id, sequence) FROM (
    SELECT b.node_id, r.boot_id, r.sequence,
           row_number() OVER (PARTITION BY b.node_id ORDER BY r.boot_id DESC, r.sequence DESC) AS age
    FROM reports r JOIN boots b ON b.id = r.boot_id JOIN (
        SELECT node_id, max(covered_until) AS covered_until FROM node_rollups
        WHERE step = {COARSE_SECONDS} GROUP BY node_id
    ) rolled_up ON rolled_up.node_id = b.node_id AND r.at <= rolled_up.covered_until
    WHERE r.heartbeat IS NOT NULL AND b.node_id NOT IN (SELECT node_id FROM rollup_progress)
) WHERE age = 1
"""  # noqa: S608 - a number of our own
"""How far the rollups of a node go, where that is lost: nothing is added up twice."""
