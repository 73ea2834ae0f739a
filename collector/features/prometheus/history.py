"""The history with its series in a store: the SQLite file, and an outbox of samples for the store.

A report is acknowledged when it is in the outbox and in the file, whether or not the store is up: a cluster
stays visible while its store is down, and agents do not wait for it. The outbox comes first: a report that is
only there is sent again by the agent and written again, with the same series, time and value. The file has
the keys of all reports, so repeats are detected after a restart too.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

import msgspec

from collector.common.outages import Dependency, Outages
from collector.config import CollectorConfig, LimitsConfig
from collector.features.prometheus.encoding import compress
from collector.features.prometheus.outbox import Outbox
from collector.features.prometheus.series import StoreSeries
from collector.features.prometheus.shipper import Shipper
from collector.features.prometheus.writer import SampleWriter
from collector.history.interface import (
    DEFAULT_LIMITS,
    Account,
    ClusterSeries,
    EventPosition,
    GroupBy,
    History,
    HistoryStats,
    Mean,
    OutboxStatus,
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
    is_pulled,
)
from collector.history.promql import Client, connect
from collector.history.sqlite.files.connection import IN_MEMORY, DiskThread, disk_thread
from collector.history.sqlite.history import open_sqlite
from wire.messages import Report


class PrometheusHistory:
    """Implements `History`; created by `open_history`."""

    def __init__(
        self,
        file: History,
        began_at: float,
        delivery: tuple[Outbox, Shipper, DiskThread],
        client: Client,
    ) -> None:
        self._file = file
        self._began_at = began_at
        self._outbox, self._shipper, self._disk = delivery
        self._store = StoreSeries(client)
        self._writer = SampleWriter()

    async def add(self, reports: Sequence[Report], received_at: float) -> Sequence[bool | None]:
        # Reports that were read from a store are already there.
        pushed = [report for report in reports if not is_pulled(report)]
        if pushed:
            await self._disk.run(self._put, pushed, received_at)
            self._shipper.wake()
        return await self._file.add(reports, received_at)

    def _put(self, reports: Sequence[Report], received_at: float) -> None:
        body = b"".join(self._writer.write(report, received_at) for report in reports)
        self._outbox.put(compress(body), len(reports))

    async def store_usage(self, merged: Sequence[UsageKey], totals: Sequence[UsageTotal]) -> None:
        await self._file.store_usage(merged, totals)

    async def load_state(self, limits: LimitsConfig = DEFAULT_LIMITS) -> StoredState:
        stored = await self._file.load_state(limits)

        def restore() -> None:
            for received in stored.reports:
                if not is_pulled(received.report):
                    self._writer.restore(received.report, received.received_at)

        await self._disk.run(restore)
        return stored

    async def load_reports(self, since: float) -> Sequence[ReceivedReport]:
        return await self._file.load_reports(since)

    async def load_windows(self, since: float, containers: AbstractSet[str]) -> StoredUsage:
        return await self._file.load_windows(since, containers)

    async def means(
        self, kind: SubjectKind, window_seconds: float, window_ends: Sequence[WindowEnd]
    ) -> Mapping[Subject, Mean]:
        return await self._file.means(kind, window_seconds, window_ends)

    async def events(
        self, limit: int, node: str | None = None, before: EventPosition | None = None
    ) -> Sequence[StoredEvent]:
        return await self._file.events(limit, node, before)

    async def series(
        self, kind: SubjectKind, name: str, start: float, end: float, step_seconds: float
    ) -> Series:
        if start < self._began_at:
            return await self._store.series(kind, name, start, end, step_seconds)
        return await self._file.series(kind, name, start, end, step_seconds)

    async def cluster_series(
        self, start: float, end: float, step_seconds: float, error_ratios: Mapping[str, float]
    ) -> ClusterSeries:
        if start < self._began_at:
            return await self._store.cluster_series(start, end, step_seconds, error_ratios)
        return await self._file.cluster_series(start, end, step_seconds, error_ratios)

    async def energy(
        self, start: float, end: float, by: GroupBy, label: str | None = None
    ) -> Sequence[Account]:
        return await self._file.energy(start, end, by, label)

    async def put_values(self, kind: str, values: Mapping[str, bytes | None]) -> None:
        await self._file.put_values(kind, values)

    async def get_values(self, kind: str) -> Mapping[str, bytes]:
        return await self._file.get_values(kind)

    async def apply_retention(self, now: float, limits: LimitsConfig = DEFAULT_LIMITS) -> Mapping[str, int]:
        await self._disk.run(self._writer.expire, now - _REPEAT_FOR_SECONDS)
        return await self._file.apply_retention(now, limits)

    async def check(self) -> None:
        await self._file.check()

    def stats(self) -> HistoryStats:
        outbox = self._outbox
        waiting = OutboxStatus(outbox.waiting_reports, outbox.stored_bytes, outbox.dropped_reports)
        return replace(self._file.stats(), outbox=waiting)


_REPEAT_FOR_SECONDS: Final = 3600.0
"""The last state of a node that has not reported for longer is dropped: its next report is complete again."""

_LAST_ATTEMPT_SECONDS: Final = 2.0
_KIND: Final = "store"
_BEGAN_AT: Final = "began_at"


@asynccontextmanager
async def open_history(
    config: CollectorConfig, troubles: Outages, clock: Callable[[], float]
) -> AsyncIterator[PrometheusHistory]:
    """Open the file and the outbox, and send while the block runs; raises `UserError` if that fails."""
    path = config.history.path
    async with AsyncExitStack() as stack:
        file = await stack.enter_async_context(open_sqlite(config.history))
        client = await stack.enter_async_context(connect(config.store, "store"))
        disk = stack.enter_context(disk_thread("outbox", "cannot use the outbox: "))
        outbox = Outbox(
            path if path == IN_MEMORY else f"{path}.outbox",
            config.history.max_size_bytes // config.history.outbox_share,
        )
        stack.callback(outbox.close)
        troubles.watch(Dependency.STORE)
        shipper = Shipper(outbox, client, config.store.write_url, disk, troubles)
        sending = asyncio.create_task(shipper.run())
        # The rest of the outbox gets one more attempt; what remains is sent after the next start.
        stack.push_async_callback(_send_rest, shipper)
        stack.push_async_callback(_stop, sending)
        began_at = await _began_at(file, clock)
        yield PrometheusHistory(file, began_at, (outbox, shipper, disk), client)


async def _began_at(file: History, clock: Callable[[], float]) -> float:
    """When the file was created: earlier series come from the store."""
    stored = (await file.get_values(_KIND)).get(_BEGAN_AT)
    if stored is not None:
        return msgspec.msgpack.decode(stored, type=float)
    now = clock()
    await file.put_values(_KIND, {_BEGAN_AT: msgspec.msgpack.encode(now)})
    return now


async def _send_rest(shipper: Shipper) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_ATTEMPT_SECONDS):
            await shipper.send()


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
