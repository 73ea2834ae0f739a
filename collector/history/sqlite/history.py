"""The history that needs nothing installed: one SQLite file; a thread writes, one reads, one rolls up."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from collector import config
from collector.history.interface import (
    Account,
    ContainerKey,
    EventPosition,
    GroupBy,
    HistoryStats,
    Mean,
    Series,
    StoredEvent,
    StoredState,
    SubjectKind,
    UsageKey,
    UsageTotal,
    WindowEnd,
)
from collector.history.sqlite.connection import IN_MEMORY, lock_file, open_for_reading, open_for_writing
from collector.history.sqlite.energy import EnergyReader
from collector.history.sqlite.reader import SqliteReader
from collector.history.sqlite.retention import Retention, RetentionJob
from collector.history.sqlite.rollup_store import RollupReader, RollupUpdate, RollupWriter
from collector.history.sqlite.series import SeriesReader
from collector.history.sqlite.threads import DiskThread, disk_thread
from collector.history.sqlite.writer import SqliteWriter, Submission
from wire.messages import Report

log = logging.getLogger(__name__)

_COMMIT_AT_ONCE = 100
"""Requests: with more, those at the head of the queue would wait for those at its end."""
_COMMIT_SECONDS = 0.01
"""Commits begin no closer to each other: in a quiet time a report is kept at once, and in a busy one several
share a commit, which costs the same for one as for ten."""
_CONDENSE_AT_ONCE = 4
"""Nodes whose rollups share a commit: few, as reports wait for it."""
_REST = 2.0
"""How much longer condensing rests than it works: done in one go, it would have half the core for seconds."""


class _Writing:
    """The connection that writes, and everyone who works with it."""

    def __init__(self, path: str, connection: sqlite3.Connection, retention: Retention) -> None:
        self._log = Path(path + "-wal")
        self._log_bytes = retention.log_bytes
        self.writer = SqliteWriter(connection, retention.raw_seconds)
        self.rollups = RollupWriter(connection, self.writer)
        self.forgetter = RetentionJob(connection, self.writer, retention)
        self.forgetter.bound()

    def add(self, submissions: Sequence[Submission]) -> list[list[bool]]:
        """Keep reports, and stay within the bounds of size."""
        answers = self.writer.add(submissions)
        self.forgetter.make_room()
        if self._log.exists() and self._log.stat().st_size > self._log_bytes:
            self.forgetter.empty_log()
        return answers


class _Reading:
    """The connection that reads, and everyone who works with it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.reader = SqliteReader(connection)
        self.chronicler = SeriesReader(connection)
        self.accountant = EnergyReader(connection)


class SqliteHistory:
    """Fulfils `History` in a file; made by `open_sqlite`."""

    def __init__(
        self,
        settings: config.HistoryConfig,
        writing: tuple[DiskThread, _Writing],
        reading: tuple[DiskThread, _Reading],
        condensing: tuple[DiskThread, RollupReader],
        reports: int,
    ) -> None:
        self._path = settings.path
        self._max_size_bytes = settings.max_size_bytes
        self._to_write, self._writing = writing
        self._to_read, self._reading = reading
        self._to_condense, self._condenser = condensing
        self._reports = reports + writing[1].forgetter.reports_gone
        self._said_dropped = 0
        self._waiting: list[tuple[Submission, asyncio.Future[list[bool]]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._next_commit = 0.0
        """By the event loop's clock."""

    async def add(self, reports: Sequence[Report], received_at: float) -> Sequence[bool]:
        done: asyncio.Future[list[bool]] = asyncio.get_running_loop().create_future()
        self._waiting.append((Submission(reports, received_at), done))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_waiting())
        return await done

    async def _commit_waiting(self) -> None:
        """Commit for everyone who waits, again and again: who comes during a commit shares the next."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            if (early_seconds := self._next_commit - loop.time()) > 0:
                await asyncio.sleep(early_seconds)
            self._next_commit = loop.time() + _COMMIT_SECONDS
            group, self._waiting = self._waiting[:_COMMIT_AT_ONCE], self._waiting[_COMMIT_AT_ONCE:]
            submissions = [submission for submission, _ in group]
            try:
                answers = await self._to_write.do(partial(self._writing.add, submissions))
            except Exception as error:  # noqa: BLE001 - it is for those who wait, whatever it is
                for _, done in group:
                    if not done.done():
                        done.set_exception(error)
                continue
            for (_, done), answer in zip(group, answers, strict=True):
                self._reports += sum(answer)
                if not done.done():
                    done.set_result(answer)
        self._committing = None

    async def store_usage(self, words: Sequence[UsageKey], sums: Sequence[UsageTotal]) -> None:
        await self._to_write.do(partial(self._writing.writer.store_usage, words, sums))

    async def load_state(self) -> StoredState:
        return await self._to_read.do(self._reading.reader.load_state)

    async def node_means(self, window_seconds: float, window_ends: Sequence[WindowEnd]) -> dict[str, Mean]:
        return await self._to_read.do(partial(self._reading.reader.node_means, window_seconds, window_ends))

    async def container_means(
        self, window_seconds: float, window_ends: Sequence[WindowEnd]
    ) -> dict[ContainerKey, Mean]:
        return await self._to_read.do(
            partial(self._reading.reader.container_means, window_seconds, window_ends)
        )

    async def events(
        self, limit: int, node: str | None = None, before: EventPosition | None = None
    ) -> list[StoredEvent]:
        return await self._to_read.do(partial(self._reading.reader.events, limit, node, before))

    async def series(
        self, kind: SubjectKind, name: str, start: float, end: float, step_seconds: float
    ) -> Series:
        tell = partial(self._reading.chronicler.tell, kind, name, start, end, step_seconds)
        return await self._to_read.do(tell)

    async def energy(self, start: float, end: float, by: GroupBy, label: str | None = None) -> list[Account]:
        return await self._to_read.do(partial(self._reading.accountant.accounts, start, end, by, label))

    async def put_values(self, kind: str, entries: Mapping[str, bytes | None]) -> None:
        await self._to_write.do(partial(self._writing.writer.put_values, kind, entries))

    async def get_values(self, kind: str) -> dict[str, bytes]:
        return await self._to_read.do(partial(self._reading.reader.get_values, kind))

    async def apply_retention(self, now: float) -> None:
        await self._condense()
        forgetter = self._writing.forgetter
        while await self._to_write.do(partial(forgetter.forget_reports, now)):
            pass
        while await self._to_write.do(partial(forgetter.forget_rollups, now)):
            pass
        await self._to_write.do(partial(forgetter.forget_rest, now))
        self._say_what_was_dropped()

    async def _condense(self) -> None:
        """Roll up what was said, a few nodes at a time: reports wait for no more than these."""
        condenser, loop = self._condenser, asyncio.get_running_loop()
        due = await self._to_condense.do(condenser.due)
        for start in range(0, len(due), _CONDENSE_AT_ONCE):
            began = loop.time()
            some: list[RollupUpdate] = []
            for node_id in due[start : start + _CONDENSE_AT_ONCE]:
                condensed = await self._to_condense.do(partial(condenser.condense, node_id))
                if condensed is not None:
                    some.append(condensed)
            await self._to_write.do(partial(self._writing.rollups.add, some))
            await asyncio.sleep(_REST * (loop.time() - began))

    def _say_what_was_dropped(self) -> None:
        dropped = self._writing.forgetter.dropped_for_size
        if dropped > self._said_dropped:
            log.warning(
                "the history is as large as it may be (history.max_size_bytes = %d): "
                "%d reports and rollups went before their time",
                self._max_size_bytes,
                dropped - self._said_dropped,
            )
            self._said_dropped = dropped

    async def check(self) -> None:
        await self._to_write.do(self._writing.writer.check)

    def stats(self) -> HistoryStats:
        files = (Path(self._path + suffix) for suffix in ("", "-wal")) if self._path != IN_MEMORY else ()
        forgetter = self._writing.forgetter
        return HistoryStats(
            reports=self._reports - forgetter.reports_gone,
            size_bytes=sum(file.stat().st_size for file in files if file.exists()),
            dropped_for_size=forgetter.dropped_for_size,
        )

    async def finish(self) -> None:
        """Wait until everything that was handed over is committed."""
        if self._committing is not None:
            await self._committing


@asynccontextmanager
async def open_sqlite(settings: config.HistoryConfig) -> AsyncIterator[SqliteHistory]:
    """Open the file, or make it; raises `UserError` when it cannot be had."""
    path = settings.path
    async with AsyncExitStack() as held:
        writing = held.enter_context(disk_thread("history-writing"))
        held.enter_context(lock_file(path))
        to_write = await writing.do(partial(open_for_writing, path))
        held.push_async_callback(writing.do, to_write.close)

        async def another(name: str) -> tuple[DiskThread, sqlite3.Connection]:
            if path == IN_MEMORY:
                # Such a database belongs to its connection, so there one lane does all.
                return writing, to_write
            own = held.enter_context(disk_thread(name))
            connection = await own.do(partial(open_for_reading, path))
            held.push_async_callback(own.do, connection.close)
            return own, connection

        reading, to_read = await another("history-reading")
        # Rolling up one node may take long: who asks for a mean does not wait for it.
        condensing, to_condense = await another("history-condensing")
        writers = await writing.do(partial(_Writing, path, to_write, Retention.of(settings)))
        readers = await reading.do(partial(_Reading, to_read))
        reports = await writing.do(writers.writer.count)
        condenser = RollupReader(to_condense)
        history = SqliteHistory(
            settings, (writing, writers), (reading, readers), (condensing, condenser), reports
        )
        held.push_async_callback(history.finish)
        yield history
