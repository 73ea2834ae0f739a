"""Threads for the disk: each connection stays in one, and no disk ever stalls the event loop."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from collector.history.interface import HistoryUnavailable
from collector.history.sqlite.connection import reason

Result = TypeVar("Result")


class DiskThread:
    """A thread that does one thing after another."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def do(self, work: Callable[[], Result]) -> Result:
        """Do some work there; raises `HistoryUnavailable` where the database cannot."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise HistoryUnavailable(reason(error)) from error

    def end(self) -> None:
        self._thread.shutdown()


@contextmanager
def disk_thread(name: str) -> Iterator[DiskThread]:
    """A thread while the block runs."""
    made = DiskThread(name)
    try:
        yield made
    finally:
        made.end()
