"""The table of drivers: `none`, which carries out nothing, and those that features add."""

from contextlib import nullcontext

from collector.act.drivers.interface import ActionResult, Driver, Opening
from collector.common.extensions import features_with, load
from collector.common.orchestrator import OrchestratorState
from collector.config import DriverConfig
from collector.decide.policies.actions import Action, describe
from wire.errors import UserError


class DryRun(Driver):
    """The driver `none`: it describes actions, and carries out none."""

    name = "none"
    dry = True
    has_queue = False

    async def view(self) -> OrchestratorState:
        return OrchestratorState()

    async def carry_out(self, action: Action) -> ActionResult:
        return ActionResult(what=f"would {describe(action)}")

    async def undo(self, action: Action, done: ActionResult) -> None:
        """Do nothing."""


def drivers() -> tuple[str, ...]:
    """The names of all drivers. A driver has the name of its feature."""
    return ("none", *features_with("driver"))


def open_driver(settings: DriverConfig) -> Opening:
    """Return the configured driver, which is imported here, so that a collector imports only one.

    Raise `UserError` if there is no such driver; opening it does if its settings are invalid. An orchestrator
    that does not answer raises `DriverError` when the driver is used.
    """
    if settings.name == "none":
        return nullcontext(DryRun())
    if settings.name not in drivers():
        known = ", ".join(drivers())
        raise UserError(f"driver.name: there is no driver {settings.name!r}: choose one of {known}")
    opened: Opening = load(settings.name, "driver").open_driver(settings)
    return opened
