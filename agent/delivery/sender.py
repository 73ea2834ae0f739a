"""Bringing reports to the collector: in order, in batches, patiently, each until there is a receipt for it.

A report is stored first and deleted only after the receipt. A receipt that gets lost brings the same report
to the collector twice, which knows it by its key.
"""

import asyncio
import gzip
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import aiohttp
from aiohttp import hdrs

from agent.config import DeliveryConfig, SpoolConfig
from agent.delivery.credentials import read_token, sends_token_in_plaintext, tls_context
from agent.delivery.responses import Accepted, Backoff, ClockOffset, Rejected, Response, Retry, parse_response
from agent.delivery.spool import MEMORY_BYTES, Spool
from agent.delivery.spool_file import Entry
from wire.errors import UserError
from wire.messages import MAX_BATCH, Gap, Report, encode
from wire.version import __version__

log = logging.getLogger(__name__)

_BATCH_BYTES = 256 << 10
_KEEPALIVE_SECONDS = 120.0
_FLUSH_SECONDS = 2.0
_CLOSE_SECONDS = 1.0

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Batch:
    entries: list[Entry]
    body: bytes
    headers: dict[str, str]


class ReportSender:
    """The reports that wait for the collector, and the loop that brings them there."""

    def __init__(
        self,
        collector: DeliveryConfig,
        spool: SpoolConfig,
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
                log.warning("this node's token goes to %s as plain text: use https://", collector.url)
        self._wall = wall
        self._monotonic = monotonic
        self._sleep = sleep
        self._spool = Spool(spool, wall=wall, monotonic=monotonic)
        # The disk has a thread of its own: however slow it is, it holds up nothing but itself.
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._writing_count = 0
        self._writing_bytes = 0
        self._queued = asyncio.Event()
        self._backoff = Backoff()
        self._clock = ClockOffset()
        self._batch_limit = MAX_BATCH
        self._failure: Retry | None = None
        self._rejection: str | None = None
        self._delivery: asyncio.Task[None] | None = None
        self._is_closing = False
        self._dropped = 0
        self.delivered = 0

    def __len__(self) -> int:
        return len(self._spool) + self._writing_count

    @property
    def dropped(self) -> int:
        """Reports given up: too many, too old, damaged, or refused by the collector for good."""
        return self._spool.dropped + self._dropped

    @property
    def stored_bytes(self) -> int:
        """Room that the waiting reports take."""
        return self._spool.size_bytes + self._writing_bytes

    @property
    def gap(self) -> Gap | None:
        """Why reports are kept in memory only, if they are."""
        return self._spool.gap

    @property
    def clock_offset_seconds(self) -> float | None:
        """How far the collector's clock is ahead of this node's; None before it was heard."""
        return self._clock.seconds

    def enqueue(self, report: Report) -> None:
        """Hand over a report to be stored and sent now; returns at once, and never raises."""
        if self._is_closing or self._writing_bytes > MEMORY_BYTES:
            # Too late; or the disk hangs, and what waits for it is bounded too.
            self._dropped += 1
            return
        body = encode(report)
        self._writing_count += 1
        self._writing_bytes += len(body)
        stored = asyncio.get_running_loop().run_in_executor(self._disk, self._spool.add, (body,))
        stored.add_done_callback(partial(self._on_stored, len(body)))
        self._queued.set()

    def _on_stored(self, size_bytes: int, done: asyncio.Future[None]) -> None:
        self._writing_count -= 1
        self._writing_bytes -= size_bytes
        if not done.cancelled() and (error := done.exception()) is not None:
            self._dropped += 1
            log.error("a report could not be stored: a bug, please report it", exc_info=error)

    async def run(self) -> None:
        """Deliver until closed; what an earlier run of the agent left behind goes first."""
        if self._is_closing:
            return
        self._delivery = asyncio.create_task(self._deliver())
        try:
            await self._delivery
        except asyncio.CancelledError:
            if not self._is_closing:
                raise

    async def _deliver(self) -> None:
        async with self._session() as session:
            while True:
                self._queued.clear()
                match await self._send_next(session):
                    case None:
                        await self._queued.wait()
                    case Retry() as later:
                        wait = self._backoff.wait_seconds(
                            later.wait_seconds, needs_attention=later.needs_attention
                        )
                        await self._sleep(wait)
                    case Rejected() if self._rejection is not None:
                        # If it takes none at all, because it is older than this agent perhaps, the spool
                        # should not be gone before someone can put that right.
                        await self._sleep(self._backoff.wait_seconds())

    async def close(self) -> None:
        """End `run`, send what can be sent quickly, and leave the rest in the spool."""
        self._is_closing = True
        if self._delivery is not None:
            self._delivery.cancel()
            await asyncio.wait((self._delivery,))
        if len(self) and self._failure is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_SECONDS), self._session() as session:
                    while isinstance(await self._send_next(session), Accepted):
                        pass
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._on_disk(self._spool.close)
        self._disk.shutdown(wait=False)

    # --- One batch --------------------------------------------------------------------------

    async def _send_next(self, session: aiohttp.ClientSession) -> Response | None:
        """Send the oldest reports and act on the answer; None when none waits."""
        try:
            batch = await self._on_disk(self._next_batch)
        except UserError as complaint:
            later = Retry(str(complaint), needs_attention=True)
            self._log_failure(later)
            return later
        if batch is None:
            return None
        answer = await self._post(session, batch)
        match answer:
            case Accepted():
                self.delivered += await self._on_disk(partial(self._spool.remove, batch.entries))
                self._backoff.reset()
                self._batch_limit = min(self._batch_limit * 2, MAX_BATCH)
                self._log_accepted()
            case Rejected(why) if len(batch.entries) == 1:
                self._dropped += await self._on_disk(partial(self._spool.remove, batch.entries))
                self._batch_limit = 1
                self._log_rejection(why)
            case Rejected():
                # One bad report must not take good ones with it: halve until it stands alone.
                self._batch_limit = len(batch.entries) // 2
            case Retry():
                self._log_failure(answer)
        return answer

    def _next_batch(self) -> _Batch | None:
        entries = self._spool.first(self._batch_limit, _BATCH_BYTES)
        if not entries:
            return None
        body = b"[" + b",".join(entry.body for entry in entries) + b"]"
        headers = {}
        # Read each time, so that a new token needs no restart.
        if (token := read_token(self._settings)) is not None:
            headers["Authorization"] = f"Bearer {token}"
        packed = gzip.compress(body, mtime=0)
        if len(packed) < len(body):
            headers["Content-Encoding"], body = "gzip", packed
        return _Batch(entries, body, headers)

    async def _on_disk(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work)

    # --- HTTP -------------------------------------------------------------------------------

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        # One connection, kept open between beacons; and no header that nobody asked for.
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=1, keepalive_timeout=_KEEPALIVE_SECONDS, ssl=self._tls or True
            ),
            timeout=aiohttp.ClientTimeout(total=self._settings.timeout_seconds),
            headers={
                hdrs.CONTENT_TYPE: "application/json",
                hdrs.USER_AGENT: f"wattpack-agent/{__version__}",
            },
            skip_auto_headers=(hdrs.ACCEPT, hdrs.ACCEPT_ENCODING),
        ) as session:
            yield session

    async def _post(self, session: aiohttp.ClientSession, batch: _Batch) -> Response:
        try:
            try:
                return await self._post_once(session, batch)
            except (aiohttp.ServerDisconnectedError, ConnectionResetError):
                # A kept connection that the other side closed meanwhile: not worth a word.
                return await self._post_once(session, batch)
        except aiohttp.ClientSSLError as error:
            return Retry(_tls_reason(error), needs_attention=True)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return Retry(_network_reason(error))

    async def _post_once(self, session: aiohttp.ClientSession, batch: _Batch) -> Response:
        url = self._settings.url.rstrip("/") + "/v1/reports"
        began = self._monotonic()
        # Nowhere else than where the token belongs.
        async with session.post(
            url, data=batch.body, headers=batch.headers, allow_redirects=False
        ) as response:
            body_text = await response.read()
            took_seconds, answered_at = self._monotonic() - began, self._wall()
        answer = parse_response(response.status, response.headers, body_text, answered_at)
        if isinstance(answer, Accepted):
            self._clock.update(answer.receipt.server_time, answered_at, took_seconds)
        return answer

    # --- What a person hears ----------------------------------------------------------------

    def _log_accepted(self) -> None:
        if self._failure is not None:
            log.info("the collector at %s takes reports again; %d wait", self._settings.url, len(self))
        self._failure = self._rejection = None

    def _log_failure(self, later: Retry) -> None:
        if self._failure is None or self._failure.needs_attention != later.needs_attention:
            log.warning(
                "the collector at %s takes no reports: %s; they are kept, and tried again",
                self._settings.url,
                later.why,
            )
        self._failure = later

    def _log_rejection(self, why: str) -> None:
        if self._rejection is None:
            log.error("the collector refused a report for good, which is dropped: %s", why)
        self._rejection = why


def _tls_reason(error: aiohttp.ClientSSLError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        why = getattr(cause, "verify_message", "") or str(cause)
        return f"its certificate is not to be trusted ({why}): check collector.url and collector.ca_file"
    reason = getattr(error.os_error, "reason", None) or str(error)
    return f"no TLS with it ({reason}): check collector.url"


def _network_reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        number = cause.errno or 0
        # asyncio puts the address where the reason should be; for a name that is not found it is the reason.
        return (os.strerror(number) if number > 0 else cause.strerror or str(error)).lower()
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
