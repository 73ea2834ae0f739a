"""The history that needs nothing installed: one SQLite file, one thread that writes, one that reads."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from collector import config
from collector.history.interface import (
    Account,
    ContainerKey,
    GroupBy,
    Happened,
    Kept,
    Mean,
    Recollection,
    Series,
    Standing,
    SubjectKind,
    Unavailable,
)
from collector.history.opening import IN_MEMORY, holding, open_for_reading, open_for_writing, reason
from collector.history.reading import Reader
from collector.history.writing import Submission, Writer
from wire.messages import Report

Result = TypeVar("Result")

# Few enough that reports waiting meanwhile hardly notice.
_FORGET_AT_ONCE = 200


class _Lane:
    """A connection and the only thread that works with it."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def do(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise Unavailable(reason(error)) from error

    def end(self) -> None:
        self._thread.shutdown()


@contextmanager
def _lane(name: str) -> Iterator[_Lane]:
    lane = _Lane(name)
    try:
        yield lane
    finally:
        lane.end()


class SqliteHistory:
    """Fulfils `History` in a file; made by `open_sqlite`."""

    def __init__(
        self, path: str, writing: tuple[_Lane, Writer], reading: tuple[_Lane, Reader], reports: int
    ) -> None:
        self._path = path
        self._writing, self._writer = writing
        self._reading, self._reader = reading
        self._reports = reports
        self._waiting: list[tuple[Submission, asyncio.Future[list[bool]]]] = []
        self._committing: asyncio.Task[None] | None = None

    async def add(self, reports: Sequence[Report], received_at: float) -> Sequence[bool]:
        done: asyncio.Future[list[bool]] = asyncio.get_running_loop().create_future()
        self._waiting.append((Submission(reports, received_at), done))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_waiting())
        return await done

    async def _commit_waiting(self) -> None:
        """Commit for everyone who waits, again and again: who comes during a commit shares the next."""
        while self._waiting:
            group, self._waiting = self._waiting, []
            submissions = [submission for submission, _ in group]
            try:
                answers = await self._writing.do(partial(self._writer.add, submissions))
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

    async def recall(self) -> Recollection:
        return await self._reading.do(self._reader.recall)

    async def node_means(self, window_seconds: float, standings: Sequence[Standing]) -> dict[str, Mean]:
        return await self._reading.do(partial(self._reader.node_means, window_seconds, standings))

    async def container_means(
        self, window_seconds: float, standings: Sequence[Standing]
    ) -> dict[ContainerKey, Mean]:
        return await self._reading.do(partial(self._reader.container_means, window_seconds, standings))

    async def events(self, limit: int, node: str | None = None) -> list[Happened]:
        return await self._reading.do(partial(self._reader.events, limit, node))

    async def series(
        self, kind: SubjectKind, name: str, start: float, end: float, step_seconds: float
    ) -> Series:
        raise Unavailable("this history does not tell series yet")

    async def energy(
        self, start: float, end: float, by: GroupBy, label: str | None = None
    ) -> Sequence[Account]:
        raise Unavailable("this history does not tell energy yet")

    async def remember(self, kind: str, entries: Mapping[str, bytes | None]) -> None:
        await self._writing.do(partial(self._writer.remember, kind, entries))

    async def recollect(self, kind: str) -> dict[str, bytes]:
        return await self._reading.do(partial(self._reader.recollect, kind))

    async def forget_old(self, now: float) -> None:
        gone = _FORGET_AT_ONCE
        while gone == _FORGET_AT_ONCE:
            gone = await self._writing.do(partial(self._writer.forget_reports, now, _FORGET_AT_ONCE))
            self._reports -= gone
        await self._writing.do(partial(self._writer.forget_rest, now))

    async def check(self) -> None:
        await self._writing.do(self._writer.check)

    def kept(self) -> Kept:
        files = (Path(self._path + suffix) for suffix in ("", "-wal")) if self._path != IN_MEMORY else ()
        return Kept(self._reports, sum(file.stat().st_size for file in files if file.exists()))

    async def finish(self) -> None:
        """Wait until everything that was handed over is committed."""
        if self._committing is not None:
            await self._committing


@asynccontextmanager
async def open_sqlite(settings: config.History) -> AsyncIterator[SqliteHistory]:
    """Open the file, or make it; raises `Complaint` when it cannot be had."""
    path = settings.path
    async with AsyncExitStack() as held:
        writing = held.enter_context(_lane("history-writing"))
        # A database in memory belongs to its connection, so there one lane does both.
        reading = writing if path == IN_MEMORY else held.enter_context(_lane("history-reading"))
        held.enter_context(holding(path))
        to_write = await writing.do(partial(open_for_writing, path))
        held.push_async_callback(writing.do, to_write.close)
        to_read = to_write
        if reading is not writing:
            to_read = await reading.do(partial(open_for_reading, path))
            held.push_async_callback(reading.do, to_read.close)
        writer = Writer(to_write, settings.retention_hours * 3600)
        reports = await writing.do(writer.count)
        history = SqliteHistory(path, (writing, writer), (reading, Reader(to_read)), reports)
        held.push_async_callback(history.finish)
        yield history
