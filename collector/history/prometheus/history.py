"""The history with its time series in a store: the SQLite file, and an outbox to the store beside it.

A report is acknowledged once it is in the outbox and in the file, whether or not the store is there now: a
store that is away must not make a cluster blind, and agents need not wait for it. In this order, because a
report of which only the outbox knows comes again and is written again, which changes nothing: same series,
same time, same value. The file knows which reports came, so a repeat is recognised after a restart as well.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import msgspec

from collector.common.outages import Dependency, Outages
from collector.config import CollectorConfig
from collector.history.interface import (
    Account,
    ContainerKey,
    EventPosition,
    GroupBy,
    History,
    HistoryStats,
    HistoryUnavailable,
    Mean,
    OutboxStatus,
    Series,
    StoredEvent,
    StoredState,
    SubjectKind,
    UsageKey,
    UsageTotal,
    WindowEnd,
)
from collector.history.prometheus.client import Client, connect
from collector.history.prometheus.encoding import pack
from collector.history.prometheus.outbox import Outbox
from collector.history.prometheus.reader import is_pulled
from collector.history.prometheus.series import StoreSeries
from collector.history.prometheus.shipper import Shipper
from collector.history.prometheus.writer import SampleWriter
from collector.history.sqlite.connection import IN_MEMORY, reason
from collector.history.sqlite.history import open_sqlite
from wire.errors import UserError
from wire.messages import Report

Result = TypeVar("Result")


class PrometheusHistory:
    """Fulfils `History`; made by `open_prometheus`."""

    def __init__(
        self,
        journal: History,
        began_at: float,
        sending: tuple[Outbox, Shipper, ThreadPoolExecutor],
        client: Client,
    ) -> None:
        self._journal = journal
        self._began_at = began_at
        self._outbox, self._shipper, self._disk = sending
        self._past = StoreSeries(client)
        self._scribe = SampleWriter()

    async def add(self, reports: Sequence[Report], received_at: float) -> Sequence[bool]:
        # What was read from a store is in one.
        told = [report for report in reports if not is_pulled(report)]
        if told:
            await self._on_disk(partial(self._put, told, received_at))
            self._shipper.wake()
        return await self._journal.add(reports, received_at)

    def _put(self, reports: Sequence[Report], received_at: float) -> None:
        body = b"".join(self._scribe.write(report, received_at) for report in reports)
        self._outbox.put(pack(body), len(reports))

    async def store_usage(self, words: Sequence[UsageKey], sums: Sequence[UsageTotal]) -> None:
        await self._journal.store_usage(words, sums)

    async def load_state(self) -> StoredState:
        stored = await self._journal.load_state()

        def hold() -> None:
            for received in stored.reports:
                if not is_pulled(received.report):
                    self._scribe.hold(received.report, received.received_at)

        await self._on_disk(hold)
        return stored

    async def node_means(self, window_seconds: float, window_ends: Sequence[WindowEnd]) -> Mapping[str, Mean]:
        return await self._journal.node_means(window_seconds, window_ends)

    async def container_means(
        self, window_seconds: float, window_ends: Sequence[WindowEnd]
    ) -> Mapping[ContainerKey, Mean]:
        return await self._journal.container_means(window_seconds, window_ends)

    async def events(
        self, limit: int, node: str | None = None, before: EventPosition | None = None
    ) -> Sequence[StoredEvent]:
        return await self._journal.events(limit, node, before)

    async def series(
        self, kind: SubjectKind, name: str, start: float, end: float, step_seconds: float
    ) -> Series:
        if start < self._began_at:
            return await self._past.series(kind, name, start, end, step_seconds)
        return await self._journal.series(kind, name, start, end, step_seconds)

    async def energy(
        self, start: float, end: float, by: GroupBy, label: str | None = None
    ) -> Sequence[Account]:
        return await self._journal.energy(start, end, by, label)

    async def put_values(self, kind: str, entries: Mapping[str, bytes | None]) -> None:
        await self._journal.put_values(kind, entries)

    async def get_values(self, kind: str) -> Mapping[str, bytes]:
        return await self._journal.get_values(kind)

    async def apply_retention(self, now: float) -> None:
        await self._on_disk(partial(self._scribe.forget, now - _HELD_SECONDS))
        await self._journal.apply_retention(now)

    async def check(self) -> None:
        await self._journal.check()

    def stats(self) -> HistoryStats:
        outbox = self._outbox
        waiting = OutboxStatus(outbox.waiting_reports, outbox.stored_bytes, outbox.dropped_reports)
        return replace(self._journal.stats(), outbox=waiting)

    async def _on_disk(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._disk, work)
        except sqlite3.Error as error:
            raise HistoryUnavailable(f"what waits for the store cannot be kept: {reason(error)}") from error


_HELD_SECONDS: Final = 3600.0
"""A node not heard of for so long is not repeated: its next word is all there is again."""


_LAST_TRY_SECONDS: Final = 2.0
_REMEMBERED: Final = "store"
_BEGAN_AT: Final = "began_at"


@asynccontextmanager
async def open_prometheus(
    config: CollectorConfig, troubles: Outages, clock: Callable[[], float]
) -> AsyncIterator[PrometheusHistory]:
    """Open the file and the outbox, and ship while the block runs; raises `UserError` when it cannot."""
    if not config.store.url:
        raise UserError(
            'history.store is "prometheus", but nothing says where that is: set store.url, '
            "such as http://127.0.0.1:8428"
        )
    path = config.history.path
    async with AsyncExitStack() as held:
        journal = await held.enter_async_context(open_sqlite(config.history))
        client = await held.enter_async_context(connect(config.store, "store"))
        disk = held.enter_context(ThreadPoolExecutor(1, thread_name_prefix="outbox"))
        outbox = Outbox(path if path == IN_MEMORY else f"{path}.outbox", config.store.outbox_max_bytes)
        held.callback(outbox.close)
        troubles.watch(Dependency.STORE)
        shipper = Shipper(outbox, client, config.store.write_url, disk, troubles)
        shipping = asyncio.create_task(shipper.run())
        # What is there at the end gets one more chance; the rest waits for the next start.
        held.push_async_callback(_last_try, shipper)
        held.push_async_callback(_stopped, shipping)
        began_at = await _began_at(journal, clock)
        yield PrometheusHistory(journal, began_at, (outbox, shipper, disk), client)


async def _began_at(journal: History, clock: Callable[[], float]) -> float:
    """When the file was begun: what was before is told by the store."""
    known = (await journal.get_values(_REMEMBERED)).get(_BEGAN_AT)
    if known is not None:
        return msgspec.msgpack.decode(known, type=float)
    now = clock()
    await journal.put_values(_REMEMBERED, {_BEGAN_AT: msgspec.msgpack.encode(now)})
    return now


async def _last_try(shipper: Shipper) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_TRY_SECONDS):
            await shipper.ship()


async def _stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
