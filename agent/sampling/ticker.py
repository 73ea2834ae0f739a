"""Ticks at a fixed period, without drift; missed ticks do not accumulate."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick, and the number of ticks missed before it because the work took too long."""

    number: int
    missed: int


async def ticks(
    period_seconds: float,
    monotonic: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[Tick]:
    """Yield a tick at `start + n * period`; ticks whose time has passed are counted as missed."""
    start = monotonic()
    number = 0
    missed = 0
    while True:
        yield Tick(number, missed)
        elapsed = monotonic() - start
        due = max(number + 1, int(elapsed / period_seconds) + 1)
        missed = due - number - 1
        number = due
        await sleep(max(0.0, start + number * period_seconds - monotonic()))
