"""What the store has not taken yet, on disk and bounded: the oldest goes when there is no more room.

Synchronous, on one connection. A commit survives the death of the process; a power cut may take the last
seconds, as one flush of the disk per report, that of the history, is enough: the history still has them.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from collector.history.sqlite.connection import IN_MEMORY, reason
from wire.errors import UserError

_TABLE = """
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reports INTEGER NOT NULL, body BLOB NOT NULL
)
"""
_IN_ORDER = "SELECT id, reports, body FROM outbox ORDER BY id"


@dataclass(frozen=True, slots=True)
class Entry:
    """One packed request that waits."""

    id: int
    reports: int
    """How many reports it tells of."""
    body: bytes


class Outbox:
    """A queue of packed requests."""

    def __init__(self, path: str, max_bytes: int) -> None:
        """Open the file or make it; raises `UserError` when it cannot be had."""
        self._max_bytes = max_bytes
        try:
            self._connection = sqlite3.connect(
                path, timeout=1.0, isolation_level=None, check_same_thread=False
            )
            if path != IN_MEMORY:
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(_TABLE)
            row = self._connection.execute("SELECT count(*), total(length(body)), total(reports) FROM outbox")
        except sqlite3.Error as error:
            raise UserError(
                f"cannot keep what waits for the store in {path} ({reason(error)}): "
                "move it away, or choose another history.path"
            ) from error
        entries, stored_bytes, reports = row.fetchone()
        self._entries, self.stored_bytes, self.waiting_reports = int(entries), int(stored_bytes), int(reports)
        self.dropped_reports = 0

    def __len__(self) -> int:
        return self._entries

    def put(self, body: bytes, reports: int) -> None:
        """Keep one more, if need be in the place of the oldest."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            doomed = self._oldest(self.stored_bytes + len(body) - self._max_bytes)
            self._delete(doomed)
            self._connection.execute("INSERT INTO outbox (reports, body) VALUES (?, ?)", (reports, body))
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._count(doomed)
        self.dropped_reports += sum(entry.reports for entry in doomed)
        self._entries += 1
        self.stored_bytes += len(body)
        self.waiting_reports += reports

    def first(self, at_most_bytes: int) -> list[Entry]:
        """The oldest, as many as fit; one at least, if there is any."""
        found: list[Entry] = []
        size = 0
        for row in self._connection.execute(_IN_ORDER):
            entry = Entry(*row)
            size += len(entry.body)
            if found and size > at_most_bytes:
                break
            found.append(entry)
        return found

    def remove(self, entries: Sequence[Entry], *, dropped: bool = False) -> None:
        """Let go of entries: taken by the store, or dropped as it never will take them."""
        # What was dropped meanwhile to make room is not counted twice.
        there = [entry for entry in entries if self._delete([entry])]
        self._count(there)
        if dropped:
            self.dropped_reports += sum(entry.reports for entry in there)

    def close(self) -> None:
        self._connection.close()

    def _oldest(self, at_least_bytes: int) -> list[Entry]:
        """The oldest, as few as together are so large."""
        found: list[Entry] = []
        if at_least_bytes <= 0:
            return found
        for row in self._connection.execute(_IN_ORDER):
            found.append(Entry(*row))
            at_least_bytes -= len(found[-1].body)
            if at_least_bytes <= 0:
                break
        return found

    def _delete(self, entries: Sequence[Entry]) -> int:
        ids = ((entry.id,) for entry in entries)
        return self._connection.executemany("DELETE FROM outbox WHERE id = ?", ids).rowcount

    def _count(self, gone: Sequence[Entry]) -> None:
        self._entries -= len(gone)
        self.stored_bytes -= sum(len(entry.body) for entry in gone)
        self.waiting_reports -= sum(entry.reports for entry in gone)
