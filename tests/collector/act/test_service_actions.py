"""A service that is scaled or resized: planned, carried out, verified, undone, recovered after a crash."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from collector.act.drivers.interface import ActionResult
from collector.act.loop import Actor
from collector.act.planner import Decider
from collector.act.records import Decision, DecisionOutcome, Step, StepState, Trigger
from collector.common.orchestrator import OrchestratorState, TaskView
from collector.decide.policies.actions import Action, Resize, Scale, ServiceAction, describe
from collector.decide.policies.interface import Plan
from tests.collector.act.builders import HOG, FakeDriver, Stage, actor_of, hog_id, staged, view
from tests.collector.builders import HEARTBEAT, container, state
from wire.resources import Quantities

SCALE = Scale(service=HOG, replicas=2, replicas_before=1, nodes=("beta",), reasons=("because",))
RESIZE = Resize(service=HOG, cpu_limit_cores=0.5, cpu_limit_cores_before=None, reasons=("because",))
DECIDER = Decider(policy="threshold", settings={}, subject=HOG)


def scaled(replicas: int, *, running: int | None = None) -> OrchestratorState:
    """What the orchestrator lists of the service with so many replicas."""
    before = view()
    tasks = tuple(
        TaskView(container=hog_id(copy), service=HOG, node=("alpha", "beta")[copy], state="running")
        for copy in range(replicas if running is None else running)
    )
    services = tuple(
        replace(each, replicas=replicas) if each.name == HOG else each for each in before.services
    )
    others = tuple(each for each in before.tasks if each.service != HOG)
    return replace(before, services=services, tasks=(*tasks, *others))


def limited(cores: float | None) -> OrchestratorState:
    before = view()
    services = tuple(
        replace(each, limit=Quantities(cores)) if each.name == HOG else each for each in before.services
    )
    return replace(before, services=services)


@dataclass
class ServiceDriver(FakeDriver):
    """Changes services in its own books; agents report what the test lets them report."""

    async def carry_out(self, action: Action) -> ActionResult:
        await super().carry_out(action)
        assert isinstance(action, ServiceAction)
        self.view_now = (
            scaled(action.replicas) if isinstance(action, Scale) else limited(action.cpu_limit_cores)
        )
        there = tuple(each.container for each in self.view_now.tasks if each.service == HOG)
        return ActionResult(what="changed", before=b"as it was", containers=there)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        made.begin()
        yield made


def report(stage: Stage, *copies: int, cores: float | None = None) -> None:
    """Agents report these copies of the service."""
    for node, copy in (("alpha", 0), ("beta", 1)):
        there = (
            (
                container(
                    HOG, id=hog_id(copy), service=HOG, limit=Quantities(cores), used=Quantities(0.1, 1 << 20)
                ),
            )
            if copy in copies
            else ()
        )
        stage.send_report(node, state=state(), containers=there, heartbeat=HEARTBEAT)


async def decide(actor: Actor, action: ServiceAction) -> Decision | None:
    snapshot = await actor.situation.snapshot()
    return await actor.planner.record(Trigger.ELASTIC, DECIDER, snapshot, Plan(actions=(action,)))


async def carried_out(actor: Actor, action: ServiceAction) -> tuple[Decision, Step]:
    decision = await decide(actor, action)
    assert decision is not None
    decision = await actor.executor.carry_out(decision)
    return decision, decision.steps[0]


async def test_a_service_is_scaled_and_agents_confirm_it(stage: Stage) -> None:
    driver = ServiceDriver(view_now=scaled(1))
    actor = await actor_of(stage, driver)
    report(stage, 0, 1)
    decision, step = await carried_out(actor, SCALE)
    assert (decision.outcome, decision.policy, decision.trigger) == (
        DecisionOutcome.DONE,
        "threshold",
        Trigger.ELASTIC,
    )
    assert (step.service, step.there_before) == (HOG, (hog_id(),))
    assert step.containers == (hog_id(), hog_id(1))
    assert driver.orders == [SCALE]


async def test_a_service_that_agents_do_not_show_scaled_is_scaled_back(stage: Stage) -> None:
    driver = ServiceDriver(view_now=scaled(1))
    actor = await actor_of(stage, driver)
    report(stage, 0)
    decision, step = await carried_out(actor, SCALE)
    assert (decision.outcome, step.state) == (DecisionOutcome.FAILED, StepState.UNDONE)
    assert driver.undone == [SCALE]


async def test_a_limit_counts_once_agents_report_it_for_every_replica(stage: Stage) -> None:
    driver = ServiceDriver(view_now=limited(None))
    actor = await actor_of(stage, driver)
    report(stage, 0, cores=0.5)
    decision, step = await carried_out(actor, RESIZE)
    assert (decision.outcome, step.containers) == (DecisionOutcome.DONE, (hog_id(),))


async def test_a_change_that_failed_is_decided_again_and_one_that_is_refused_is_recorded_once(
    stage: Stage,
) -> None:
    driver = ServiceDriver(view_now=scaled(1), fails="no room")
    actor = await actor_of(stage, driver)
    _, step = await carried_out(actor, SCALE)
    assert (step.state, step.why) == (StepState.FAILED, "no room")
    refused, step = await carried_out(actor, SCALE)
    assert (refused.outcome, step.guard) == (DecisionOutcome.REFUSED, "cool_down")
    assert await decide(actor, SCALE) is None
    stage.clock.now += 61
    stage.begin()
    driver.fails = None
    report(stage, 0, 1)
    decision, _ = await carried_out(actor, SCALE)
    assert decision.outcome is DecisionOutcome.DONE


async def test_with_a_dry_run_a_change_is_described_only(stage: Stage) -> None:
    driver = ServiceDriver(view_now=scaled(1), dry=True)
    actor = await actor_of(stage, driver)
    decision = await decide(actor, SCALE)
    assert decision is not None
    assert (await actor.executor.carry_out(decision)).outcome is DecisionOutcome.DRY
    assert driver.orders == []
    assert describe(SCALE) == "scale hog from 1 to 2 replicas, the new ones on beta"
    assert describe(RESIZE) == "limit each replica of hog to 0.5 cores"
