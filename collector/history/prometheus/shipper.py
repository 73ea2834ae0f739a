"""The way from the outbox to the store: in order, in large requests, again and again until they are taken."""

import asyncio
import random
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from collector.common.outages import Dependency, Outages, log
from collector.history.interface import HistoryUnavailable
from collector.history.prometheus.client import Client, StoreRejected
from collector.history.prometheus.encoding import pack, unpack
from collector.history.prometheus.outbox import Entry, Outbox
from collector.history.sqlite.connection import reason

Result = TypeVar("Result")

_REQUEST_BYTES: Final = 1 << 20
"""Of packed requests that are joined into one."""
_PAUSE_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
_SPREAD: Final = 0.25


class Shipper:
    """Takes what is put into the outbox to the store."""

    def __init__(
        self, outbox: Outbox, client: Client, write_url: str, disk: ThreadPoolExecutor, troubles: Outages
    ) -> None:
        self._outbox = outbox
        self._client = client
        self._write_url = write_url
        self._disk = disk
        self._troubles = troubles
        self._something = asyncio.Event()
        self._failures = 0
        self._at_most_bytes = _REQUEST_BYTES
        self._refusing = False

    def wake(self) -> None:
        """There is something in the outbox."""
        self._something.set()

    async def run(self) -> None:
        """Ship for ever."""
        while True:
            self._something.clear()
            if not await self.ship():
                pause = _PAUSE_SECONDS[min(self._failures, len(_PAUSE_SECONDS)) - 1]
                await asyncio.sleep(pause * random.uniform(1 - _SPREAD, 1 + _SPREAD))  # noqa: S311 - no secret
            elif not len(self._outbox):
                await self._something.wait()

    async def ship(self) -> bool:
        """Ship until nothing is left, or the store takes nothing; says which."""
        try:
            while entries := await self._on_disk(partial(self._outbox.first, self._at_most_bytes)):
                await self._ship(entries)
                self._failures = 0
                self._troubles.end(
                    Dependency.STORE,
                    f"the store at {self._client.url} takes samples again; "
                    f"{self._outbox.waiting_reports} reports wait",
                )
        except HistoryUnavailable as error:
            self._failures += 1
            self._troubles.begin(
                Dependency.STORE,
                f"the store at {self._client.url} takes no samples: {error}; they are kept, and tried again",
            )
            return False
        return True

    async def _ship(self, entries: Sequence[Entry]) -> None:
        try:
            await self._client.write(await self._on_disk(partial(_joined, entries)), self._write_url)
        except StoreRejected as error:
            await self._refused(entries, error)
        else:
            await self._on_disk(partial(self._outbox.remove, entries))
            self._at_most_bytes = _REQUEST_BYTES
            self._refusing = False

    async def _refused(self, entries: Sequence[Entry], error: StoreRejected) -> None:
        """Drop what the store will never take. One bad request must not take good ones with it."""
        if len(entries) > 1:
            self._at_most_bytes = 1
            return
        await self._on_disk(partial(self._outbox.remove, entries, dropped=True))
        if not self._refusing:
            log.error(
                "the store at %s refused samples for good, which are dropped: %s", self._client.url, error
            )
        self._refusing = True

    async def _on_disk(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._disk, work)
        except sqlite3.Error as error:
            raise HistoryUnavailable(f"the outbox cannot be used: {reason(error)}") from error


def _joined(entries: Sequence[Entry]) -> bytes:
    """Many requests as one: they add up by being written one after the other."""
    if len(entries) == 1:
        return entries[0].body
    return pack(b"".join(unpack(entry.body) for entry in entries))
