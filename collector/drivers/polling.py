"""Polling, for orchestrators without events."""

import asyncio
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.25


async def poll_until(check: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Poll until `check` returns true. Raise `TimeoutError` if it does not in time."""
    async with asyncio.timeout(seconds):
        while not await check():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(POLL_SECONDS)
