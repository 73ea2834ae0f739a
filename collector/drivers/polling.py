"""Waiting for an orchestrator that tells of no change by itself."""

import asyncio
from collections.abc import Awaitable, Callable

LOOK_SECONDS = 0.25


async def until(check: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Look again and again until `check` holds; a TimeoutError when it does not in time."""
    async with asyncio.timeout(seconds):
        while not await check():  # noqa: ASYNC110 - said above
            await asyncio.sleep(LOOK_SECONDS)
