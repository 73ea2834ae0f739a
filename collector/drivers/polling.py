"""Waiting for the effect of a change, and undoing it otherwise: orchestrators have no events for that."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from collector.drivers.interface import DriverError

_POLL_SECONDS = 0.25

Result = TypeVar("Result")


class NotYet(Exception):  # noqa: N818 - not an error
    """Why the awaited state is not reached yet."""


async def wait_for(check: Callable[[], Awaitable[Result]], seconds: float) -> Result:
    """Poll until `check` returns a result instead of raising `NotYet`; return it.

    Raise `DriverError` with the last reason when the time is over. Other errors of `check` end the wait.
    """
    why = "no response"
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await check()
                except NotYet as reason:
                    why = str(reason)
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise DriverError(f"{why}, after {seconds:g} s") from None


@asynccontextmanager
async def undone_on_failure(failure: str, undo: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Undo a change if the block fails, and raise `DriverError` with what failed and why."""
    try:
        yield
    except DriverError as error:
        await undo()
        raise DriverError(f"{failure}: {error}") from error
