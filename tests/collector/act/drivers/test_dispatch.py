"""Which method of a driver carries out an action, and which one undoes it."""

import pytest

from collector.act.drivers.interface import ActionResult, DriverError, OrchestratorDriver
from collector.common.orchestrator import OrchestratorState
from collector.decide.policies.actions import (
    Action,
    Cut,
    Kill,
    Move,
    PowerOff,
    PowerOn,
    Relocation,
    Resize,
    Scale,
    Start,
)
from wire.resources import Quantities

WHY = ("because",)
MOVE = Move(task="c", node="a", target="b", reasons=WHY)
RESTART = Kill(task="c", node="a", target="b", reasons=WHY)
STOP = Kill(task="c", node="a", target=None, reasons=WHY)
START = Start(task="c", target="b", reasons=WHY)
CUT = Cut(task="c", node="a", allocated=Quantities(1.0), reasons=WHY)
SCALE = Scale(service="web", replicas=2, replicas_before=1, reasons=WHY)
RESIZE = Resize(service="web", cpu_limit_cores=2.0, cpu_limit_cores_before=1.0, reasons=WHY)


class Noting(OrchestratorDriver):
    name = "noting"
    has_queue = False

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def note(self, *call: object) -> ActionResult:
        self.calls.append(call)
        return ActionResult(what="done")

    async def view(self) -> OrchestratorState:
        return OrchestratorState()

    async def move(self, container: str, source: str, target: str) -> ActionResult:
        return self.note("move", container, source, target)

    async def stop(self, container: str, source: str) -> ActionResult:
        return self.note("stop", container, source)

    async def start(self, action: Start) -> ActionResult:
        return self.note("start", action)

    async def take_back(self, action: Relocation, done: ActionResult) -> None:
        self.note("take back", action, done)

    async def cut(self, action: Cut) -> ActionResult:
        return self.note("cut", action)

    async def uncut(self, action: Cut, done: ActionResult) -> None:
        self.note("uncut", action, done)

    async def scale(self, action: Scale) -> ActionResult:
        return self.note("scale", action)

    async def unscale(self, action: Scale) -> None:
        self.note("unscale", action)

    async def resize(self, action: Resize) -> ActionResult:
        return self.note("resize", action)

    async def unresize(self, action: Resize, done: ActionResult) -> None:
        self.note("unresize", action, done)

    async def recover_move(self, action: Move | Kill, target: str, noted: bytes) -> ActionResult | None:
        return self.note("recover move", action, target, noted)

    async def recover_stop(self, action: Kill, noted: bytes) -> ActionResult | None:
        return self.note("recover stop", action, noted)

    async def recover_start(self, action: Start, noted: bytes) -> ActionResult | None:
        return self.note("recover start", action, noted)

    async def recover_resize(self, action: Resize, noted: bytes) -> ActionResult | None:
        return self.note("recover resize", action, noted)


@pytest.mark.parametrize(
    ("action", "call"),
    [
        (MOVE, ("move", "c", "a", "b")),
        (RESTART, ("move", "c", "a", "b")),
        (STOP, ("stop", "c", "a")),
        (START, ("start", START)),
        (CUT, ("cut", CUT)),
        (SCALE, ("scale", SCALE)),
        (RESIZE, ("resize", RESIZE)),
    ],
)
async def test_each_kind_of_action_has_its_method(action: Action, call: tuple[object, ...]) -> None:
    driver = Noting()
    assert (await driver.carry_out(action)).what == "done"
    assert driver.calls == [call]


NOTED = b"{}"


@pytest.mark.parametrize(
    ("action", "call"),
    [
        (MOVE, ("recover move", MOVE, "b", NOTED)),
        (RESTART, ("recover move", RESTART, "b", NOTED)),
        (STOP, ("recover stop", STOP, NOTED)),
        (START, ("recover start", START, NOTED)),
        (RESIZE, ("recover resize", RESIZE, NOTED)),
    ],
)
async def test_each_kind_of_action_is_recovered(action: Action, call: tuple[object, ...]) -> None:
    driver = Noting()
    assert await driver.recover(action, NOTED) is not None
    assert driver.calls == [call]


async def test_a_driver_has_not_done_what_it_cannot_do() -> None:
    for action in (CUT, SCALE, PowerOff(node="a", reasons=WHY)):
        assert await Noting().recover(action, NOTED) is None


CHANGED, UNCHANGED = ActionResult(what="done", before=b"{}"), ActionResult(what="nothing to do")


@pytest.mark.parametrize(
    ("action", "done", "calls"),
    [
        *((each, CHANGED, [("take back", each, CHANGED)]) for each in (MOVE, RESTART, STOP, START)),
        (CUT, CHANGED, [("uncut", CUT, CHANGED)]),
        (CUT, UNCHANGED, []),
        (SCALE, UNCHANGED, [("unscale", SCALE)]),
        (RESIZE, CHANGED, [("unresize", RESIZE, CHANGED)]),
        (PowerOn(node="a", reasons=WHY), UNCHANGED, []),
        (PowerOff(node="a", reasons=WHY), UNCHANGED, []),
    ],
)
async def test_what_changed_nothing_is_not_undone(
    action: Action, done: ActionResult, calls: list[tuple[object, ...]]
) -> None:
    driver = Noting()
    await driver.undo(action, done)
    assert driver.calls == calls


async def test_a_driver_that_cannot_drain_switches_no_node() -> None:
    for action in (PowerOn(node="a", reasons=WHY), PowerOff(node="a", reasons=WHY)):
        with pytest.raises(DriverError, match="a cannot be switched: the driver noting cannot drain hosts"):
            await Noting().carry_out(action)
        with pytest.raises(DriverError, match="a cannot be switched"):
            await Noting().undo(action, CHANGED)
