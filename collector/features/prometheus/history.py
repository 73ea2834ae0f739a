"""The history whose series are also in a store: the SQLite file, and an outbox of samples for the store.

A report is acknowledged when it is in the outbox and in the file, whether or not the store is up: a cluster
stays visible while its store is down, and agents do not wait for it. The outbox comes first: a report that is
only there is sent again by the agent and written again, with the same series, time and value. The file has
the keys of all reports, so repeats are detected after a restart too.

A commit to the outbox survives a crash of the process. A power failure can lose the last seconds in the
store: to save a second flush per report, only the history itself is flushed. When the outbox is full, the
oldest requests are dropped. They are sent in order, in large requests, with retries until they are accepted.
"""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from collector.common.errors import HistoryUnavailable
from collector.common.outages import Dependency, Outages, log
from collector.config import CollectorConfig, LimitsConfig
from collector.features.prometheus.encoding import compress, decompress
from collector.features.prometheus.writer import SampleWriter
from collector.history.interface import DEFAULT_LIMITS, HistoryStats, OutboxStatus, StoredState, is_pulled
from collector.history.promql import Client, StoreRejected, connect
from collector.history.sqlite.files.connection import IN_MEMORY, DiskThread, make_private, reason, set_aside
from collector.history.sqlite.files.damage import is_damage
from collector.history.sqlite.history import History, open_file
from wire.errors import UserError
from wire.messages import Report

_REPEAT_FOR_SECONDS: Final = 3600.0
"""The last state of a node that has not reported for longer is dropped: its next report is complete again."""
_LAST_ATTEMPT_SECONDS: Final = 2.0
_REQUEST_BYTES: Final = 1 << 20
"""Total size from which no more compressed requests are joined into one."""
_RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
_JITTER: Final = 0.25
_TABLE = """
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reports INTEGER NOT NULL, body BLOB NOT NULL
)
"""


class Entry(NamedTuple):
    """A compressed request in the queue."""

    id: int
    reports: int
    """Number of reports in it."""
    body: bytes


class Outbox:
    """A queue of compressed requests."""

    def __init__(self, path: str, max_bytes: int) -> None:
        """Open the file or create it, also if it is damaged; raises `UserError` if that fails."""
        self._max_bytes = max_bytes
        self._connection: sqlite3.Connection
        try:
            try:
                self.stored_bytes, self.waiting_reports = self._open(path)
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
                self._connection.close()
                aside = set_aside(path)
                log.error(
                    "the outbox %s is damaged (%s): renamed to %s. Its samples will be missing in the store;"
                    " the history has them",
                    *(path, reason(error), aside),
                )
                self.stored_bytes, self.waiting_reports = self._open(path)
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                f"cannot open the outbox {path} ({reason(error)}): "
                "move it away, or choose another history.path"
            ) from error
        self.dropped_reports = 0

    def _open(self, path: str) -> tuple[int, int]:
        """Open the file; returns the bytes and reports in it."""
        if path != IN_MEMORY:
            make_private(Path(path))
        self._connection = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
        if path != IN_MEMORY:
            self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(_TABLE)
        query = "SELECT total(length(body)), total(reports) FROM outbox"
        size_bytes, reports = self._connection.execute(query).fetchone()
        return int(size_bytes), int(reports)

    def put(self, body: bytes, reports: int) -> None:
        """Add a request; if the queue is full, drop the oldest."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            dropped_entries = self.oldest(self.stored_bytes + len(body) - self._max_bytes)
            self._delete(dropped_entries)
            self._connection.execute("INSERT INTO outbox (reports, body) VALUES (?, ?)", (reports, body))
        self._subtract(dropped_entries)
        self.dropped_reports += sum(entry.reports for entry in dropped_entries)
        self.stored_bytes += len(body)
        self.waiting_reports += reports

    def oldest(self, size_bytes: int) -> list[Entry]:
        """The fewest of the oldest entries that together have this size."""
        found: list[Entry] = []
        rows = self._connection.execute("SELECT id, reports, body FROM outbox ORDER BY id")
        while size_bytes > 0 and (row := rows.fetchone()) is not None:
            found.append(Entry(*row))
            size_bytes -= len(found[-1].body)
        rows.close()
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

    def _delete(self, entries: Sequence[Entry]) -> int:
        ids = ((entry.id,) for entry in entries)
        return self._connection.executemany("DELETE FROM outbox WHERE id = ?", ids).rowcount

    def _subtract(self, removed: Sequence[Entry]) -> None:
        self.stored_bytes -= sum(len(entry.body) for entry in removed)
        self.waiting_reports -= sum(entry.reports for entry in removed)


class Shipper:
    """Sends the entries of the outbox to the store."""

    def __init__(
        self, outbox: Outbox, client: Client, write_url: str, disk: DiskThread, troubles: Outages
    ) -> None:
        self._outbox = outbox
        self._client = client
        self._write_url = write_url
        self._disk = disk
        self._troubles = troubles
        self._added = asyncio.Event()
        self._failures = 0
        self._max_bytes = _REQUEST_BYTES
        self._is_rejecting = False

    def wake(self) -> None:
        self._added.set()

    async def run(self) -> None:
        while True:
            self._added.clear()
            if not await self.send():
                pause = _RETRY_SECONDS[min(self._failures, len(_RETRY_SECONDS)) - 1]
                await asyncio.sleep(pause * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311 - no secret
            elif not self._outbox.waiting_reports:
                await self._added.wait()

    async def send(self) -> bool:
        """Send until the outbox is empty, or the store fails; returns False if it failed."""
        try:
            while entries := await self._disk.run(self._outbox.oldest, self._max_bytes):
                await self._send(entries)
                self._failures = 0
                self._troubles.end(
                    Dependency.STORE,
                    f"the store at {self._client.url} accepts samples again; "
                    f"reports still to be sent: {self._outbox.waiting_reports}",
                )
        except HistoryUnavailable as error:
            self._failures += 1
            self._troubles.begin(
                Dependency.STORE,
                f"the store at {self._client.url} accepts no samples: {error}; retrying",
            )
            return False
        return True

    async def _send(self, entries: Sequence[Entry]) -> None:
        try:
            await self._client.write(await self._disk.run(_join, entries), self._write_url)
        except StoreRejected as error:
            await self._reject(entries, error)
        else:
            await self._disk.run(self._outbox.remove, entries)
            self._max_bytes = _REQUEST_BYTES
            self._is_rejecting = False

    async def _reject(self, entries: Sequence[Entry], error: StoreRejected) -> None:
        """Drop a request that the store will never accept, without those that it was joined with."""
        if len(entries) > 1:
            self._max_bytes = 1
            return
        await self._disk.run(self._outbox.remove, entries, dropped=True)
        if not self._is_rejecting:
            log.error("the store at %s rejected samples, dropped them: %s", self._client.url, error)
        self._is_rejecting = True


def _join(entries: Sequence[Entry]) -> bytes:
    """Many requests as one: they are merged by concatenation."""
    if len(entries) == 1:
        return entries[0].body
    return compress(b"".join(decompress(entry.body) for entry in entries))


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
        disk = stack.enter_context(closing(DiskThread("outbox", "cannot use the outbox: ")))
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
