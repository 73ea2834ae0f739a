import pytest

from collector.act.drivers.interface import ActionResult
from collector.act.drivers.table import open_driver
from collector.common.orchestrator import OrchestratorState
from collector.config import DriverConfig
from collector.decide.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Start
from wire.resources import Quantities

WHY = ("because",)
ID = "0123456789abcdef"


@pytest.mark.parametrize(
    ("action", "description"),
    [
        (Move(task=ID, node="a", target="b", reasons=WHY), "would move 0123456789ab from a to b"),
        (
            Cut(task=ID, node="a", allocated=Quantities(0.5, 64_000_000), reasons=WHY),
            "would limit 0123456789ab on a to 0.5 cores and 64 MB",
        ),
        (
            Kill(task=ID, node="a", target="b", reasons=WHY),
            "would stop 0123456789ab on a and start it on b",
        ),
        (
            Kill(task=ID, node="a", target=None, reasons=WHY),
            "would stop 0123456789ab on a until there is room",
        ),
        (Start(task=ID, target="b", reasons=WHY), "would start 0123456789ab on b"),
        (PowerOff(node="a", reasons=WHY), "would switch a off"),
        (PowerOn(node="a", reasons=WHY), "would switch a on"),
    ],
)
async def test_dry_run_describes_the_action(action: Action, description: str) -> None:
    async with open_driver(DriverConfig()) as driver:
        assert driver.dry
        done = await driver.carry_out(action)
        assert done == ActionResult(what=description)
        await driver.undo(action, done)
        assert await driver.view() == OrchestratorState()
        assert await driver.release() == ()
