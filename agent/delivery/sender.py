"""Sends reports to the collector, in order and in batches, until it accepts them.

A report is stored first and deleted only after the receipt. If a receipt is lost, the collector receives the
same report twice and recognizes it by its key.
"""

import asyncio
import gzip
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import aiohttp

from agent.config import DeliveryConfig, StorageConfig
from agent.delivery.connection import (
    REQUEST_SECONDS,
    connect,
    credentials,
    failure_reason,
    post,
    read_token,
    sends_token_in_plaintext,
    tls_context,
)
from agent.delivery.responses import Backoff, ClockOffset, Rejected, Response, Retry, parse_response
from agent.delivery.spool import MEMORY_BYTES, Spool
from agent.delivery.spool_file import Entry
from agent.reporting.validity import encode_valid, without_labels
from wire.errors import UserError
from wire.messages import MAX_BATCH, Receipt, Report

log = logging.getLogger(__name__)

_BATCH_BYTES = 256 << 10
_FLUSH_SECONDS = 2.0
_CLOSE_SECONDS = 1.0

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Batch:
    entries: list[Entry]
    body: bytes
    headers: dict[str, str]


class ReportSender:
    """The queue of reports for the collector, and the loop that sends them."""

    def __init__(
        self,
        collector: DeliveryConfig,
        storage: StorageConfig,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = collector
        self._tls = tls_context(collector) if collector.enabled else None
        if collector.enabled:
            read_token(collector)
            if sends_token_in_plaintext(collector):
                log.warning(
                    "the token is sent to %s without encryption: use https:// in collector.url", collector.url
                )
        self._wall = wall
        self._monotonic = monotonic
        self._sleep = sleep
        self.spool = Spool(storage, wall=wall, monotonic=monotonic)
        # The disk has its own thread: a slow disk blocks nothing else.
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._writing_count = 0
        self._writing_bytes = 0
        self._queued = asyncio.Event()
        self._backoff = Backoff()
        self.clock_offset = ClockOffset()
        self._batch_limit = MAX_BATCH
        self._failure: Retry | None = None
        self._rejection: str | None = None
        self._delivery: asyncio.Task[None] | None = None
        self._is_closing = False
        self._dropped = 0
        self.delivered = 0

    def __len__(self) -> int:
        return len(self.spool) + self._writing_count

    @property
    def dropped(self) -> int:
        """Number of lost reports: spool full, too old, damaged, or rejected by the collector."""
        return self.spool.dropped + self._dropped

    @property
    def stored_bytes(self) -> int:
        return self.spool.size_bytes + self._writing_bytes

    def enqueue(self, report: Report) -> None:
        """Queue a report to be stored and sent; returns at once and never raises."""
        if self._is_closing or self._writing_bytes > MEMORY_BYTES:
            # Closing; or the disk hangs, and the number of reports that wait for it is bounded.
            self._dropped += 1
            return
        body, left_out = encode_valid(report)
        if left_out:
            log.warning("left invalid parts out of a report: %s", "; ".join(left_out[:5]))
        self._writing_count += 1
        self._writing_bytes += len(body)
        stored = asyncio.get_running_loop().run_in_executor(self._disk, self.spool.add, (body,))
        stored.add_done_callback(partial(self._on_stored, len(body)))
        self._queued.set()

    def _on_stored(self, size_bytes: int, done: asyncio.Future[None]) -> None:
        self._writing_count -= 1
        self._writing_bytes -= size_bytes
        if not done.cancelled() and (error := done.exception()) is not None:
            self._dropped += 1
            log.error("cannot store a report; this is a bug, please report it", exc_info=error)

    async def run(self) -> None:
        """Send reports until closed, starting with those of earlier runs of the agent."""
        if self._is_closing:
            return
        self._delivery = asyncio.create_task(self._deliver())
        try:
            await self._delivery
        except asyncio.CancelledError:
            if not self._is_closing:
                raise

    async def _deliver(self) -> None:
        async with connect(self._tls, REQUEST_SECONDS) as session:
            while True:
                self._queued.clear()
                match await self._send_next(session):
                    case None:
                        await self._queued.wait()
                    case Retry() as failure:
                        wait = self._backoff.wait_seconds(
                            failure.wait_seconds, needs_attention=failure.needs_attention
                        )
                        await self._sleep(wait)
                    case Rejected() if self._rejection is not None:
                        # A collector that rejects everything, perhaps because it is older than this agent,
                        # must not empty the spool before someone can correct that.
                        await self._sleep(self._backoff.wait_seconds())

    async def close(self) -> None:
        """Stop `run`, send what can be sent quickly, and leave the rest in the spool."""
        self._is_closing = True
        if self._delivery is not None:
            self._delivery.cancel()
            await asyncio.wait((self._delivery,))
        if len(self) and self._failure is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_SECONDS), connect(self._tls, REQUEST_SECONDS) as session:
                    while isinstance(await self._send_next(session), Receipt):
                        pass
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._on_disk(self.spool.close)
        self._disk.shutdown(wait=False)

    # --- One batch --------------------------------------------------------------------------

    async def _send_next(self, session: aiohttp.ClientSession) -> Response | None:
        """Send the oldest reports and handle the response; None without waiting reports."""
        try:
            batch = await self._on_disk(self._next_batch)
        except UserError as error:
            failure = Retry(str(error), needs_attention=True)
            self._log_failure(failure)
            return failure
        if batch is None:
            return None
        response = await self._post(session, batch)
        if isinstance(response, Rejected) and response.is_too_large and len(batch.entries) == 1:
            response = await self._post_shortened(session, batch) or response
        match response:
            case Receipt():
                self.delivered += await self._on_disk(partial(self.spool.remove, batch.entries))
                self._backoff.reset()
                self._batch_limit = min(self._batch_limit * 2, MAX_BATCH)
                if self._failure is not None:
                    url, waiting = self._settings.url, len(self)
                    log.info("the collector at %s accepts reports again; %d in the queue", url, waiting)
                self._failure = self._rejection = None
            case Rejected(why) if len(batch.entries) == 1:
                self._dropped += await self._on_disk(partial(self.spool.remove, batch.entries))
                self._batch_limit = 1
                if self._rejection is None:
                    log.error("the collector rejected a report, which is dropped: %s", why)
                self._rejection = why
            case Rejected():
                # One invalid report must not cause the loss of others: halve the batch until only it is left.
                self._batch_limit = len(batch.entries) // 2
            case Retry():
                self._log_failure(response)
        return response

    async def _post_shortened(self, session: aiohttp.ClientSession, batch: _Batch) -> Response | None:
        """Send a report without labels that is too large with them; None if it has none."""
        body = await self._on_disk(partial(without_labels, batch.entries[0].body))
        if body is None:
            return None
        log.warning("a report is too large for the collector: it is sent without labels")
        return await self._post(session, await self._on_disk(partial(self._packed, batch.entries, [body])))

    def _next_batch(self) -> _Batch | None:
        entries = self.spool.first(self._batch_limit, _BATCH_BYTES)
        return self._packed(entries, [entry.body for entry in entries]) if entries else None

    def _packed(self, entries: list[Entry], bodies: list[bytes]) -> _Batch:
        body = b"[" + b",".join(bodies) + b"]"
        headers = credentials(self._settings)
        packed = gzip.compress(body, mtime=0)
        if len(packed) < len(body):
            headers["Content-Encoding"], body = "gzip", packed
        return _Batch(entries, body, headers)

    async def _on_disk(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work)

    # --- HTTP -------------------------------------------------------------------------------

    async def _post(self, session: aiohttp.ClientSession, batch: _Batch) -> Response:
        try:
            try:
                return await self._post_once(session, batch)
            except (aiohttp.ServerDisconnectedError, ConnectionResetError):
                # The collector closed an idle connection: retry once without a warning.
                return await self._post_once(session, batch)
        except aiohttp.ClientSSLError as error:
            return Retry(failure_reason(error), needs_attention=True)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return Retry(failure_reason(error))

    async def _post_once(self, session: aiohttp.ClientSession, batch: _Batch) -> Response:
        began = self._monotonic()
        response = await post(session, self._settings, "/v1/reports", batch.body, batch.headers)
        took_seconds, responded_at = self._monotonic() - began, self._wall()
        outcome = parse_response(*response, len(batch.entries))
        if isinstance(outcome, Receipt):
            self.clock_offset.update(outcome.server_time, responded_at, took_seconds)
        return outcome

    def _log_failure(self, failure: Retry) -> None:
        if self._failure is None or self._failure.needs_attention != failure.needs_attention:
            log.warning(
                "cannot send reports to the collector at %s: %s; they stay in the queue",
                self._settings.url,
                failure.why,
            )
        self._failure = failure
