"""A queue on disk of requests to the store; when it is full, the oldest are dropped.

Synchronous, on one connection. A commit survives a crash of the process. A power failure can lose the last
seconds in the store: to save a second flush per report, only the history itself is flushed.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.history.sqlite.files.connection import IN_MEMORY, make_private, reason
from wire.errors import UserError

_TABLE = """
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reports INTEGER NOT NULL, body BLOB NOT NULL
)
"""
_IN_ORDER = "SELECT id, reports, body FROM outbox ORDER BY id"


@dataclass(frozen=True, slots=True)
class Entry:
    """A compressed request in the queue."""

    id: int
    reports: int
    """Number of reports in it."""
    body: bytes


class Outbox:
    """A queue of compressed requests."""

    def __init__(self, path: str, max_bytes: int) -> None:
        """Open the file or create it; raises `UserError` if that fails."""
        self._max_bytes = max_bytes
        try:
            if path != IN_MEMORY:
                make_private(Path(path))
            self._connection = sqlite3.connect(
                path, timeout=1.0, isolation_level=None, check_same_thread=False
            )
            if path != IN_MEMORY:
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(_TABLE)
            row = self._connection.execute("SELECT count(*), total(length(body)), total(reports) FROM outbox")
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UserError(
                f"cannot open the outbox {path} ({why}): move it away, or choose another history.path"
            ) from error
        except sqlite3.Error as error:
            raise UserError(
                f"cannot open the outbox {path} ({reason(error)}): "
                "move it away, or choose another history.path"
            ) from error
        entries, stored_bytes, reports = row.fetchone()
        self._entries, self.stored_bytes, self.waiting_reports = int(entries), int(stored_bytes), int(reports)
        self.dropped_reports = 0

    def __len__(self) -> int:
        return self._entries

    def put(self, body: bytes, reports: int) -> None:
        """Add a request; if the queue is full, drop the oldest."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            dropped_entries = self._oldest(self.stored_bytes + len(body) - self._max_bytes)
            self._delete(dropped_entries)
            self._connection.execute("INSERT INTO outbox (reports, body) VALUES (?, ?)", (reports, body))
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._subtract(dropped_entries)
        self.dropped_reports += sum(entry.reports for entry in dropped_entries)
        self._entries += 1
        self.stored_bytes += len(body)
        self.waiting_reports += reports

    def first(self, max_bytes: int) -> list[Entry]:
        """The oldest entries up to this size, at least one if there is any."""
        found: list[Entry] = []
        size = 0
        for row in self._connection.execute(_IN_ORDER):
            entry = Entry(*row)
            size += len(entry.body)
            if found and size > max_bytes:
                break
            found.append(entry)
        return found

    def remove(self, entries: Sequence[Entry], *, dropped: bool = False) -> None:
        """Remove entries that the store has accepted, or, if `dropped`, will never accept."""
        # Entries that `put` has dropped meanwhile are not counted twice.
        removed = [entry for entry in entries if self._delete([entry])]
        self._subtract(removed)
        if dropped:
            self.dropped_reports += sum(entry.reports for entry in removed)

    def close(self) -> None:
        self._connection.close()

    def _oldest(self, size_bytes: int) -> list[Entry]:
        """The fewest of the oldest entries that together have this size."""
        found: list[Entry] = []
        if size_bytes <= 0:
            return found
        for row in self._connection.execute(_IN_ORDER):
            found.append(Entry(*row))
            size_bytes -= len(found[-1].body)
            if size_bytes <= 0:
                break
        return found

    def _delete(self, entries: Sequence[Entry]) -> int:
        ids = ((entry.id,) for entry in entries)
        return self._connection.executemany("DELETE FROM outbox WHERE id = ?", ids).rowcount

    def _subtract(self, removed: Sequence[Entry]) -> None:
        self._entries -= len(removed)
        self.stored_bytes -= sum(len(entry.body) for entry in removed)
        self.waiting_reports -= sum(entry.reports for entry in removed)
