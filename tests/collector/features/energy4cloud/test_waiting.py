"""A container that was stopped to make room waits in sight, and runs again as soon as it fits."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from collector.act.drivers.interface import ActionResult
from collector.act.loop import ControlLoop
from collector.act.records import DecisionOutcome, StepState, Trigger
from collector.common.orchestrator import Mode, NodeView, OrchestratorState, ServiceView, TaskView
from collector.decide.policies.actions import Action, Kill, Start
from collector.decide.question import PlacementQuestion
from collector.serve.api.control import Api, list_waiting
from tests.collector.act.builders import NODES, FakeDriver, Stage, actor_of, staged
from tests.collector.builders import HEARTBEAT, START, container, state
from wattpack.commands.control_room import format_waiting
from wire.resources import Quantities

_PROMISED = Quantities(3.0, 1_000_000_000)
_LOOK_SECONDS = 5.0
_ROOM_SECONDS = 60.0
STRICT = PlacementQuestion(
    service="strict",
    reserve=Quantities(3.0, 1_000_000_000),
    task_class=1,
    settings={"may_wait": True},
    reserve_seconds=_ROOM_SECONDS,
)


class Hosts:
    """Each node of four cores runs a container of class 2 without a service, as on plain Docker."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.places: dict[str, str] = {f"id-of-lax-{node}": node for node in NODES}

    def report(self) -> None:
        for node in NODES:
            there = [name for name, on in self.places.items() if on == node]
            containers = tuple(
                container(
                    name.removeprefix("id-of-"),
                    service=None,
                    limit=_PROMISED,
                    used=Quantities(2.5, 50_000_000),
                    labels={"wattpack.class": "2"},
                    started_at=START - 10_000,
                )
                for name in there
            )
            used = Quantities(0.1 + 2.5 * len(there), 10**9)
            self._stage.send_report(node, state=state(used=used), containers=containers, heartbeat=HEARTBEAT)

    def view(self) -> OrchestratorState:
        return OrchestratorState(
            nodes=tuple(NodeView(name=node) for node in NODES),
            services=tuple(
                ServiceView(name=name, mode=Mode.STANDALONE, reserve=_PROMISED) for name in self.places
            ),
            tasks=tuple(
                TaskView(container=name, service=name, node=node, state="running")
                for name, node in self.places.items()
            ),
        )


class Engines(FakeDriver):
    """Stops and starts containers, as the driver docker does."""

    def __init__(self, hosts: Hosts) -> None:
        super().__init__(view_now=hosts.view(), name="docker")
        self._hosts = hosts

    async def carry_out(self, action: Action) -> ActionResult:
        self.orders.append(action)
        if isinstance(action, Kill):
            assert action.target is None
            del self._hosts.places[action.task]
        elif isinstance(action, Start):
            self._hosts.places[action.task] = action.target
        self.view_now = self._hosts.view()
        self._hosts.report()
        containers = (action.task,) if isinstance(action, Start) else ()
        return ActionResult(what="done", containers=containers)


class Scene:
    def __init__(self, stage: Stage, hosts: Hosts, loop: ControlLoop, driver: Engines) -> None:
        self._stage, self.hosts, self.loop, self.driver = stage, hosts, loop, driver
        self.api = Api.of(stage.core, loop)

    async def waiting(self) -> list[str]:
        return [each.name for each in (await list_waiting(self.api)).waiting]

    async def pass_by(self, seconds: float) -> None:
        until = self._stage.clock.now + seconds
        while self._stage.clock.now < until:
            self._stage.clock.now += _LOOK_SECONDS
            self.hosts.report()
            await self.loop.run_once()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with staged(tmp_path, policy="", timer_policy="") as stage:
        hosts = Hosts(stage)
        hosts.report()
        driver = Engines(hosts)
        loop = ControlLoop(stage.core, await actor_of(stage, driver))
        await loop.run_once()
        yield Scene(stage, hosts, loop, driver)


async def test_a_stopped_container_is_listed_and_starts_as_soon_as_it_fits(scene: Scene) -> None:
    decision, _ = await scene.loop.make_room(STRICT)
    assert decision.outcome is DecisionOutcome.DONE, decision
    [step] = decision.steps
    assert (step.action.kind, step.state, step.task_class) == ("kill", StepState.VERIFIED, 2)
    assert isinstance(step.action, Kill)
    assert await scene.waiting() == [step.action.name]
    # The room is reserved: the container has to wait.
    await scene.pass_by(_ROOM_SECONDS / 2)
    assert [type(each) for each in scene.driver.orders] == [Kill]
    # Nothing came for the room: the container runs again, with what it was promised.
    await scene.pass_by(_ROOM_SECONDS)
    assert [type(each) for each in scene.driver.orders] == [Kill, Start]
    assert scene.hosts.places[step.action.task] == step.action.node
    assert await scene.waiting() == []
    started = scene.loop.actor.situation.journal.decisions()[0]
    assert (started.trigger, started.policy, started.outcome) == (
        Trigger.WAITING,
        "energy4cloud",
        DecisionOutcome.DONE,
    )


async def test_container_that_waits_is_recorded_once_and_survives_a_restart(scene: Scene) -> None:
    await scene.loop.make_room(STRICT)
    await scene.pass_by(_ROOM_SECONDS / 2)
    waits = [
        each.left
        for each in scene.loop.actor.situation.journal.decisions()
        if each.trigger is Trigger.WAITING
    ]
    assert len(waits) == 1
    assert "waits: no node has room" in waits[0][0]
    await scene.loop.actor.situation.journal.load()
    assert len(await scene.waiting()) == 1


async def test_container_that_was_started_by_hand_no_longer_waits(scene: Scene) -> None:
    decision, _ = await scene.loop.make_room(STRICT)
    [step] = decision.steps
    assert isinstance(step.action, Kill)
    scene.hosts.places[step.action.task] = step.action.node
    await scene.pass_by(2 * _ROOM_SECONDS)
    assert [type(each) for each in scene.driver.orders] == [Kill]
    assert await scene.waiting() == []


async def test_list_of_waiting_containers_as_text(scene: Scene) -> None:
    assert list(format_waiting(await list_waiting(scene.api))) == ["No container waits for room."]
    decision, _ = await scene.loop.make_room(STRICT)
    header, line = format_waiting(await list_waiting(scene.api))
    assert header.split() == ["CONTAINER", "SERVICE", "CLASS", "STOPPED", "ON", "SINCE", "DECISION"]
    assert line.startswith("lax-")
    assert line.endswith(decision.id)
