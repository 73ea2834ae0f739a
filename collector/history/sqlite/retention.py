"""Delete old data: each kind when its retention is over, or earlier if the file gets too large.

Rows are deleted in order of age, in small batches, so that no report waits for long. Samples that are not in
the rollups yet stay. When the file comes near its maximum size, rows go of the kind that has used up most of
its retention, so that all kinds are cut by the same share; of raw reports, those of the node that takes the
most space (see `space`). Then even samples that are not rolled up can go: the maximum size always holds.
"""

import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from collector.analysis.usage import BUCKETS, bucket_at
from collector.config import HistoryConfig
from collector.history.rollups import COARSE_SECONDS, FINE_SECONDS
from collector.history.sqlite.schema import DETAIL_FROM, GET_VALUE, SET_VALUE
from collector.history.sqlite.space import StoredReport, crowded_node, forget_containers
from collector.history.sqlite.writer import SqliteWriter

log = logging.getLogger(__name__)

_DAY_SECONDS = 86_400.0
_MAX_LOG_BYTES = 64 << 20
_NEARLY_FULL_RATIO = 0.9
"""Share of the maximum size from which each commit deletes some of the oldest rows."""
_MIN_SHARES = 4
"""The containers of one node take at most this part of the file, even without other nodes."""
_FULL_RATIO = 0.97
"""Share of the maximum size from which rows are deleted until the file is below it."""
_REPORT_BATCH, _ROLLUP_BATCH = 200, 2000
"""Rows per transaction: few enough that waiting reports are hardly delayed."""
_MAX_BOOTS = 1000
"""Boots of a node that are kept for as long as its rollups: two years and more of daily restarts."""
_RAW = 0
_CATCH_UP_RATIO = 1.1
"""After a pause, the horizon moves this much faster than time until it has caught up."""
_HORIZON_KIND, _HORIZON_KEY = "retention", "horizon"


class RetentionJob:
    """Deletes old rows, each call in one transaction of the writer's connection."""

    def __init__(self, connection: sqlite3.Connection, writer: SqliteWriter, settings: HistoryConfig) -> None:
        self._connection = connection
        self.writer, self.settings = writer, settings
        self._raw_seconds = settings.retention_hours * 3600
        self._rollup_seconds = {
            FINE_SECONDS: settings.detail_days * _DAY_SECONDS,
            COARSE_SECONDS: settings.hourly_days * _DAY_SECONDS,
        }
        self._log = Path(settings.path + "-wal")
        self._log_bytes = min(_MAX_LOG_BYTES, settings.max_size_bytes // 4)
        # The log is truncated after the commit that made it too long, which may double it.
        self._file_bytes = settings.max_size_bytes - 2 * self._log_bytes
        # The writer marks rows as used only this often: an older mark may still be in use.
        self._refresh_seconds = self._raw_seconds / 10
        (self._page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        self._horizon: float | None = None
        self._advanced_at = 0.0
        self.dropped_for_size = 0
        """Reports, rollups and containers that were deleted before their retention was over."""
        self.dropped_by_node: Counter[int] = Counter()
        """Dropped reports and containers, by node."""

    # --- By age ------------------------------------------------------------------------------

    def advance(self, now: float) -> float:
        """Return the time from which ages count, at most now.

        It continues from where it was when the last run ended, or from the newest report, and advances with
        the time that a collector runs. So a clock that is wrong at the start, or a pause of a year, makes no
        data old.
        """
        if self._horizon is None:
            reached = self._stored_horizon()
            self._horizon = now if reached is None else min(now, reached)
            if now - self._horizon > self._raw_seconds:
                log.warning(
                    "the newest data in the history is %.0f h old: the collector was stopped, or its clock is"
                    " wrong. Older data is kept that much longer",
                    (now - self._horizon) / 3600,
                )
        else:
            elapsed = max(0.0, now - self._advanced_at)
            self._horizon = min(now, self._horizon + _CATCH_UP_RATIO * elapsed)
        self._advanced_at = now
        self.writer.put_values(_HORIZON_KIND, {_HORIZON_KEY: repr(self._horizon).encode()})
        return self._horizon

    def _stored_horizon(self) -> float | None:
        found = self._connection.execute(GET_VALUE, (_HORIZON_KIND, _HORIZON_KEY)).fetchone()
        if found is not None:
            return float(found[0])
        (_, newest_at) = self._connection.execute(_REPORTS_BETWEEN).fetchone()
        return None if newest_at is None else float(newest_at)

    def expire_reports(self, now: float, limit: int = _REPORT_BATCH) -> int:
        """Delete a batch of reports that are past the retention, with their samples; returns how many."""
        with self.writer.transaction():
            before = now - self._raw_seconds
            found = self._connection.execute(_OLD_REPORTS, (before, limit)).fetchall()
            return self._drop_reports([StoredReport(*row) for row in found])

    def expire_rollups(self, now: float) -> int:
        """Delete a batch of rollups that are past the retention; returns how many."""
        with self.writer.transaction():
            return sum(
                self._drop_rollups(step, int((now - seconds) // step))
                for step, seconds in self._rollup_seconds.items()
            )

    def expire_rest(self, now: float) -> None:
        """Delete rows that nothing refers to, and return space to the disk if more than half is free."""
        (oldest_at, _) = self._connection.execute(_REPORTS_BETWEEN).fetchone()
        # If samples were deleted early, so can the rows that only they referred to.
        before = max(now - self._raw_seconds, oldest_at or 0.0) - self._refresh_seconds
        unused = min([before, *(at - self._refresh_seconds for at in self._oldest_rollups().values())])
        with self.writer.transaction():
            for delete in _DELETE_SUBJECTS:
                self._connection.execute(delete, (unused,))
            self._connection.execute(
                "DELETE FROM rollup_progress WHERE node_id NOT IN (SELECT id FROM nodes)"
            )
            self._connection.execute(_DELETE_BOOTS, {"before": before, "unused": unused, "most": _MAX_BOOTS})
            self._connection.execute(_DELETE_FACTS, (before,))
            self._connection.execute(_DELETE_ALERTS, {"before": before})
            for delete in _DELETE_USAGE:
                self._connection.execute(delete, (bucket_at(now) - BUCKETS,))
            # An id that is not marked as used for so long is looked up again anyway.
            self.writer.expire_ids(max(before, now - self._refresh_seconds))
        pages, free = self._pages()
        if free > pages / 2:
            self._shrink(free // 2)

    # --- By size -----------------------------------------------------------------------------

    def limit_size(self) -> None:
        """Shrink the file to its maximum size, and let SQLite enforce that from now on."""
        self.make_room()
        pages, free = self._pages()
        max_pages = self._file_bytes // self._page_bytes
        if pages > max_pages:
            self._shrink(free)
            self._truncate_log()
        self._connection.execute(f"PRAGMA max_page_count = {max_pages}").fetchone()
        self._connection.execute(f"PRAGMA journal_size_limit = {self._log_bytes}").fetchone()

    def make_room(self, below_ratio: float = _FULL_RATIO) -> None:
        """Delete a batch of old rows if the file is nearly full, and as many as needed if it is full."""
        if self._used_ratio() > min(below_ratio, _NEARLY_FULL_RATIO):
            while self._drop_batch() and self._used_ratio() > below_ratio:
                pass

    def _forget_containers(self) -> int:
        """Forget containers of a node that takes more than its share with them."""
        (nodes,) = self._connection.execute("SELECT count(*) FROM nodes").fetchone()
        share_bytes = self._file_bytes / max(nodes, _MIN_SHARES)
        node_id = crowded_node(self._connection, share_bytes)
        if node_id is None:
            return 0
        deleted = forget_containers(self._connection, node_id)
        self.writer.expire_ids(float("inf"))
        self.dropped_by_node[node_id] += deleted
        return deleted

    def node_name(self, node_id: int) -> str:
        found = self._connection.execute("SELECT name FROM nodes WHERE id = ?", (node_id,)).fetchone()
        return "a node that is gone" if found is None else str(found[0])

    def limit_log(self) -> None:
        """Empty SQLite's log if it is too long."""
        if self._log.exists() and self._log.stat().st_size > self._log_bytes:
            self._truncate_log()

    def _truncate_log(self) -> None:
        """Move everything from SQLite's log to the database file."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _drop_batch(self) -> int:
        """Delete the oldest rows of the kind that has used up most of its retention."""
        with self.writer.transaction():
            oldest_at, newest_at = self._connection.execute(_REPORTS_BETWEEN).fetchone()
            began_at = self._oldest_rollups() | ({} if oldest_at is None else {_RAW: oldest_at})
            kept_seconds = {_RAW: self._raw_seconds} | self._rollup_seconds
            if not began_at:
                return 0
            if deleted := self._forget_containers():
                self.dropped_for_size += deleted
                return deleted
            step = max(began_at, key=lambda each: ((newest_at or 0.0) - began_at[each]) / kept_seconds[each])
            if step == _RAW:
                reports = self.writer.space.first_to_go(_REPORT_BATCH)
                deleted = self._drop_reports(reports)
                self.dropped_by_node.update(each.node_id for each in reports)
            else:
                deleted = self._drop_rollups(step, int(began_at[step] // step) + 1)
        self.dropped_for_size += deleted
        return deleted

    # --- Both -------------------------------------------------------------------------------

    def _drop_reports(self, old: Sequence[StoredReport]) -> int:
        deleted = json.dumps([each.id for each in old])
        self.writer.set_expired(self._connection.execute(_LAST_SEQUENCES, (deleted,)).fetchall())
        for delete in _DELETE_REPORT:
            self._connection.executemany(delete, [(each.id,) for each in old])
        for each in old:
            self.writer.space.add(each.node_id, each.received_at, -each.size)
        self.writer.reports -= len(old)
        return len(old)

    def _drop_rollups(self, step: int, before_bucket: int) -> int:
        if step == FINE_SECONDS:
            # Rows go in batches: energy in these hours comes from hourly rollups from now on.
            found = self._connection.execute(GET_VALUE, DETAIL_FROM).fetchone()
            detail_from = -(-before_bucket * FINE_SECONDS // COARSE_SECONDS) * COARSE_SECONDS
            (oldest,) = self._connection.execute(_OLDEST_BUCKET[0], (step,)).fetchone()
            if oldest is not None and oldest < before_bucket and (not found or float(found[0]) < detail_from):
                self._connection.execute(SET_VALUE, (*DETAIL_FROM, str(detail_from).encode()))
        return sum(
            self._connection.execute(delete, (step, before_bucket, _ROLLUP_BATCH)).rowcount
            for delete in _DELETE_ROLLUPS
        )

    def _oldest_rollups(self) -> dict[int, float]:
        """The start of the oldest rollup of each step."""
        found = {}
        for step in self._rollup_seconds:
            buckets = [self._connection.execute(oldest, (step,)).fetchone()[0] for oldest in _OLDEST_BUCKET]
            stored = [bucket for bucket in buckets if bucket is not None]
            if stored:
                found[step] = float(step * min(stored))
        return found

    def _used_ratio(self) -> float:
        pages, free = self._pages()
        return (pages - free) * float(self._page_bytes) / self._file_bytes

    def _pages(self) -> tuple[int, int]:
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        return pages, free

    def _shrink(self, pages: int) -> None:
        # `execute` would stop after the first page: the pragma answers a row without columns for each.
        self._connection.executescript(f"PRAGMA incremental_vacuum({pages})")


# Names in these queries are our own.
_ROLLUPS = {"node_rollups": "node_id", "container_rollups": "container_id"}
_OLDEST_BUCKET = [f"SELECT min(bucket) FROM {table} WHERE step = ?" for table in _ROLLUPS]  # noqa: S608 - see above
_DELETE_ROLLUPS = [
    f"DELETE FROM {table} WHERE (step, bucket, {subject}) IN "  # noqa: S608 - see above
    f"(SELECT step, bucket, {subject} FROM {table} WHERE step = ? AND bucket < ? ORDER BY bucket LIMIT ?)"
    for table, subject in _ROLLUPS.items()
]
_REPORTS_BETWEEN = """
SELECT (SELECT received_at FROM reports ORDER BY id LIMIT 1), (SELECT max(received_at) FROM reports)
"""
# Those that are in the rollups, or never will be.
_OLD_REPORTS = """
SELECT r.id, coalesce(b.node_id, 0), r.received_at, r.size
FROM reports r LEFT JOIN boots b ON b.id = r.boot_id
LEFT JOIN rollup_progress d ON d.node_id = b.node_id
WHERE r.received_at < ? AND (d.boot_id IS NULL OR r.boot_id <> d.boot_id OR r.sequence < d.sequence)
ORDER BY r.received_at LIMIT ?
"""
_LAST_SEQUENCES = """
SELECT r.boot_id, max(r.sequence)
FROM json_each(?) each JOIN reports r ON r.id = each.value GROUP BY r.boot_id
"""
_DELETE_REPORT = (
    "DELETE FROM container_samples WHERE report_id = ?",
    "DELETE FROM node_samples WHERE report_id = ?",
    "DELETE FROM events WHERE report_id = ?",
    "DELETE FROM reports WHERE id = ?",
)
_DELETE_SUBJECTS = (
    "DELETE FROM nodes WHERE last_used_at < ?",
    "DELETE FROM containers WHERE last_used_at < ?",
)
_DELETE_USAGE = ("DELETE FROM usage WHERE bucket <= ?", "DELETE FROM pending_usage WHERE bucket <= ?")
_DELETE_BOOTS = """
DELETE FROM boots WHERE last_used_at < :before AND id NOT IN (SELECT boot_id FROM rollup_progress)
AND (last_used_at < :unused OR id NOT IN (
    SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY node_id ORDER BY id DESC) AS place FROM boots)
    WHERE place <= :most
))
"""
_DELETE_FACTS = """
DELETE FROM facts WHERE last_used_at < ?
AND NOT EXISTS (SELECT 1 FROM containers c WHERE c.facts_id = facts.id)
"""
# An alert that may still be open stays for as long as reports of its boot may, whatever its age.
_DELETE_ALERTS = """
DELETE FROM alerts WHERE boot_id NOT IN (
    SELECT id FROM boots WHERE last_used_at >= :before OR id IN (SELECT boot_id FROM rollup_progress)
) OR received_at < :before AND (
    closed_at IS NOT NULL OR EXISTS (
        SELECT 1 FROM alerts later
        WHERE later.boot_id = alerts.boot_id AND later.resource = alerts.resource
          AND later.opened_at > alerts.opened_at
    )
)
"""
