"""Bringing reports to the collector: in order, in batches, patiently, and never without bound."""

import asyncio
import gzip
import logging
import random
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from itertools import islice

import aiohttp
import msgspec

from agent.config import Collector
from wire.messages import MAX_BATCH, Report, encode, parse_receipt
from wire.version import __version__

log = logging.getLogger(__name__)

_BATCH = min(20, MAX_BATCH)
_COMPRESS_ABOVE_BYTES = 1400
_BACKOFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
_LONGEST_WAIT_SECONDS = 300.0
# The collector may take these later; any other refusal is about the reports themselves.
_TRY_AGAIN = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}


class _Later(Exception):  # noqa: N818 - a signal to wait, not an error
    """The collector did not take the batch now."""

    def __init__(self, why: str, wait_seconds: float | None = None) -> None:
        super().__init__(why)
        self.wait_seconds = wait_seconds


class Outbox:
    """A bounded queue of reports, and the loop that empties it."""

    def __init__(self, settings: Collector) -> None:
        self._settings = settings
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._filled = asyncio.Event()
        self._reachable: bool | None = None
        self._suspects = 0
        self.delivered = 0
        self.dropped = 0
        """Reports given up: the queue was full, or the collector refused them for good."""

    def __len__(self) -> int:
        return len(self._queue)

    def offer(self, report: Report) -> None:
        """Queue a report, already encoded; when there is no more room the oldest go, and are counted."""
        encoded = encode(report)
        while self._queue and self._queued_bytes + len(encoded) > self._settings.queue_bytes:
            self._take_first()
            self.dropped += 1
        self._queue.append(encoded)
        self._queued_bytes += len(encoded)
        self._filled.set()

    async def run(self) -> None:
        failures = 0
        async with self._session() as session:
            while True:
                await self._filled.wait()
                try:
                    await self._send_batch(session)
                    failures = 0
                except _Later as later:
                    self._say_unreachable(str(later))
                    backoff = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)]
                    # Jitter, so that a whole cluster does not come back in the same instant.
                    wait = backoff * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
                    failures += 1
                    await asyncio.sleep(max(wait, later.wait_seconds or 0.0))

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout_seconds)
        headers = {"Content-Type": "application/json", "User-Agent": f"wattpack-agent/{__version__}"}
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
            yield session

    async def _send_batch(self, session: aiohttp.ClientSession) -> None:
        batch = list(islice(self._queue, 1 if self._suspects else _BATCH))
        refusal = await self._post(session, b"[" + b",".join(batch) + b"]")
        if refusal is not None and len(batch) > 1:
            # One bad report must not take good ones with it: find it, one by one.
            self._suspects = len(batch)
            return
        self._suspects = max(0, self._suspects - 1)
        if refusal is None:
            self.delivered += len(batch)
            self._say_reachable()
        else:
            self.dropped += len(batch)
            log.error("the collector refused a report for good: %s", refusal)
        # Some of the batch may have been dropped for lack of room while it was on its way.
        while self._queue and any(self._queue[0] is sent for sent in batch):
            self._take_first()
        if not self._queue:
            self._filled.clear()

    def _take_first(self) -> None:
        self._queued_bytes -= len(self._queue.popleft())

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> str | None:
        """None when the batch was taken; the reason when it never will be; raises `_Later` otherwise."""
        headers = {}
        if len(body) > _COMPRESS_ABOVE_BYTES:
            body, headers = gzip.compress(body, compresslevel=1, mtime=0), {"Content-Encoding": "gzip"}
        url = self._settings.url.rstrip("/") + "/v1/reports"
        try:
            async with session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                said = await answer.read()
                status = answer.status
                retry_after = answer.headers.get("Retry-After", "")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _Later(str(error) or type(error).__name__) from error
        if status == HTTPStatus.OK:
            try:
                parse_receipt(said)
            except msgspec.DecodeError as error:
                raise _Later(f"it answered something that is not a receipt ({error})") from error
            return None
        summary = f"{status} {said[:300].decode(errors='replace')}"
        if (
            status in _TRY_AGAIN
            or status >= HTTPStatus.INTERNAL_SERVER_ERROR
            or status < HTTPStatus.BAD_REQUEST
        ):
            wait = min(float(retry_after), _LONGEST_WAIT_SECONDS) if retry_after.isdigit() else None
            raise _Later(summary, wait)
        return summary

    def _say_reachable(self) -> None:
        if self._reachable is False:
            log.info("the collector at %s takes reports again", self._settings.url)
        self._reachable = True

    def _say_unreachable(self, why: str) -> None:
        if self._reachable is not False:
            log.warning(
                "the collector at %s takes no reports (%s): keeping them and trying again",
                self._settings.url,
                why,
            )
        self._reachable = False
