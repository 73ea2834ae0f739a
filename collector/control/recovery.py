"""Recovery after a crash: determines the outcome of started steps, and never repeats one."""

import logging

from collector.control.actor import Actor
from collector.control.records import IN_MOTION, Step, StepState
from collector.control.verification import ActionStatus, action_status, find_effect, new_containers
from collector.drivers.interface import ActionResult
from collector.policies.actions import Cut

log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_STOPPED = "the collector was stopped"


async def recover(actor: Actor) -> None:
    """Finish every decision that was left open."""
    for decision in reversed(actor.situation.journal.decisions()):
        if decision.dry or decision.ended_at is not None:
            continue
        log.info("%s was left open: determining its outcome", decision.id)
        for place, step in enumerate(decision.steps):
            await _resume(actor, decision.id, place, step)
        await actor.executor.close(decision.id)


async def _resume(actor: Actor, name: str, place: int, step: Step) -> None:
    executor = actor.executor
    if step.state is StepState.PLANNED:
        await executor.change(name, place, state=StepState.DROPPED, why=f"{_STOPPED} before the step started")
    elif step.state is StepState.STARTED:
        await _determine_outcome(actor, name, place, step)
    elif step.state is StepState.DONE:
        await executor.verify(name, place)
    elif step.state in IN_MOTION:
        # Undoing is idempotent.
        await executor.undo(name, place)


async def _determine_outcome(actor: Actor, name: str, place: int, step: Step) -> None:
    """Poll until the outcome of a started step is clear, or time is up."""
    situation, executor = actor.situation, actor.executor
    clock, timeout_seconds = situation.core.clock, situation.settings.verify_seconds
    deadline: float | None = None
    last = ActionStatus.NEITHER
    while deadline is None or clock() < deadline:
        # The time runs from when the orchestrator answers.
        if await situation.refresh():
            deadline = deadline or clock() + timeout_seconds
            last = action_status(step, situation.view)
            if isinstance(step.action, Cut) and find_effect(
                step, await situation.snapshot(), situation.limits(step)
            ):
                last = ActionStatus.DONE
            if last is ActionStatus.DONE:
                what = f"{_STOPPED} meanwhile; the orchestrator completed the step"
                await executor.done(
                    name, place, ActionResult(what=what, containers=new_containers(step, situation.view))
                )
                await executor.verify(name, place)
                return
        await executor.wait(_POLL_SECONDS)
    if last is ActionStatus.NOT_DONE or isinstance(step.action, Cut):
        why = f"{_STOPPED} meanwhile; the step was not carried out, and nothing has changed"
        await executor.change(name, place, state=StepState.FAILED, why=why)
    else:
        why = f"{_STOPPED} meanwhile; after {timeout_seconds:g} s the step was neither done nor undone"
        await executor.change(name, place, state=StepState.UNCLEAR, why=why)
