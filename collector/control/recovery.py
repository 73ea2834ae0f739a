"""After a crash: what was begun is made out from what is, and never done a second time."""

import logging

from collector.control.actor import Actor
from collector.control.records import IN_MOTION, Step, StepState
from collector.control.verification import ActionStatus, new_containers, shown, standing
from collector.drivers.interface import ActionResult
from collector.policies.actions import Cut

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 1.0
_STOPPED = "the collector was stopped"


async def recover(actor: Actor) -> None:
    """Take up every decision that was left in the middle; returns when none is."""
    for decision in reversed(actor.situation.journal.decisions()):
        if decision.dry or decision.ended_at is not None:
            continue
        log.info("%s was left in the middle: making out what became of it", decision.id)
        for place, step in enumerate(decision.steps):
            await _take_up(actor, decision.id, place, step)
        await actor.hands.close(decision.id)


async def _take_up(actor: Actor, name: str, place: int, step: Step) -> None:
    hands = actor.hands
    if step.state is StepState.PLANNED:
        await hands.change(name, place, state=StepState.DROPPED, why=f"{_STOPPED} before it was begun")
    elif step.state is StepState.STARTED:
        await _make_out(actor, name, place, step)
    elif step.state is StepState.DONE:
        await hands.verify(name, place)
    elif step.state in IN_MOTION:
        # To put back what was is the same however often it is done.
        await hands.undo(name, place)


async def _make_out(actor: Actor, name: str, place: int, step: Step) -> None:
    """The driver was asked, and nobody knows what came of it: look, until it is plain or time is up."""
    situation, hands = actor.situation, actor.hands
    clock, patience_seconds = situation.core.clock, situation.settings.verify_seconds
    deadline: float | None = None
    last = ActionStatus.NEITHER
    while deadline is None or clock() < deadline:
        # An orchestrator that is away says nothing about what it did: time runs once it answers.
        if await situation.see():
            deadline = deadline or clock() + patience_seconds
            last = standing(step, situation.view)
            if isinstance(step.action, Cut) and shown(
                step, await situation.snapshot(), situation.limit(step)
            ):
                last = ActionStatus.DONE
            if last is ActionStatus.DONE:
                what = f"{_STOPPED} meanwhile; the orchestrator had carried it out"
                await hands.done(
                    name, place, ActionResult(what=what, containers=new_containers(step, situation.view))
                )
                await hands.verify(name, place)
                return
        await hands.wait(_LOOK_AGAIN_SECONDS)
    if last is ActionStatus.NOT_DONE or isinstance(step.action, Cut):
        why = f"{_STOPPED} meanwhile, and it was not carried out: all is as before"
        await hands.change(name, place, state=StepState.FAILED, why=why)
    else:
        why = f"{_STOPPED} meanwhile, and within {patience_seconds:g} s it was neither there nor back"
        await hands.change(name, place, state=StepState.UNCLEAR, why=why)
