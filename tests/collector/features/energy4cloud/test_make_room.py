"""Room for a strict container on nodes that lax ones fill, and how long it is kept."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from collector.act.drivers.interface import ActionResult
from collector.act.loop import ControlLoop
from collector.act.planner import room_seconds
from collector.act.records import DecisionOutcome, StepState
from collector.common.orchestrator import NodeView, OrchestratorState, ServiceView, TaskView
from collector.config import ControlConfig
from collector.decide.policies.actions import Action, Cut, affected_nodes
from collector.decide.question import PlacementQuestion
from collector.features.elastic.placement import ReplicaPlacement, place_replicas
from tests.collector.act.builders import NODES, FakeDriver, Stage, actor_of, staged
from tests.collector.builders import HEARTBEAT, START, container, state
from wire.resources import Quantities

_PROMISED = Quantities(3.0, 2_000_000_000)
_LOOK_SECONDS = 5.0
_ROOM_SECONDS = ControlConfig.reservation_seconds
STRICT = PlacementQuestion(service="strict", reserve=Quantities(2.0, 1_000_000_000), task_class=1)


class Lax:
    """A container on each node of four cores: of class 4, with a limit to cut, or of another class."""

    def __init__(self, stage: Stage, task_class: int = 4, used_cores: float = 0.3) -> None:
        self._stage, self._class, self._used_cores = stage, task_class, used_cores
        self.limits = dict.fromkeys(NODES, _PROMISED)

    def send_reports(self) -> None:
        for node in NODES:
            lax = container(
                f"lax-{node}",
                service=f"lax-{node}",
                limit=self.limits[node],
                used=Quantities(0.2, 50_000_000),
                labels={"wattpack.class": str(self._class)},
                started_at=START - 10_000,
            )
            used = Quantities(self._used_cores, 10**9)
            self._stage.send_report(node, state=state(used=used), containers=(lax,), heartbeat=HEARTBEAT)

    @staticmethod
    def view(uncut: str | None = None) -> OrchestratorState:
        names = [f"lax-{node}" for node in NODES]
        return OrchestratorState(
            nodes=tuple(NodeView(name=node) for node in NODES),
            services=tuple(ServiceView(name=name, reserve=_PROMISED, uncut=uncut) for name in names),
            tasks=tuple(
                TaskView(container=f"id-of-{name}", service=name, node=node, state="running")
                for name, node in zip(names, NODES, strict=True)
            ),
        )


class Cutter(FakeDriver):
    """Carries out cuts, so that the nodes report them."""

    def __init__(self, lax: Lax) -> None:
        super().__init__(view_now=lax.view())
        self._lax = lax

    async def carry_out(self, action: Action) -> ActionResult:
        assert isinstance(action, Cut)
        self._lax.limits[action.node] = action.allocated
        self._lax.send_reports()
        return await super().carry_out(action)


class Scene:
    """The loop with a policy that gives back what was cut as soon as it may."""

    def __init__(self, stage: Stage, lax: Lax, loop: ControlLoop) -> None:
        self._stage, self.lax, self.loop = stage, lax, loop

    def is_cut(self) -> bool:
        return any(limit != _PROMISED for limit in self.lax.limits.values())

    @property
    def kept(self) -> list[str]:
        ledger = self._stage.core.reservations
        return [each.sent.node for each in ledger.placements(self._stage.clock.now)]

    async def pass_by(self, seconds: float) -> None:
        until = self._stage.clock.now + seconds
        while self._stage.clock.now < until:
            self._stage.clock.now += _LOOK_SECONDS
            self.lax.send_reports()
            await self.loop.run_once()


LAX = PlacementQuestion(service="lax", reserve=Quantities(2.0, 1_000_000_000), task_class=4)
"""Beside a container of class 1, it fits only cut by a half."""


async def test_a_container_that_fits_only_if_it_is_cut_itself_is_reserved_as_cut(tmp_path: Path) -> None:
    async with staged(tmp_path, policy="") as stage:
        strict = Lax(stage, task_class=1)
        strict.send_reports()
        loop = ControlLoop(stage.core, await actor_of(stage, Cutter(strict)))
        decision, node = await loop.make_room(msgspec.structs.replace(LAX, reserve_seconds=60.0))
        assert decision.gets == Quantities(1.0, 500_000_000)
        [kept] = stage.core.reservations.placements(stage.clock.now)
        assert (kept.sent.node, kept.sent.allocated[:2]) == (node, (1.0, 500_000_000))
        taken = await stage.core.snapshot()
        row = taken.nodes.index[node or ""]
        assert taken.nodes.allocated[row, 0] == taken.nodes.capacity[row, 0]


async def test_nothing_is_cut_whose_reservation_the_orchestrator_keeps(tmp_path: Path) -> None:
    """The new container would wait for room all the same."""
    async with staged(tmp_path, policy="") as stage:
        lax = Lax(stage)
        lax.send_reports()
        driver = Cutter(lax)
        driver.view_now = lax.view(uncut="Swarm keeps its reservation")
        loop = ControlLoop(stage.core, await actor_of(stage, driver))
        decision, node = await loop.make_room(STRICT)
        assert (decision.steps, node) == ((), None)
        assert decision.left == ("the container fits on no node, even after cuts, moves and stops",)


async def test_room_is_not_made_where_a_node_would_be_short_too_often(tmp_path: Path) -> None:
    """Admission refuses what a policy would accept that considers envelopes only."""
    async with staged(tmp_path, policy="") as stage:
        full = Lax(stage, used_cores=3.99)
        full.send_reports()
        loop = ControlLoop(stage.core, await actor_of(stage, Cutter(full)))
        question = PlacementQuestion(service="new", reserve=Quantities(0.5), policy="genpack")
        decision, node = await loop.make_room(question)
        assert node is None
        assert decision.left == ("the container fits on no node, even after cuts, moves and stops",)


async def test_new_replicas_of_an_elastic_service_are_not_placed_where_they_would_be_cut(
    tmp_path: Path,
) -> None:
    async def placed(lax: Lax, policy: str) -> ReplicaPlacement:
        lax.send_reports()
        actor = await actor_of(stage, Cutter(lax))
        placement = msgspec.structs.replace(stage.core.config.placement, policy=policy)
        core = replace(stage.core, config=msgspec.structs.replace(stage.core.config, placement=placement))
        actor.situation.core = core
        service = ServiceView(name="lax", reserve=LAX.reserve, labels={"wattpack.class": "4"})
        return await place_replicas(actor.situation, service, 1)

    async with staged(tmp_path, policy="") as stage:
        cut = await placed(Lax(stage, task_class=1), "energy4cloud")
        assert cut.nodes == ()
        assert cut.left_to_orchestrator is not None
        assert stage.core.reservations.placements(stage.clock.now) == []


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    settings = {"policy": "", "timer_policy": "energy4cloud", "timer_seconds": _LOOK_SECONDS}
    async with staged(tmp_path, **settings) as stage:
        lax = Lax(stage)
        lax.send_reports()
        yield Scene(stage, lax, ControlLoop(stage.core, await actor_of(stage, Cutter(lax))))


async def test_room_that_was_made_is_reserved_by_default_until_it_expires(
    scene: Scene,
) -> None:
    decision, _ = await scene.loop.make_room(STRICT)
    assert decision.outcome is DecisionOutcome.DONE
    assert [(step.action.kind, step.state) for step in decision.steps] == [("cut", StepState.VERIFIED)]
    assert scene.kept == list(affected_nodes(decision.steps[0].action))
    await scene.pass_by(_ROOM_SECONDS - 2 * _LOOK_SECONDS)
    assert scene.is_cut(), "the timer policy does not give back reserved room"
    await scene.pass_by(4 * _LOOK_SECONDS)
    assert not scene.is_cut()
    assert scene.kept == []


async def test_room_is_reserved_for_the_requested_time(scene: Scene) -> None:
    asked = PlacementQuestion(
        service="strict", reserve=STRICT.reserve, task_class=1, reserve_seconds=4 * _LOOK_SECONDS
    )
    await scene.loop.make_room(asked)
    await scene.pass_by(2 * _LOOK_SECONDS)
    assert scene.is_cut()
    await scene.pass_by(4 * _LOOK_SECONDS)
    assert not scene.is_cut()


async def test_existing_room_is_reserved_only_on_request(scene: Scene) -> None:
    small = Quantities(0.5, 100_000_000)
    decision, _ = await scene.loop.make_room(PlacementQuestion(service="small", reserve=small, task_class=4))
    assert (decision.outcome, decision.steps) == (DecisionOutcome.NOTHING, ())
    assert scene.kept == []
    await scene.loop.make_room(
        PlacementQuestion(service="small", reserve=small, task_class=4, reserve_seconds=60)
    )
    assert len(scene.kept) == 1


async def test_if_a_container_fits_nowhere_nothing_is_cut_or_reserved(scene: Scene) -> None:
    huge = PlacementQuestion(service="huge", reserve=Quantities(40.0), task_class=1, reserve_seconds=60)
    decision, _ = await scene.loop.make_room(huge)
    assert decision.left == ("the container fits on no node, even after cuts, moves and stops",)
    assert not scene.is_cut()
    assert scene.kept == []


@pytest.mark.parametrize(
    "outcome", [DecisionOutcome.DRY, DecisionOutcome.REFUSED, DecisionOutcome.FAILED, DecisionOutcome.PARTLY]
)
def test_room_that_was_not_made_is_not_reserved(outcome: DecisionOutcome) -> None:
    asked = PlacementQuestion(reserve_seconds=60)
    assert room_seconds(asked, outcome, reservation_seconds=600) == 0.0
