"""The driver that only pretends: plans are made, shown and kept, and nothing is asked of anybody."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from collector.config import Driver as Settings
from collector.drivers.describe import described
from collector.drivers.interface import Done, Driver, View
from collector.policies.interface import Action


class DryRun:
    """Says what it would do."""

    name = "none"
    dry = True

    async def view(self) -> View:
        return View()

    async def carry_out(self, action: Action) -> Done:
        return Done(what=f"would {described(action)}")

    async def undo(self, action: Action, done: Done) -> None:
        """Nothing was done."""

    async def release(self) -> tuple[str, ...]:
        return ()


@asynccontextmanager
async def open_none(_settings: Settings) -> AsyncIterator[Driver]:
    """It needs nothing."""
    yield DryRun()
