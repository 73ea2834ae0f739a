"""The history in one SQLite file: one thread writes, one reads, one rolls up."""

import asyncio
import logging
import os
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager
from math import inf
from pathlib import Path

from collector import config
from collector.config import LimitsConfig
from collector.history.interface import (
    DEFAULT_LIMITS,
    Account,
    ClusterSeries,
    EventPosition,
    GroupBy,
    HistoryStats,
    HistoryUnavailable,
    Mean,
    ReceivedReport,
    Series,
    StoredEvent,
    StoredState,
    StoredUsage,
    Subject,
    SubjectKind,
    UsageKey,
    UsageTotal,
    WindowEnd,
)
from collector.history.sqlite.cluster import ClusterReader
from collector.history.sqlite.energy import EnergyReader
from collector.history.sqlite.files.connection import (
    IN_MEMORY,
    DiskThread,
    damage_marker,
    disk_thread,
    lock_file,
    open_for_reading,
    open_for_writing,
)
from collector.history.sqlite.files.damage import FileWatch, set_wrong_rows_aside
from collector.history.sqlite.means import MeanReader
from collector.history.sqlite.reader import SqliteReader
from collector.history.sqlite.retention import Retention, RetentionJob
from collector.history.sqlite.rollup_store import RollupReader, RollupUpdate, RollupWriter
from collector.history.sqlite.series import SeriesReader
from collector.history.sqlite.windows import WindowReader
from collector.history.sqlite.writer import SqliteWriter, Submission
from wire.messages import Report

log = logging.getLogger(__name__)

_COMMIT_BATCH = 100
"""Requests per commit: with more, those at the head of the queue would wait for those at its end."""
_COMMIT_SECONDS = 0.01
"""Minimum time between the starts of two commits. When it is quiet, a report is stored at once; when it is
busy, several share a commit, which costs the same for one as for ten."""
_ROOM_RATIOS = (0.9, 0.8, 0.6)
"""Used part of the file to which it is emptied for a commit that did not fit, one after another."""
_ROLLUP_BATCH = 4
"""Nodes whose rollups share a commit: few, as reports wait for it."""
_CHECK_SECONDS = 6 * 3600.0
"""Time between two checks of the file for damage."""
_ROLLUP_TURNS = 8
"""How often a node with many reports is read in one pass."""
_ROLLUP_PAUSE = 2.0
"""Pause after each batch of rollups, relative to its duration: reports and requests come first."""


class _Writing:
    """The connection that writes, and its users."""

    def __init__(
        self, settings: config.HistoryConfig, connection: sqlite3.Connection, watch: FileWatch | None
    ) -> None:
        retention = Retention.of(settings)
        self._watch, self._connection = watch, connection
        self._log = Path(settings.path + "-wal")
        self._folder = None if settings.path == IN_MEMORY else Path(settings.path).resolve().parent
        self._min_free_bytes = settings.min_free_bytes
        self._log_bytes = retention.log_bytes
        self.writer = SqliteWriter(connection, retention.raw_seconds)
        self.rollups = RollupWriter(connection, self.writer)
        self.retention = RetentionJob(connection, self.writer, retention)
        self.retention.limit_size()

    def add(self, submissions: Sequence[Submission]) -> list[list[bool | None]]:
        """Store reports, and stay below the maximum size."""
        self.require_file()
        self.require_space()
        answers = self._add(submissions)
        self.retention.make_room()
        if self._log.exists() and self._log.stat().st_size > self._log_bytes:
            self.retention.truncate_log()
        return answers

    def _add(self, submissions: Sequence[Submission]) -> list[list[bool | None]]:
        # One commit can be larger than what is kept free.
        for ratio in _ROOM_RATIOS:
            try:
                return self.writer.add(submissions)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                    raise
                self.retention.make_room(ratio)
        return self.writer.add(submissions)

    def require_file(self) -> None:
        """Raise `HistoryUnavailable` if reports would be stored in a file that is gone."""
        if self._watch is not None:
            self._watch.require_file()

    def require_space(self) -> None:
        """Raise `HistoryUnavailable` if so little space is free that nothing is to be written any more."""
        if self._folder is None:
            return
        found = os.statvfs(self._folder)
        free_bytes = found.f_bavail * found.f_frsize
        if free_bytes < self._min_free_bytes:
            raise HistoryUnavailable(
                f"it is read-only, because only {free_bytes >> 20} MiB are free on its disk,"
                f" of the {self._min_free_bytes >> 20} MiB that it leaves to others: free some space"
            )

    def set_wrong_rows_aside(self) -> int:
        """Delete rows that do not have their checksum; returns how many."""
        with self.writer.transaction():
            return set_wrong_rows_aside(self._connection)

    def check(self) -> None:
        """Fail exactly when a report could not be stored."""
        self.require_file()
        self.require_space()
        self.writer.check()


class _Reading:
    """The connection that reads, and its users."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.reader = SqliteReader(connection)
        self.means = MeanReader(connection)
        self.series = SeriesReader(connection)
        self.cluster = ClusterReader(connection)
        self.energy = EnergyReader(connection)
        self.windows = WindowReader(connection)


class SqliteHistory:
    """Implements `History` in a file; created by `open_sqlite`."""

    def __init__(
        self,
        settings: config.HistoryConfig,
        writing: tuple[DiskThread, _Writing],
        reading: tuple[DiskThread, _Reading],
        rollups: tuple[DiskThread, RollupReader],
        reports: int,
    ) -> None:
        self._path = settings.path
        self._max_size_bytes = settings.max_size_bytes
        self._write_thread, self._writing = writing
        self._read_thread, self._reading = reading
        self._rollup_thread, self._rollup_reader = rollups
        self._reports = reports + writing[1].retention.deleted_reports
        self._retaining = asyncio.Lock()
        self._checked_at = -inf
        self._damage = ""
        self._wrong_rows = 0
        self._logged_dropped = 0
        self._logged_by_node: Counter[int] = Counter()
        self._waiting: list[tuple[Submission, asyncio.Future[list[bool | None]]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._next_commit = 0.0
        """Earliest start of the next commit, by the event loop's clock."""

    async def add(self, reports: Sequence[Report], received_at: float) -> Sequence[bool | None]:
        done: asyncio.Future[list[bool | None]] = asyncio.get_running_loop().create_future()
        self._waiting.append((Submission(reports, received_at), done))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_waiting())
        return await done

    async def _commit_waiting(self) -> None:
        """Commit all waiting requests; those that arrive during a commit share the next one."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            if (early_seconds := self._next_commit - loop.time()) > 0:
                await asyncio.sleep(early_seconds)
            self._next_commit = loop.time() + _COMMIT_SECONDS
            group, self._waiting = self._waiting[:_COMMIT_BATCH], self._waiting[_COMMIT_BATCH:]
            submissions = [submission for submission, _ in group]
            try:
                answers = await self._write_thread.run(self._writing.add, submissions)
            except Exception as error:  # noqa: BLE001 - for the waiting requests, whatever it is
                for _, done in group:
                    if not done.done():
                        done.set_exception(error)
                continue
            for (_, done), answer in zip(group, answers, strict=True):
                self._reports += sum(is_new is True for is_new in answer)
                if not done.done():
                    done.set_result(answer)
        self._committing = None

    async def store_usage(self, merged: Sequence[UsageKey], totals: Sequence[UsageTotal]) -> None:
        await self._write_thread.run(self._writing.writer.store_usage, merged, totals)

    async def load_state(self, limits: LimitsConfig = DEFAULT_LIMITS) -> StoredState:
        return await self._read_thread.run(self._reading.reader.load_state, limits)

    async def load_reports(self, since: float) -> list[ReceivedReport]:
        return await self._read_thread.run(self._reading.reader.load_reports, since)

    async def load_windows(self, since: float, containers: AbstractSet[str]) -> StoredUsage:
        return await self._read_thread.run(self._reading.windows.read, since, containers)

    async def means(
        self, kind: SubjectKind, window_seconds: float, window_ends: Sequence[WindowEnd]
    ) -> dict[Subject, Mean]:
        return await self._read_thread.run(self._reading.means.read, kind, window_seconds, window_ends)

    async def events(
        self, limit: int, node: str | None = None, before: EventPosition | None = None
    ) -> list[StoredEvent]:
        return await self._read_thread.run(self._reading.reader.events, limit, node, before)

    async def series(
        self, kind: SubjectKind, name: str, start: float, end: float, step_seconds: float
    ) -> Series:
        return await self._read_thread.run(self._reading.series.read, kind, name, start, end, step_seconds)

    async def cluster_series(
        self, start: float, end: float, step_seconds: float, error_ratios: Mapping[str, float]
    ) -> ClusterSeries:
        return await self._read_thread.run(self._reading.cluster.read, start, end, step_seconds, error_ratios)

    async def energy(self, start: float, end: float, by: GroupBy, label: str | None = None) -> list[Account]:
        return await self._read_thread.run(self._reading.energy.accounts, start, end, by, label)

    async def put_values(self, kind: str, values: Mapping[str, bytes | None]) -> None:
        await self._write_thread.run(self._writing.writer.put_values, kind, values)

    async def get_values(self, kind: str) -> dict[str, bytes]:
        return await self._read_thread.run(self._reading.reader.get_values, kind)

    async def apply_retention(self, now: float, limits: LimitsConfig = DEFAULT_LIMITS) -> Mapping[str, int]:
        # One pass at a time: the next one finds what this one found.
        async with self._retaining:
            return await self._apply_retention(now, limits)

    async def _apply_retention(self, now: float, limits: LimitsConfig) -> Mapping[str, int]:
        bounded = await self._roll_up(limits.max_node_watts)
        retention = self._writing.retention
        horizon = await self._write_thread.run(retention.advance, now)
        while await self._write_thread.run(retention.expire_reports, horizon):
            pass
        while await self._write_thread.run(retention.expire_rollups, horizon):
            pass
        await self._write_thread.run(retention.expire_rest, horizon)
        await self._write_thread.run(self._log_dropped)
        if now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            await self._check_for_damage()
        return bounded

    async def _check_for_damage(self) -> None:
        """Check the file, and set rows aside that do not have their checksum."""
        damage = await self._rollup_thread.run(self._rollup_reader.find_damage)
        self._damage = damage or ""
        if damage is not None:
            log.error("the history is damaged: %s", damage)
            damage_marker(self._path).touch()
            return
        wrong = await self._rollup_thread.run(self._rollup_reader.count_wrong_rows)
        if wrong:
            log.error("rows in the history do not have their checksum, and are set aside: %s", wrong)
            self._wrong_rows += await self._write_thread.run(self._writing.set_wrong_rows_aside)

    async def _roll_up(self, max_node_watts: float) -> Mapping[str, int]:
        """Update the rollups, a few nodes at a time, so that reports wait for no more than these.

        A node with many reports takes several turns, after all others. Returns the number of buckets in which
        a node reported more energy than it can have used, by node.
        """
        reader, loop = self._rollup_reader, asyncio.get_running_loop()
        pending = await self._rollup_thread.run(reader.pending_nodes)
        bounded: Counter[int] = Counter()
        for _ in range(_ROLLUP_TURNS):
            unfinished: list[int] = []
            for start in range(0, len(pending), _ROLLUP_BATCH):
                began = loop.time()
                updates: list[RollupUpdate] = []
                for node_id in pending[start : start + _ROLLUP_BATCH]:
                    update = await self._rollup_thread.run(reader.read, node_id, max_node_watts)
                    if update is not None:
                        updates.append(update)
                        bounded[node_id] += update.rows.bounded_buckets
                        unfinished += [node_id] * update.has_more
                await self._write_thread.run(self._writing.rollups.add, updates)
                await asyncio.sleep(_ROLLUP_PAUSE * (loop.time() - began))
            pending = unfinished
        names = self._writing.retention.node_name
        return {
            await self._write_thread.run(names, node_id): count for node_id, count in bounded.items() if count
        }

    def _log_dropped(self) -> None:
        retention = self._writing.retention
        dropped = retention.dropped_for_size
        if dropped > self._logged_dropped:
            by_node = retention.dropped_by_node - self._logged_by_node
            nodes = ", ".join(
                f"{count} of {retention.node_name(node_id)}" for node_id, count in by_node.most_common(5)
            )
            log.warning(
                "the history has reached its maximum size (history.max_size_bytes = %d): "
                "deleted %d reports, rollups and containers before their retention was over%s",
                self._max_size_bytes,
                dropped - self._logged_dropped,
                f", {nodes}" if nodes else "",
            )
            self._logged_dropped, self._logged_by_node = dropped, retention.dropped_by_node.copy()

    async def check(self) -> None:
        await self._write_thread.run(self._writing.check)

    def stats(self) -> HistoryStats:
        files = (Path(self._path + suffix) for suffix in ("", "-wal")) if self._path != IN_MEMORY else ()
        retention = self._writing.retention
        return HistoryStats(
            reports=self._reports - retention.deleted_reports,
            size_bytes=sum(file.stat().st_size for file in files if file.exists()),
            dropped_for_size=retention.dropped_for_size,
            damage=self._damage,
            wrong_rows=self._wrong_rows,
        )

    async def finish(self) -> None:
        """Wait until all waiting requests are committed."""
        if self._committing is not None:
            await self._committing


@asynccontextmanager
async def open_sqlite(settings: config.HistoryConfig) -> AsyncIterator[SqliteHistory]:
    """Open the file, or create it; raises `UserError` if that fails."""
    path = settings.path
    async with AsyncExitStack() as stack:
        write_thread = stack.enter_context(disk_thread("history-write"))
        stack.enter_context(lock_file(path))
        connection = await write_thread.run(open_for_writing, path)
        watch = None if path == IN_MEMORY else FileWatch(path)
        if watch is not None:
            stack.callback(watch.close)  # after the connections, which are pushed later
        stack.push_async_callback(write_thread.run, connection.close)

        async def open_reader(name: str) -> tuple[DiskThread, sqlite3.Connection]:
            if path == IN_MEMORY:
                # A database in memory belongs to its connection.
                return write_thread, connection
            thread = stack.enter_context(disk_thread(name))
            own = await thread.run(open_for_reading, path)
            stack.push_async_callback(thread.run, own.close)
            return thread, own

        read_thread, to_read = await open_reader("history-read")
        # Rolling up one node can take long: queries do not wait for it.
        rollup_thread, to_roll_up = await open_reader("history-rollup")
        writing = await write_thread.run(_Writing, settings, connection, watch)
        reading = await read_thread.run(_Reading, to_read)
        reports = await write_thread.run(writing.writer.count)
        history = SqliteHistory(
            settings,
            (write_thread, writing),
            (read_thread, reading),
            (rollup_thread, RollupReader(to_roll_up)),
            reports,
        )
        stack.push_async_callback(history.finish)
        yield history
