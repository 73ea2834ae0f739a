"""Send the outbox to the store: in order, in large requests, with retries until they are accepted."""

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from collector.common.outages import Dependency, Outages, log
from collector.features.prometheus.encoding import compress, decompress
from collector.features.prometheus.outbox import Entry, Outbox
from collector.history.interface import HistoryUnavailable
from collector.history.promql import Client, StoreRejected
from collector.history.sqlite.files.connection import DiskThread

_REQUEST_BYTES: Final = 1 << 20
"""Maximum total size of compressed requests that are joined into one."""
_RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
_JITTER: Final = 0.25


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
        """Signal a new entry in the outbox."""
        self._added.set()

    async def run(self) -> None:
        """Send forever."""
        while True:
            self._added.clear()
            if not await self.send():
                pause = _RETRY_SECONDS[min(self._failures, len(_RETRY_SECONDS)) - 1]
                await asyncio.sleep(pause * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311 - no secret
            elif not len(self._outbox):
                await self._added.wait()

    async def send(self) -> bool:
        """Send until the outbox is empty, or the store fails; returns False if it failed."""
        try:
            while entries := await self._disk.run(self._outbox.first, self._max_bytes):
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
