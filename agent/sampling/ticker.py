"""Ticks at a fixed period, without drift; missed ticks do not accumulate."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable


async def ticks(
    period_seconds: float,
    monotonic: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[int]:
    """Yield at `start + n * period` how many ticks were missed because the work before took too long."""
    start = monotonic()
    number = 0
    missed = 0
    while True:
        yield missed
        elapsed = monotonic() - start
        due = max(number + 1, int(elapsed / period_seconds) + 1)
        missed = due - number - 1
        number = due
        await sleep(max(0.0, start + number * period_seconds - monotonic()))
