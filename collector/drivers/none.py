"""The driver `none`: plans are recorded and not carried out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from collector.common.orchestrator import OrchestratorState
from collector.config import DriverConfig
from collector.drivers.interface import ActionResult, Driver
from collector.policies.actions import Action, describe


class DryRun(Driver):
    """Describes actions, and carries out none."""

    name = "none"
    dry = True
    has_queue = False

    async def view(self) -> OrchestratorState:
        return OrchestratorState()

    async def carry_out(self, action: Action) -> ActionResult:
        return ActionResult(what=f"would {describe(action)}")

    async def undo(self, action: Action, done: ActionResult) -> None:
        """Do nothing."""


@asynccontextmanager
async def open_none(_settings: DriverConfig) -> AsyncIterator[Driver]:
    """Open the driver `none`."""
    yield DryRun()
