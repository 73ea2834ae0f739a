"""What plain hosts are refused; what is done on them is shown in the lab."""

import pytest

from collector.config import DriverConfig as Settings
from collector.drivers.interface import DriverError, NodeView, OrchestratorState
from collector.drivers.table import open_driver
from collector.policies.actions import Action, Cut, Kill, Move, PowerOff, Start
from wire.errors import UserError
from wire.resources import Quantities

pytest.importorskip("docker", reason="the extra docker is not installed: run ./dev setup")

WHY = ("because",)
AWAY = Settings(name="docker", engines={"a": "unix:///nowhere/docker.sock"})


async def test_a_host_that_does_not_answer_is_not_ready() -> None:
    async with open_driver(AWAY) as driver:
        assert await driver.view() == OrchestratorState(nodes=(NodeView(name="a", ready=False),))
        assert await driver.release() == ()


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (PowerOff(node="a", reasons=WHY), "the driver docker cannot drain hosts"),
        (Move(task="x", node="a", target="b", reasons=WHY), r"add it to \[driver\.engines\]"),
        (Kill(task="x", node="b", target=None, reasons=WHY), r"add it to \[driver\.engines\]"),
        (Kill(task="x", node="a", target=None, reasons=WHY), "no Docker engine answers"),
        (Start(task="x", target="a", reasons=WHY), "no Docker engine answers"),
        (Cut(task="x", node="a", allocated=Quantities(1.0), reasons=WHY), "no Docker engine answers"),
    ],
)
async def test_impossible_action_is_refused_with_a_reason(action: Action, why: str) -> None:
    async with open_driver(AWAY) as driver:
        with pytest.raises(DriverError, match=why):
            await driver.carry_out(action)


async def test_without_any_host_it_does_not_open() -> None:
    with pytest.raises(UserError, match=r"\[driver\.engines\] is empty"):
        async with open_driver(Settings(name="docker")):
            pass


async def test_a_swarm_without_managers_does_not_open_and_cuts_need_an_engine() -> None:
    with pytest.raises(UserError, match=r"driver\.managers is empty"):
        async with open_driver(Settings(name="swarm", managers=" , ")):
            pass
    async with open_driver(Settings(name="swarm", managers="unix:///nowhere/docker.sock")) as driver:
        why = r"the address of the Docker engine of a is unknown: add it to \[driver\.engines\]"
        with pytest.raises(DriverError, match=why):
            await driver.carry_out(Cut(task="x", node="a", allocated=Quantities(1.0), reasons=WHY))
