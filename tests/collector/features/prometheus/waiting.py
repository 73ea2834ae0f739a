"""Waiting for what happens in a server, which has no event for it."""

import asyncio
from collections.abc import Callable


async def until(true: Callable[[], bool], patience_seconds: float = 30.0) -> None:
    """Look again and again until it is true."""
    async with asyncio.timeout(patience_seconds):
        while not true():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)
