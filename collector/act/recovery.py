"""Recovery after a crash: determines the outcome of started steps, and never repeats one."""

import logging

from collector.act.actor import Actor
from collector.act.drivers.interface import ActionResult
from collector.act.records import IN_MOTION, Step, StepState
from collector.act.verification import ActionStatus, action_status, find_effect, new_containers
from collector.decide.policies.actions import Cut

log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_STOPPED = "the collector was stopped"


async def recover(actor: Actor) -> None:
    """Finish every decision that was interrupted."""
    for decision in reversed(actor.situation.journal.decisions()):
        if decision.dry or decision.ended_at is not None:
            continue
        log.info("decision %s was interrupted: determining its outcome", decision.id)
        for index, step in enumerate(decision.steps):
            await _resume(actor, decision.id, index, step)
        await actor.executor.close(decision.id)


async def _resume(actor: Actor, decision_id: str, index: int, step: Step) -> None:
    executor = actor.executor
    if step.state is StepState.PLANNED:
        await executor.change(
            decision_id, index, state=StepState.DROPPED, why=f"{_STOPPED} before the step started"
        )
    elif step.state is StepState.STARTED:
        await _determine_outcome(actor, decision_id, index, step)
    elif step.state is StepState.DONE:
        await executor.verify(decision_id, index)
    elif step.state in IN_MOTION:
        # Undoing is idempotent.
        await executor.undo(decision_id, index)


async def _determine_outcome(actor: Actor, decision_id: str, index: int, step: Step) -> None:
    """Poll until the outcome of a started step is clear, or time is up."""
    situation, executor = actor.situation, actor.executor
    clock, timeout_seconds = situation.core.clock, situation.settings.verify_seconds
    deadline: float | None = None
    last = ActionStatus.NEITHER
    while deadline is None or clock() < deadline:
        # The timeout starts when the orchestrator answers.
        if await situation.refresh():
            deadline = deadline or clock() + timeout_seconds
            last = action_status(step, situation.view)
            if isinstance(step.action, Cut) and find_effect(
                step, await situation.snapshot(), situation.limits(step)
            ):
                last = ActionStatus.DONE
            if last is ActionStatus.DONE:
                what = f"{_STOPPED} during the step; the orchestrator completed it"
                await executor.record_done(
                    decision_id,
                    index,
                    ActionResult(what=what, containers=new_containers(step, situation.view)),
                )
                await executor.verify(decision_id, index)
                return
        await executor.wait(_POLL_SECONDS)
    if last is ActionStatus.NOT_DONE or isinstance(step.action, Cut):
        why = f"{_STOPPED} during the step; it was not carried out, and nothing has changed"
        await executor.change(decision_id, index, state=StepState.FAILED, why=why)
    else:
        why = f"{_STOPPED} during the step; after {timeout_seconds:g} s it was neither done nor undone"
        await executor.change(decision_id, index, state=StepState.UNCLEAR, why=why)
