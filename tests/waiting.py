"""Waiting in a test for a state that offers no event."""

import asyncio
from collections.abc import Callable


async def until(check: Callable[[], object], timeout_seconds: float = 10.0) -> None:
    """Let other tasks run until `check` is true; raises TimeoutError if it never is."""
    async with asyncio.timeout(timeout_seconds):
        while not check():  # noqa: ASYNC110 - there is no event for this state
            await asyncio.sleep(0.005)
