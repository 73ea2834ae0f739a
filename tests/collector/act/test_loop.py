import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

from collector.act import planner
from collector.act.drivers.interface import ActionResult
from collector.act.lease import Lease
from collector.act.loop import Actor, ControlLoop, controlling
from collector.act.planner import Decider
from collector.act.records import Decision, DecisionOutcome, Effect, Pause, Step, StepState, Trigger
from collector.act.steps import planned_step
from collector.act.verdicts.follow_up import follow_up
from collector.act.verification import target_of
from collector.common.errors import WorkerUnavailable
from collector.common.labels import ACT_LABEL, NEVER
from collector.common.orchestrator import Mode
from collector.decide.policies.actions import Move
from collector.decide.policies.interface import Plan
from collector.runtime.worker import Worker
from collector.snapshot.tables import NOWHERE
from tests.collector.act.builders import (
    CHOSEN,
    HOG,
    STEADY,
    FakeDriver,
    FluctuatingLoad,
    Stage,
    actor_of,
    hog_id,
    service_of,
    staged,
    view,
)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        made.begin()
        yield made


async def heal(actor: Actor) -> Decision:
    decision = await actor.planner.answer_alerts(CHOSEN)
    assert decision is not None
    return await actor.executor.carry_out(decision)


async def test_a_bottleneck_is_relieved_and_every_step_is_recorded(stage: Stage) -> None:
    driver = FakeDriver(view_now=view(), on_move=stage.report_move)
    actor = await actor_of(stage, driver)
    decision = await heal(actor)
    assert decision.outcome is DecisionOutcome.DONE
    (order,) = driver.orders
    assert isinstance(order, Move)
    assert (order.task, order.node, order.target) == (hog_id(), "alpha", "gamma")
    (step,) = decision.steps
    assert (step.state, step.service, step.containers) == (StepState.VERIFIED, HOG, (hog_id(1),))
    assert step.what == "done"
    assert decision.before.used_ratios["alpha"] > 0.9
    stage.alert("alpha", closed=True)
    stage.clock.now += 20
    stage.alert("alpha", closed=True)
    await follow_up(actor.situation)
    assert actor.situation.journal.require(decision.id).verdicts == (), "it is too early"
    stage.clock.now += 580
    # A restarted collector knows the decision by its journal, and the alert by what agents reported.
    actor = await actor_of(stage, driver)
    await follow_up(actor.situation)
    (verdict,) = actor.situation.journal.require(decision.id).verdicts
    (alert,) = verdict.alerts
    assert verdict.effect is Effect.HELPED
    assert alert.closed_seconds == pytest.approx(20, abs=2)
    assert (alert.level_before or 0) > 0.9
    assert (alert.level_after or 1) < 0.5
    assert verdict.short_seconds_after == pytest.approx(20, abs=2)
    assert (await actor_of(stage, driver)).situation.journal.require(decision.id).verdicts == (verdict,)


async def test_a_useless_answer_is_explained_and_not_repeated(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """The hog leaves, but another one uses the CPU as before: it is not moved for the same alert."""

    def send_heartbeats(_: Move | None = None) -> None:
        stage.send_heartbeat("alpha", HOG, STEADY, copy=2)
        stage.send_heartbeat("beta", cpu_cores=0.2)
        stage.send_heartbeat("gamma", HOG, copy=1)

    driver = FakeDriver(view_now=view(), on_move=send_heartbeats)
    actor = await actor_of(stage, driver)
    decision = await heal(actor)
    assert decision.outcome is DecisionOutcome.DONE
    with caplog.at_level(logging.INFO):
        for minutes in range(11):
            stage.clock.now += 60
            send_heartbeats()
            await follow_up(actor.situation)
            again = await actor.planner.answer_alerts(CHOSEN)
            if not minutes:
                assert again is not None
                assert [each.service for each in again.steps] == [STEADY], "something else is planned"
                assert "what it brings is not known yet" in again.left[-1]
            assert again is None or not [each for each in again.steps if each.service == HOG]
    assert actor.situation.journal.require(decision.id).verdicts[0].effect is Effect.USELESS
    assert (
        "policy draps must promise 1.3 times the required gain from now on: 0 of 1 answered alerts"
        in caplog.text
    )
    stage.send_heartbeat("alpha", HOG, copy=2)
    stage.send_heartbeat("alpha", HOG, STEADY, copy=2)
    actor = await actor_of(stage, driver)
    latest = await actor.planner.answer_alerts(CHOSEN)
    assert latest is not None
    assert f"did not end the shortage of cpu of alpha (decision {decision.id}" in latest.left[-1]
    assert len(driver.orders) == 1


async def test_a_container_that_was_moved_is_as_old_as_the_first_one(stage: Stage) -> None:
    def report(move: Move) -> None:
        stage.report_move(move, started_at=stage.clock.now)

    actor = await actor_of(stage, FakeDriver(view_now=view(), on_move=report))
    decision = await heal(actor)
    assert decision.outcome is DecisionOutcome.DONE
    stage.clock.now += 30
    tasks = (await actor.situation.snapshot()).tasks
    row = tasks.index[hog_id(1)]
    assert tasks.age_seconds[row] >= 10_000
    assert tasks.settled_seconds[row] < 60, "it has been on its node for a moment only"
    other = tasks.index[f"id-of-{STEADY}"]
    assert tasks.age_seconds[other] == tasks.settled_seconds[other]


async def test_hints_do_not_return_a_moved_service_at_once(stage: Stage) -> None:
    driver = FakeDriver(view_now=view(), on_move=stage.report_move)
    actor = await actor_of(stage, driver)
    await heal(actor)
    snapshot = await actor.situation.snapshot()
    row = snapshot.tasks.index[hog_id(1)]
    assert snapshot.nodes.names[snapshot.tasks.came_from[row]] == "alpha"
    assert (snapshot.tasks.came_from != NOWHERE).sum() == 1
    assert stage.core.reservations.left_by([HOG], stage.clock.now) == {"alpha"}


async def test_hints_refuse_the_old_node_during_a_move(stage: Stage) -> None:
    """By the name that the orchestrator calls it, too: its scheduler may ask before the move is done."""
    refused: list[frozenset[str]] = []

    def report(move: Move) -> None:
        refused.extend(stage.core.reservations.left_by([name], stage.clock.now) for name in (HOG, "shop/hog"))
        stage.report_move(move)

    seen = view()
    named = tuple(
        replace(each, service="shop/hog") if each.container == hog_id() else each for each in seen.tasks
    )
    await heal(await actor_of(stage, FakeDriver(view_now=replace(seen, tasks=named), on_move=report)))
    assert refused == [{"alpha"}, {"alpha"}]


async def test_two_containers_leave_a_node_one_after_the_other(tmp_path: Path) -> None:
    """Even where more may move at a time: the second needs the first."""
    async with staged(tmp_path, max_concurrent_moves=2) as stage:
        stage.begin()
        driver = FakeDriver(view_now=view())

        def report(move: Move) -> None:
            left = (STEADY,) if service_of(move.task) == HOG else ()
            stage.send_heartbeat("alpha", *left)
            stage.send_heartbeat(move.target, service_of(move.task), copy=1)

        driver.on_move = report
        actor = await actor_of(stage, driver)
        moves = tuple(
            Move(task=f"id-of-{name}", name=name, node="alpha", target=target, reasons=("short",))
            for name, target in ((HOG, "beta"), (STEADY, "gamma"))
        )
        snapshot = await actor.situation.snapshot()
        decision = await actor.planner.record(
            Trigger.ALERT, Decider.of(CHOSEN), snapshot, Plan(actions=moves)
        )
        assert decision is not None
        ended = await actor.executor.carry_out(decision)
        assert [(each.state, each.why) for each in ended.steps] == [(StepState.VERIFIED, None)] * 2


async def test_of_a_set_that_exceeds_the_limit_of_its_node_nothing_moves(tmp_path: Path) -> None:
    """A part of it would restart containers, and leave the alert open."""
    async with staged(tmp_path, max_moves_per_hour=2) as stage:
        stage.begin()
        driver = FakeDriver(view_now=view())
        actor = await actor_of(stage, driver)
        plan = Plan(
            actions=tuple(
                Move(task=f"id-of-{name}", name=name, node="alpha", target=target, reasons=("short",))
                for name, target in ((HOG, "beta"), (STEADY, "gamma"))
            )
        )
        snapshot = await actor.situation.snapshot()
        decision = await actor.planner.record(Trigger.ALERT, Decider.of(CHOSEN), snapshot, plan)
        assert decision is not None
        ended = await actor.executor.carry_out(decision)
        assert [(each.state, each.guard) for each in ended.steps] == [
            (StepState.REFUSED, "per_node"),
            (StepState.DROPPED, None),
        ]
        assert driver.orders == []


async def test_a_refused_move_does_not_hold_up_that_of_another_node(stage: Stage) -> None:
    seen = view(**{HOG: {"labels": {ACT_LABEL: NEVER}}})
    tasks = tuple(replace(each, node="beta") if each.service == STEADY else each for each in seen.tasks)
    driver = FakeDriver(view_now=replace(seen, tasks=tasks))
    stage.send_heartbeat("alpha", HOG)
    stage.send_heartbeat("beta", STEADY)

    def report(move: Move) -> None:
        stage.send_heartbeat(move.node)
        stage.send_heartbeat(move.target, STEADY)

    driver.on_move = report
    actor = await actor_of(stage, driver)
    plan = Plan(
        actions=tuple(
            Move(task=f"id-of-{name}", name=name, node=node, target="gamma", reasons=("short",))
            for name, node in ((HOG, "alpha"), (STEADY, "beta"))
        )
    )
    snapshot = await actor.situation.snapshot()
    decision = await actor.planner.record(Trigger.ALERT, Decider.of(CHOSEN), snapshot, plan)
    assert decision is not None
    ended = await actor.executor.carry_out(decision)
    assert [(each.state, each.guard) for each in ended.steps] == [
        (StepState.REFUSED, "labels"),
        (StepState.VERIFIED, None),
    ]


async def test_what_was_refused_after_it_was_planned_is_tried_again_as_soon_as_it_may_run(
    stage: Stage,
) -> None:
    driver = FakeDriver(view_now=view(), on_move=stage.report_move)
    actor = await actor_of(stage, driver)
    decision = await actor.planner.answer_alerts(CHOSEN)
    assert decision is not None
    driver.is_away = True
    await actor.situation.refresh()
    ended = await actor.executor.carry_out(decision)
    assert [each.state for each in ended.steps] == [StepState.REFUSED]
    driver.is_away = False
    await actor.situation.refresh()
    stage.clock.now += 61
    stage.begin()
    assert (await heal(actor)).outcome is DecisionOutcome.DONE


async def test_a_lasting_alert_causes_no_further_move_until_the_effect_of_the_last_shows(
    stage: Stage,
) -> None:
    driver = FakeDriver(view_now=view(), on_move=stage.report_move)
    actor = await actor_of(stage, driver)
    await heal(actor)
    stage.send_heartbeat("alpha", "steady", cpu_cores=3.9)
    second = await heal(actor)
    assert second.outcome is DecisionOutcome.REFUSED
    (step,) = second.steps
    assert step.guard == "settle"
    assert len(driver.orders) == 1
    assert await actor.planner.answer_alerts(CHOSEN) is None, "the same decision is not recorded twice"


async def test_a_reason_in_which_only_a_number_changed_is_not_recorded_again(stage: Stage) -> None:
    actor = await actor_of(stage, FakeDriver(view_now=view()))
    snapshot = await actor.situation.snapshot()

    def no_plan(containers: int, node: str = "node1") -> Plan:
        why = f"none of its {containers} containers may be moved, which use {containers / 9:.1%}"
        return Plan(left=(f"cpu on {node} stays short: {why}",))

    assert await actor.planner.record(Trigger.ALERT, Decider.of(CHOSEN), snapshot, no_plan(8)) is not None
    assert await actor.planner.record(Trigger.ALERT, Decider.of(CHOSEN), snapshot, no_plan(9)) is None
    assert (
        await actor.planner.record(Trigger.ALERT, Decider.of(CHOSEN), snapshot, no_plan(9, "node2"))
        is not None
    )


async def test_a_move_that_no_agent_confirms_is_undone(stage: Stage) -> None:
    driver = FakeDriver(view_now=view())
    decision = await heal(await actor_of(stage, driver))
    (step,) = decision.steps
    assert (step.state, step.why) == (StepState.UNDONE, "no agent reported the effect within 3 s")
    assert driver.undone == driver.orders
    assert decision.outcome is DecisionOutcome.FAILED


async def test_a_failure_of_the_driver_is_recorded_with_its_reason(stage: Stage) -> None:
    driver = FakeDriver(view_now=view(), fails="the target died")
    decision = await heal(await actor_of(stage, driver))
    assert [(step.state, step.why) for step in decision.steps] == [(StepState.FAILED, "the target died")]


async def test_a_decision_during_an_outage_of_the_driver_is_marked_and_repeated_later(
    stage: Stage,
) -> None:
    """All others were closed at the last answer of the orchestrator; whether they still are is unknown."""
    closed = {"accepts": False}
    driver = FakeDriver(view_now=view(beta=closed, gamma=closed), on_move=stage.report_move)
    actor = await actor_of(stage, driver)
    driver.is_away = True
    stage.clock.now += 12
    stage.begin()
    assert not await actor.situation.refresh()
    decision = await heal(actor)
    assert (decision.outcome, decision.steps) == (DecisionOutcome.NOTHING, ())
    assert decision.trouble == (
        "driver fake is unavailable: the manager does not answer; its last known state is 12 s old"
    )
    stage.clock.now += 5
    assert await actor.planner.answer_alerts(CHOSEN) is None, (
        "the age of the state alone is not recorded again"
    )
    driver.is_away = False
    assert await actor.situation.refresh()
    decision = await heal(actor)
    assert (decision.outcome, decision.trouble) == (DecisionOutcome.NOTHING, None), "the orchestrator answers"
    driver.view_now = view()
    assert await actor.situation.refresh()
    (step,) = (await heal(actor)).steps
    assert (step.guard, step.why) == (
        "settle",
        "the orchestrator recovered 0 s ago: wait until its own changes show",
    )
    stage.clock.now += 60
    stage.begin()
    assert (await heal(actor)).outcome is DecisionOutcome.DONE
    assert len(driver.orders) == 1


async def test_the_state_of_an_orchestrator_that_never_answered_is_unknown(stage: Stage) -> None:
    actor = await actor_of(stage, FakeDriver(is_away=True))
    decision = await heal(actor)
    assert decision.trouble is not None
    assert decision.trouble.endswith("its state is unknown")
    assert {step.guard for step in decision.steps} == {"driver"}


async def test_a_dry_run_plans_and_carries_out_nothing(stage: Stage) -> None:
    driver = FakeDriver(view_now=view(), dry=True)
    actor = await actor_of(stage, driver)
    decision = await heal(actor)
    assert decision.outcome is DecisionOutcome.DRY
    assert [target_of(step.action) for step in decision.steps] == ["gamma"]
    assert driver.orders == []
    assert await actor.planner.answer_alerts(CHOSEN) is None


async def test_a_pause_stops_actions_and_survives_a_restart(stage: Stage) -> None:
    driver = FakeDriver(view_now=view(), on_move=stage.report_move)
    actor = await actor_of(stage, driver)
    await actor.situation.journal.set_pause(
        Pause(since=stage.clock.now, until=stage.clock.now + 60, why="an audit")
    )
    actor = await actor_of(stage, driver)
    decision = await heal(actor)
    assert [step.why for step in decision.steps] == [
        "actions are paused for another 60 s (an audit): run wattpack control resume to continue"
    ]
    stage.clock.now += 61
    for node in ("beta", "gamma"):
        stage.send_heartbeat(node, cpu_cores=0.1)
    stage.send_heartbeat("alpha", HOG, "steady")
    assert (await heal(actor)).outcome is DecisionOutcome.DONE


async def test_moves_of_immovable_containers_are_not_planned(stage: Stage) -> None:
    held = {"stays": "it has a volume on alpha", "mode": Mode.REPLICATED}
    driver = FakeDriver(view_now=view(hog=held, steady=held))
    decision = await heal(await actor_of(stage, driver))
    assert decision.steps == ()
    (why,) = decision.left
    assert why.startswith(
        "alpha stays short of cpu: none of its 2 containers may move now; what would help: "
    )


async def test_steps_are_described_beside_the_event_loop(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a step takes off a short node is found among all containers of the cluster."""
    threads = list[int]()

    def describe_step(*given: Any, **named: Any) -> Step:
        threads.append(threading.get_ident())
        return planned_step(*given, **named)

    monkeypatch.setattr(planner, "planned_step", describe_step)
    await heal(await actor_of(stage, FakeDriver(view_now=view(), on_move=stage.report_move)))
    assert threads
    assert threading.get_ident() not in threads


async def test_only_one_of_two_collectors_acts(stage: Stage, tmp_path: Path) -> None:
    def lease(holder: str) -> Lease:
        return Lease(tmp_path / "lease.db", holder, 30.0, clock=stage.clock, monotonic=stage.clock)

    driver = FakeDriver(view_now=view(), on_move=stage.report_move)
    other = lease("the other")
    assert (await other.take()).mine
    actor = await actor_of(stage, driver, lease("this one"))
    decision = await heal(actor)
    assert [(step.guard, step.why) for step in decision.steps] == [
        ("lease", "another collector holds the lease: the other")
    ]
    await other.give_back()
    assert await actor.situation.renew_lease()
    decision = await heal(actor)
    assert [(step.guard, step.why) for step in decision.steps] == [
        ("settle", "another collector acted until 0 s ago: wait until its changes show")
    ]
    for _ in range(2):
        stage.clock.now += 30
        assert await actor.situation.renew_lease()
    stage.begin()
    assert (await heal(actor)).outcome is DecisionOutcome.DONE


async def test_a_decision_is_recorded_while_no_plan_can_be_made(stage: Stage) -> None:
    class Ended(Worker):
        async def run(self, *_given: object) -> NoReturn:
            raise WorkerUnavailable("it is started again")

    stage.core = replace(stage.core, worker=Ended())
    actor = await actor_of(stage, FakeDriver(view_now=view()))
    snapshot = await actor.situation.snapshot()
    decision = await actor.planner.record(
        Trigger.BROWNOUT, Decider.of(CHOSEN), snapshot, Plan(left=("nothing helps",))
    )
    assert decision is not None
    assert await actor.situation.journal.input_of(decision.id) is not None


async def test_the_timer_policy_waits_from_when_control_begins(stage: Stage) -> None:
    config = stage.core.config
    timed = msgspec.structs.replace(config.control, timer_policy="least-watts", timer_seconds=300.0)
    stage.core = replace(stage.core, config=msgspec.structs.replace(config, control=timed))
    loop = ControlLoop(stage.core, await actor_of(stage, FakeDriver(view_now=view())))
    stage.clock.now += 600
    async with controlling(loop):
        assert loop._timer_ran_at == stage.clock.now


MOVED = ActionResult(what="moved", before=b"as it was", containers=(hog_id(1),))


@pytest.mark.parametrize(("timer", "moved"), [("", True), ("least-watts", False)])
async def test_two_policies_do_not_decide_both_how_full_nodes_are(
    stage: Stage, timer: str, *, moved: bool
) -> None:
    config = stage.core.config
    timed = msgspec.structs.replace(config.control, timer_policy=timer)
    stage.core = replace(stage.core, config=msgspec.structs.replace(config, control=timed))
    driver = FakeDriver(view_now=view())
    loop = ControlLoop(stage.core, await actor_of(stage, driver))
    stage.begin()
    async with controlling(loop):
        await loop.run_once()
    assert bool(driver.orders) is moved


async def killed_in_the_middle(stage: Stage, driver: FakeDriver) -> str:
    """Begin to heal, and be gone once the driver was asked."""
    actor = await actor_of(stage, driver)
    driver.hangs = True
    decision = await actor.planner.answer_alerts(CHOSEN)
    assert decision is not None
    moving = asyncio.create_task(actor.executor.carry_out(decision))
    while not driver.orders:  # noqa: ASYNC110 - the driver is a list, and tells of nothing
        await asyncio.sleep(0)
    moving.cancel()
    await asyncio.gather(moving, return_exceptions=True)
    driver.hangs = False
    return decision.id


async def after_restart(stage: Stage, driver: FakeDriver, name: str) -> Decision:
    actor = await actor_of(stage, driver)
    begun = actor.situation.journal.get(name)
    assert begun is not None
    assert [step.state for step in begun.steps] == [StepState.STARTED]
    await actor.executor.recover()
    found = actor.situation.journal.get(name)
    assert found is not None
    return found


async def test_after_a_crash_a_completed_step_is_not_repeated(stage: Stage) -> None:
    driver = FakeDriver(view_now=view(), on_move=stage.report_move, recovery=MOVED)
    decision = await after_restart(stage, driver, await killed_in_the_middle(stage, driver))
    assert decision.outcome is DecisionOutcome.DONE
    assert decision.steps[0].containers == (hog_id(1),)
    assert len(driver.orders) == 1


async def test_after_a_crash_a_step_that_was_not_carried_out_has_failed(stage: Stage) -> None:
    driver = FakeDriver(view_now=view())
    before = driver.view_now
    name = await killed_in_the_middle(stage, driver)
    driver.view_now = before
    decision = await after_restart(stage, driver, name)
    assert decision.steps[0].state is StepState.FAILED
    assert "nothing of it is left" in (decision.steps[0].why or "")
    assert len(driver.orders) == 1


async def test_recovery_waits_for_an_orchestrator_that_does_not_answer(stage: Stage) -> None:
    driver = FakeDriver(view_now=view(), on_move=stage.report_move, recovery=MOVED)
    name = await killed_in_the_middle(stage, driver)
    driver.is_away = True
    actor = await actor_of(stage, driver)
    recovering = asyncio.create_task(actor.executor.recover())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not recovering.done()
    assert actor.situation.trouble == "driver fake is unavailable: the manager does not answer"
    driver.is_away = False
    await recovering
    decision = actor.situation.journal.get(name)
    assert decision is not None
    assert decision.outcome is DecisionOutcome.DONE


@pytest.mark.slow
async def test_ten_minutes_after_relief_no_container_has_moved_back(
    stage: Stage,
) -> None:
    """By the loop itself, on simulated time; at its busiest, the hog makes its new node short as well."""
    cluster = FluctuatingLoad(stage)
    driver = FakeDriver(view_now=view(), on_move=cluster.move)
    loop = ControlLoop(stage.core, await actor_of(stage, driver))
    until = stage.clock.now + 600
    while stage.clock.now < until:
        cluster.send_heartbeats()
        await loop.run_once()
        stage.clock.now += 5
    assert len(driver.orders) == 1
    assert cluster.places == {HOG: "beta", STEADY: "alpha"}
    assert cluster.alerts.count("beta") > 5
    (done,) = [
        each for each in loop.actor.situation.journal.decisions() if each.outcome is DecisionOutcome.DONE
    ]
    stage.clock.now += 30
    await loop.run_once()
    (alert,) = loop.actor.situation.journal.require(done.id).verdicts[0].alerts
    assert alert.closed_seconds is not None
    assert alert.closed_seconds <= 60
