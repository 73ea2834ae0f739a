"""The driver `none`: plans are recorded and not carried out."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

from collector.common.orchestrator import OrchestratorState
from collector.common.text import counted
from collector.config import DriverConfig
from collector.drivers.interface import ActionResult, Driver, DriverError, Hold
from collector.policies.actions import Action, describe


class DryRun:
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

    async def hold_back(self, tasks: Collection[str]) -> tuple[str, ...]:  # noqa: ARG002 - nothing starts
        return ()

    async def hold(self, replicas: Mapping[str, int]) -> Hold:
        raise DriverError(f"{counted(sum(replicas.values()), 'replica')} not deployed: driver.name is none")

    async def release(self, *, keep_parked: bool = False) -> tuple[str, ...]:  # noqa: ARG002 - nothing is parked
        return ()


@asynccontextmanager
async def open_none(_settings: DriverConfig) -> AsyncIterator[Driver]:
    """Open the driver `none`."""
    yield DryRun()
