"""The history whose series are also in a store: the SQLite file, and an outbox of samples for the store.

A report is acknowledged when it is in the outbox and in the file, whether or not the store is up: a cluster
stays visible while its store is down, and agents do not wait for it. The outbox comes first: a report that is
only there is sent again by the agent and written again, with the same series, time and value. The file has
the keys of all reports, so repeats are detected after a restart too.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

from collector.common.outages import Dependency, Outages
from collector.config import CollectorConfig, LimitsConfig
from collector.features.prometheus.encoding import compress
from collector.features.prometheus.outbox import Outbox, Shipper
from collector.features.prometheus.writer import SampleWriter
from collector.history.interface import (
    DEFAULT_LIMITS,
    HistoryStats,
    OutboxStatus,
    StoredState,
    is_pulled,
)
from collector.history.promql import connect
from collector.history.sqlite.files.connection import IN_MEMORY, DiskThread, disk_thread
from collector.history.sqlite.history import History, open_file
from wire.messages import Report

_REPEAT_FOR_SECONDS: Final = 3600.0
"""The last state of a node that has not reported for longer is dropped: its next report is complete again."""
_LAST_ATTEMPT_SECONDS: Final = 2.0


class PrometheusHistory(History):
    """A history that also sends samples; created by `open_history`."""

    _outbox: Outbox
    _shipper: Shipper
    _disk: DiskThread
    _samples: SampleWriter

    def send_with(self, outbox: Outbox, shipper: Shipper, disk: DiskThread) -> None:
        """Put samples in an outbox from now on."""
        self._outbox, self._shipper, self._disk = outbox, shipper, disk
        self._samples = SampleWriter()

    async def add(self, reports: Sequence[Report], received_at: float) -> Sequence[bool | None]:
        # Reports that were read from a store are already there.
        pushed = [report for report in reports if not is_pulled(report)]
        if pushed:
            await self._disk.run(self._put, pushed, received_at)
            self._shipper.wake()
        return await super().add(reports, received_at)

    def _put(self, reports: Sequence[Report], received_at: float) -> None:
        body = b"".join(self._samples.write(report, received_at) for report in reports)
        self._outbox.put(compress(body), len(reports))

    async def load_state(self, limits: LimitsConfig = DEFAULT_LIMITS) -> StoredState:
        stored = await super().load_state(limits)

        def restore() -> None:
            for received in stored.reports:
                if not is_pulled(received.report):
                    self._samples.merge(received.report, received.received_at)

        await self._disk.run(restore)
        return stored

    async def apply_retention(self, now: float, limits: LimitsConfig = DEFAULT_LIMITS) -> Mapping[str, int]:
        await self._disk.run(self._samples.expire, now - _REPEAT_FOR_SECONDS)
        return await super().apply_retention(now, limits)

    def stats(self) -> HistoryStats:
        outbox = self._outbox
        waiting = OutboxStatus(outbox.waiting_reports, outbox.stored_bytes, outbox.dropped_reports)
        return replace(super().stats(), outbox=waiting)


@asynccontextmanager
async def open_history(config: CollectorConfig, troubles: Outages) -> AsyncIterator[PrometheusHistory]:
    """Open the file and the outbox, and send while the block runs; raises `UserError` if that fails."""
    path = config.history.path
    async with AsyncExitStack() as stack:
        history = await stack.enter_async_context(open_file(config.history, PrometheusHistory))
        client = await stack.enter_async_context(connect(config.store, "store"))
        disk = stack.enter_context(disk_thread("outbox", "cannot use the outbox: "))
        outbox = Outbox(
            path if path == IN_MEMORY else f"{path}.outbox",
            config.history.max_size_bytes // config.history.outbox_share,
        )
        stack.callback(outbox.close)
        troubles.watch(Dependency.STORE)
        shipper = Shipper(outbox, client, config.store.write_url, disk, troubles)
        history.send_with(outbox, shipper, disk)
        sending = asyncio.create_task(shipper.run())
        try:
            yield history
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            # The rest of the outbox gets one more attempt; what remains is sent after the next start.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_ATTEMPT_SECONDS):
                    await shipper.send()
