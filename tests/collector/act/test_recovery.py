"""What becomes of a decision whose collector was killed, by the state that each of its steps was left in."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from collector.act.drivers.interface import ActionResult, DriverError
from collector.act.journal import open_journal
from collector.act.lease import Lease, LeaseLostError
from collector.act.loop import Actor
from collector.act.planner import Decider
from collector.act.records import Decision, DecisionOutcome, Step, StepState, Trigger
from collector.decide.policies.actions import Action, Move
from collector.decide.policies.interface import Plan
from tests.collector.act.builders import (
    CHOSEN,
    HOG,
    STEADY,
    FakeDriver,
    Stage,
    actor_of,
    hog_id,
    staged,
    view,
)

MOVED = ActionResult(what="moved", before=b"as it was", containers=(hog_id(1),))
MOVE = Move(task=hog_id(), node="alpha", target="gamma", reasons=())


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        made.begin()
        yield made


async def left(stage: Stage, driver: FakeDriver, action: Action, **step: Any) -> str:
    """A decision of one step, left so by a collector that is gone; gives its name."""
    actor = await actor_of(stage, driver)
    snapshot = await actor.situation.snapshot()
    decision = await actor.planner.record(
        Trigger.ALERT, Decider.of(CHOSEN), snapshot, Plan(actions=(action,))
    )
    assert decision is not None
    if step:
        await actor.executor.change(decision.id, 0, before=b"as it was", started_at=stage.clock.now, **step)
    return decision.id


async def taken_up(stage: Stage, driver: FakeDriver, name: str) -> tuple[Actor, Decision, Step]:
    """The same after another one, started on the same record, has made out what became of it."""
    actor = await actor_of(stage, driver)
    await actor.executor.recover()
    decision = actor.situation.journal.require(name)
    assert decision.ended_at is not None
    (step,) = decision.steps
    return actor, decision, step


async def test_a_step_that_was_not_started_is_dropped(stage: Stage) -> None:
    driver = FakeDriver(view_now=view())
    _, decision, step = await taken_up(stage, driver, await left(stage, driver, MOVE))
    assert (step.state, step.why) == (StepState.DROPPED, "the collector was stopped before the step started")
    assert decision.outcome is DecisionOutcome.REFUSED
    assert driver.orders == []


async def test_a_done_step_is_verified_and_not_repeated(stage: Stage) -> None:
    driver = FakeDriver(view_now=view())
    name = await left(stage, driver, MOVE, state=StepState.DONE)
    stage.report_move(MOVE)
    _, decision, step = await taken_up(stage, driver, name)
    assert (decision.outcome, step.containers) == (DecisionOutcome.DONE, (hog_id(1),))
    assert driver.orders == []


async def test_a_done_step_without_effect_is_undone(stage: Stage) -> None:
    driver = FakeDriver(view_now=view())
    name = await left(stage, driver, MOVE, state=StepState.DONE)
    _, decision, step = await taken_up(stage, driver, name)
    assert (decision.outcome, step.state) == (DecisionOutcome.FAILED, StepState.UNDONE)
    assert driver.undone == [MOVE]


async def test_an_interrupted_undo_is_repeated(stage: Stage) -> None:
    driver = FakeDriver(view_now=view())
    name = await left(stage, driver, MOVE, state=StepState.UNDOING, why="no agent showed it")
    _, _, step = await taken_up(stage, driver, name)
    assert (step.state, step.why) == (StepState.UNDONE, "no agent showed it")
    assert driver.undone == [MOVE]


async def test_an_interrupted_step_that_the_driver_completes_is_verified(stage: Stage) -> None:
    driver = FakeDriver(view_now=view(), recovery=MOVED)
    name = await left(stage, driver, MOVE, state=StepState.STARTED)
    stage.report_move(MOVE)
    _, decision, step = await taken_up(stage, driver, name)
    assert (decision.outcome, step.containers) == (DecisionOutcome.DONE, (hog_id(1),))
    assert step.what == "moved (the collector was stopped during the step; completed)"
    assert not step.is_timed, "who knows how long the collector was away"
    assert (driver.recovered, driver.orders, driver.undone) == ([MOVE], [], [])


@pytest.mark.parametrize(
    ("state", "outcome"),
    [(StepState.STARTED, DecisionOutcome.DONE), (StepState.UNDOING, DecisionOutcome.FAILED)],
)
async def test_a_collector_that_lost_the_lease_recovers_nothing_until_it_has_it_again(
    stage: Stage, tmp_path: Path, state: StepState, outcome: DecisionOutcome
) -> None:
    """It may have been suspended meanwhile: the other one acts now."""
    driver = FakeDriver(view_now=view(), recovery=MOVED)
    name = await left(stage, driver, MOVE, state=state)
    stage.report_move(MOVE)
    mine, other = (
        Lease(tmp_path / "lease.db", holder, 30.0, clock=stage.clock, monotonic=stage.clock)
        for holder in ("this one", "the other")
    )
    actor = await actor_of(stage, driver, mine)
    stage.clock.now += 31
    with pytest.raises(LeaseLostError, match="has expired"):
        await actor.executor.recover()
    await other.take()
    stage.clock.now += 31
    assert (await other.take()).mine
    await actor.situation.renew_lease()
    with pytest.raises(LeaseLostError, match="the other"):
        await actor.executor.recover()
    assert driver.recovered == driver.undone == []
    await other.give_back()
    await actor.situation.renew_lease()
    await actor.executor.recover()
    assert actor.situation.journal.require(name).outcome is outcome


async def test_an_interrupted_step_that_the_driver_undoes_has_failed(stage: Stage) -> None:
    driver = FakeDriver(view_now=view())
    _, decision, step = await taken_up(
        stage, driver, await left(stage, driver, MOVE, state=StepState.STARTED)
    )
    assert (decision.outcome, step.state) == (DecisionOutcome.FAILED, StepState.FAILED)
    assert (step.why or "").endswith("it was not carried out, or was undone: nothing of it is left")
    assert (driver.recovered, driver.orders, driver.undone) == ([MOVE], [], [])


async def test_a_step_that_can_be_neither_completed_nor_undone_is_unclear(stage: Stage) -> None:
    driver = FakeDriver(view_now=view(), recovery=DriverError("the engine is away"))
    name = await left(stage, driver, MOVE, state=StepState.STARTED)
    _, decision, step = await taken_up(stage, driver, name)
    assert (decision.outcome, step.state) == (DecisionOutcome.FAILED, StepState.UNCLEAR)
    assert (step.why or "").endswith("after 3 s it was neither complete nor undone: the engine is away")
    assert driver.orders == []


@pytest.mark.parametrize(
    ("recovery", "state"),
    [
        (MOVED, StepState.VERIFIED),
        (None, StepState.FAILED),
        (DriverError("the engine is away"), StepState.UNCLEAR),
    ],
    ids=["completed", "undone", "neither"],
)
async def test_a_failure_that_leaves_something_behind_is_recovered_at_once(
    stage: Stage, recovery: ActionResult | DriverError | None, state: StepState
) -> None:
    """No collector has to be killed for this: an engine may stop answering in the middle of a move."""
    driver = FakeDriver(view_now=view(), fails="its copy stays", is_half_done=True, recovery=recovery)
    actor = await actor_of(stage, driver)
    stage.report_move(MOVE)
    stage.send_heartbeat("alpha", HOG, STEADY)
    decision = await actor.planner.record(
        Trigger.ALERT, Decider.of(CHOSEN), await actor.situation.snapshot(), Plan(actions=(MOVE,))
    )
    assert decision is not None
    stage.clock.now += 1
    carrying_out = asyncio.create_task(actor.executor.carry_out(decision))
    while not driver.recovered:  # noqa: ASYNC110 - the driver is a list, and tells of nothing
        await asyncio.sleep(0)
    stage.report_move(MOVE)
    (step,) = (await carrying_out).steps
    assert (step.state, "its copy stays" in (step.why or step.what or "")) == (state, True)


async def test_ended_decisions_are_not_recovered(stage: Stage) -> None:
    driver = FakeDriver(view_now=view())
    name = await left(stage, driver, MOVE, state=StepState.FAILED, why="the target died")
    actor, before, _ = await taken_up(stage, driver, name)
    stage.clock.now += 60
    await actor.executor.recover()
    assert actor.situation.journal.require(name) == before


async def test_a_damaged_journal_keeps_readable_decisions_and_stays_paused(stage: Stage) -> None:
    await stage.core.history.put_values("decision", {"x": b"\xff", "y": b"\x80"})
    await stage.core.history.put_values("acting", {"pause": b"\xff", "identity": b"\xff"})
    journal = await open_journal(stage.core.history, stage.core.config.control)
    assert list(journal.decisions()) == []
    assert journal.pause is not None
    assert journal.pause.until is None
