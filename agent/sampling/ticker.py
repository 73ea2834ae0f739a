"""Keeping time: a tick every period, without drift and without piling up."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tick:
    """One beat, and how many beats before it were missed because the work took too long."""

    number: int
    missed: int


async def ticks(
    period_seconds: float,
    monotonic: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[Tick]:
    """Beat at `start + n * period`; a beat whose time has passed is counted as missed, never made up for."""
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
