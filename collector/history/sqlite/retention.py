"""What goes, and when: each kind of sample after its time, and before it where the room is not enough.

Samples go in the order of their age, a few at a time, so that nobody waits for long; those that are not in
the rollups yet stay. When the file comes near its bound, the kind that has most of its time behind it goes
first, the oldest of it: so all histories grow shorter by the same share. Then even what is not rolled up may
go, as the bound holds in any case.
"""

import sqlite3
from dataclasses import dataclass
from typing import Self

from collector import config
from collector.analysis.usage import SLOTS, slot_at
from collector.history.sqlite.rollups import COARSE_SECONDS, FINE_SECONDS
from collector.history.sqlite.writer import SqliteWriter

_DAY_SECONDS = 86_400.0
_LARGEST_LOG_BYTES = 64 << 20
_NEARLY_FULL_RATIO = 0.9
"""Of the room: from here on, some of the oldest samples go with every commit."""
_FULL_RATIO = 0.97
"""Of the room: here nothing else is done until there is more."""
_REPORTS_AT_ONCE, _ROLLUPS_AT_ONCE = 200, 2000
"""Few enough that reports waiting meanwhile hardly notice."""
_RAW = 0


@dataclass(frozen=True, slots=True)
class Retention:
    """How long samples are kept, and rollups of each step; and how large it all may become."""

    raw_seconds: float
    rollup_seconds: dict[int, float]
    max_size_bytes: int

    @classmethod
    def of(cls, settings: config.HistoryConfig) -> Self:
        """As the settings say."""
        days = {FINE_SECONDS: settings.detail_days, COARSE_SECONDS: settings.hourly_days}
        return cls(
            settings.retention_hours * 3600,
            {step: each * _DAY_SECONDS for step, each in days.items()},
            settings.max_size_bytes,
        )

    @property
    def log_bytes(self) -> int:
        """The part of the room that belongs to SQLite's log of what is not in the file itself yet."""
        return min(_LARGEST_LOG_BYTES, self.max_size_bytes // 4)

    @property
    def file_bytes(self) -> int:
        """The part that belongs to the file."""
        # The log is cut after the commit that made it too long, which may be as long again.
        return self.max_size_bytes - 2 * self.log_bytes


class RetentionJob:
    """Drops what is old, each call in one transaction of the writer's connection."""

    def __init__(self, connection: sqlite3.Connection, writer: SqliteWriter, retention: Retention) -> None:
        self._connection = connection
        self._writer = writer
        self._retention = retention
        # As the writer refreshes names: those not seen for so long may still be in use.
        self._refresh_seconds = retention.raw_seconds / 10
        (self._page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        self.dropped_for_size = 0
        """Reports and rollups that went before their time."""
        self.reports_gone = 0
        """Reports that went at all."""

    # --- In time ----------------------------------------------------------------------------

    def forget_reports(self, now: float, at_most: int = _REPORTS_AT_ONCE) -> int:
        """Drop some of the reports beyond the retention, and all they held; says how many went."""
        with self._writer.transaction():
            return self._drop_reports(_OLD_REPORTS, (now - self._retention.raw_seconds, at_most))

    def forget_rollups(self, now: float) -> int:
        """Drop some of the rollups whose time is over; says how many went."""
        with self._writer.transaction():
            return sum(
                self._drop_rollups(step, int((now - seconds) // step))
                for step, seconds in self._retention.rollup_seconds.items()
            )

    def forget_rest(self, now: float) -> None:
        """Drop what nothing refers to any more, and give space back when more than half is free."""
        (oldest_at, _) = self._connection.execute(_REPORTS_BETWEEN).fetchone()
        # Where samples went before their time, so may the names that only they used.
        before = max(now - self._retention.raw_seconds, oldest_at or 0.0) - self._refresh_seconds
        unnamed = min([before, *(at - self._refresh_seconds for at in self._oldest_rollups().values())])
        with self._writer.transaction():
            for forget in _FORGET_NAMES:
                self._connection.execute(forget, (unnamed,))
            self._connection.execute("DELETE FROM rolled WHERE node_id NOT IN (SELECT id FROM nodes)")
            self._connection.execute(_FORGET_BOOTS, (before,))
            self._connection.execute(_FORGET_FACTS, (before,))
            self._connection.execute(_FORGET_ALERTS, (before,))
            for forget in _FORGET_USAGE:
                self._connection.execute(forget, (slot_at(now) - SLOTS,))
            self._writer.forget_names(before)
        pages, free = self._pages()
        if free > pages / 2:
            self._shrink(free // 2)

    # --- Before its time --------------------------------------------------------------------

    def bound(self) -> None:
        """Make the file as small as it must be, and have SQLite itself refuse to let it grow beyond."""
        self.make_room()
        pages, free = self._pages()
        most_pages = self._retention.file_bytes // self._page_bytes
        if pages > most_pages:
            self._shrink(free)
            self.empty_log()
        self._connection.execute(f"PRAGMA max_page_count = {most_pages}").fetchone()
        self._connection.execute(f"PRAGMA journal_size_limit = {self._retention.log_bytes}").fetchone()

    def make_room(self) -> None:
        """Drop some of the oldest samples if the file is nearly full, and as many as it takes if it is."""
        if self._used_ratio() > _NEARLY_FULL_RATIO:
            while self._drop_some() and self._used_ratio() > _FULL_RATIO:
                pass

    def empty_log(self) -> None:
        """Bring everything from SQLite's log into the file, and cut the log to nothing."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _drop_some(self) -> int:
        """Of the kind of samples that has most of its time behind it, drop some of the oldest."""
        with self._writer.transaction():
            oldest_at, newest_at = self._connection.execute(_REPORTS_BETWEEN).fetchone()
            began_at = self._oldest_rollups() | ({} if oldest_at is None else {_RAW: oldest_at})
            lasts = {_RAW: self._retention.raw_seconds} | self._retention.rollup_seconds
            if not began_at:
                return 0
            step = max(began_at, key=lambda each: ((newest_at or 0.0) - began_at[each]) / lasts[each])
            if step == _RAW:
                gone = self._drop_reports(_FIRST_REPORTS, (_REPORTS_AT_ONCE,))
            else:
                gone = self._drop_rollups(step, int(began_at[step] // step) + 1)
        self.dropped_for_size += gone
        return gone

    # --- Both -------------------------------------------------------------------------------

    def _drop_reports(self, which: str, parameters: tuple[float, ...]) -> int:
        old = self._connection.execute(which, parameters).fetchall()
        for forget in _FORGET_REPORT:
            self._connection.executemany(forget, old)
        self.reports_gone += len(old)
        return len(old)

    def _drop_rollups(self, step: int, before_slot: int) -> int:
        return sum(
            self._connection.execute(forget, (step, before_slot, _ROLLUPS_AT_ONCE)).rowcount
            for forget in _FORGET_ROLLUPS
        )

    def _oldest_rollups(self) -> dict[int, float]:
        """When the oldest rollup of each step begins."""
        found = {}
        for step in self._retention.rollup_seconds:
            slots = [self._connection.execute(oldest, (step,)).fetchone()[0] for oldest in _OLDEST_SLOT]
            known = [slot for slot in slots if slot is not None]
            if known:
                found[step] = float(step * min(known))
        return found

    def _used_ratio(self) -> float:
        pages, free = self._pages()
        return (pages - free) * float(self._page_bytes) / self._retention.file_bytes

    def _pages(self) -> tuple[int, int]:
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        return pages, free

    def _shrink(self, pages: int) -> None:
        # `execute` would stop after the first page: the pragma answers a row without columns for each.
        self._connection.executescript(f"PRAGMA incremental_vacuum({pages})")


# Names in these queries are our own.
_ROLLUPS = {"node_rollups": "node_id", "container_rollups": "container_id"}
_OLDEST_SLOT = [f"SELECT min(slot) FROM {table} WHERE step = ?" for table in _ROLLUPS]  # noqa: S608 - see above
_FORGET_ROLLUPS = [
    f"DELETE FROM {table} WHERE (step, slot, {subject}) IN "  # noqa: S608 - see above
    f"(SELECT step, slot, {subject} FROM {table} WHERE step = ? AND slot < ? ORDER BY slot LIMIT ?)"
    for table, subject in _ROLLUPS.items()
]
_REPORTS_BETWEEN = """
SELECT (SELECT received_at FROM reports ORDER BY id LIMIT 1), (SELECT max(received_at) FROM reports)
"""
_FIRST_REPORTS = "SELECT id FROM reports ORDER BY id LIMIT ?"
# Those that are in the rollups, or never will be.
_OLD_REPORTS = """
SELECT r.id FROM reports r LEFT JOIN boots b ON b.id = r.boot_id LEFT JOIN rolled d ON d.node_id = b.node_id
WHERE r.received_at < ? AND (d.boot_id IS NULL OR r.boot_id <> d.boot_id OR r.sequence < d.sequence)
ORDER BY r.received_at LIMIT ?
"""
_FORGET_REPORT = (
    "DELETE FROM container_samples WHERE report_id = ?",
    "DELETE FROM node_samples WHERE report_id = ?",
    "DELETE FROM events WHERE report_id = ?",
    "DELETE FROM reports WHERE id = ?",
)
_FORGET_NAMES = ("DELETE FROM nodes WHERE seen_at < ?", "DELETE FROM containers WHERE seen_at < ?")
_FORGET_USAGE = ("DELETE FROM usage WHERE slot <= ?", "DELETE FROM usage_words WHERE slot <= ?")
_FORGET_BOOTS = "DELETE FROM boots WHERE seen_at < ? AND id NOT IN (SELECT boot_id FROM rolled)"
_FORGET_FACTS = """
DELETE FROM facts WHERE seen_at < ? AND NOT EXISTS (SELECT 1 FROM containers c WHERE c.facts_id = facts.id)
"""
# One that may still be open stays for as long as its boot does, however long ago it was told of.
_FORGET_ALERTS = """
DELETE FROM alerts WHERE boot_id NOT IN (SELECT id FROM boots) OR received_at < ? AND (
    closed_at IS NOT NULL OR EXISTS (
        SELECT 1 FROM alerts later
        WHERE later.boot_id = alerts.boot_id AND later.resource = alerts.resource
          AND later.opened_at > alerts.opened_at
    )
)
"""
