"""Carries out what was decided: one step after the other, each on record before and after."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from collector.control.guards import refusal
from collector.control.records import (
    IN_MOTION,
    Decision,
    Step,
    StepState,
)
from collector.control.situation import Situation
from collector.control.verification import containers_of, shown, target_of
from collector.drivers.interface import ActionResult, Driver, DriverError
from collector.policies.actions import Kill, Move, affected_nodes, describe

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 0.5
"""While something is waited for that agents will tell."""


class Executor:
    """What one collector does."""

    def __init__(
        self, situation: Situation, driver: Driver, wait: Callable[[float], Awaitable[None]]
    ) -> None:
        self._situation, self._driver = situation, driver
        self._core, self._settings, self._journal = situation.core, situation.settings, situation.journal
        self.wait = wait
        self.ended: Counter[tuple[str, StepState]] = Counter()
        """Steps by kind and how they ended, since the start."""

    async def carry_out(self, decision: Decision) -> Decision:
        """Do what was decided, in order; moves that follow each other as many at once as may be."""
        if decision.dry or not decision.steps:
            return decision
        for places in _batches(decision.steps, self._settings.max_concurrent_moves):
            await asyncio.gather(*(self._do(decision.id, place) for place in places))
        return await self.close(decision.id)

    async def close(self, name: str) -> Decision:
        """Note that a decision is over."""
        ended_at = self._core.clock()
        decision = await self._journal.amend(
            name, lambda known: msgspec.structs.replace(known, ended_at=ended_at)
        )
        log.info("%s: %s", decision.id, decision.outcome)
        return decision

    async def _do(self, name: str, place: int) -> None:
        decision = self._journal.known(name)
        step = decision.steps[place]
        if (why := _builds_on_sand(decision, place)) is not None:
            await self.change(name, place, state=StepState.DROPPED, why=why)
            return
        snapshot = await self._situation.snapshot()
        if (no := refusal(step, self._situation.circumstances(snapshot, name))) is not None:
            await self.change(name, place, state=StepState.REFUSED, guard=no[0], why=no[1])
            return
        before = tuple(sorted(containers_of(snapshot, step.service, target_of(step.action))))
        await self.change(
            name, place, state=StepState.STARTED, started_at=self._core.clock(), there_before=before
        )
        self._keep_away(step)
        try:
            done = await self._driver.carry_out(step.action)
        except DriverError as error:
            await self.change(name, place, state=StepState.FAILED, why=str(error))
            return
        await self.done(name, place, done)
        await self.verify(name, place)

    def _keep_away(self, step: Step) -> None:
        """Let no hint send what leaves a node straight back: an orchestrator may ask while it still moves."""
        if not isinstance(step.action, Move | Kill):
            return
        source = step.action.node
        # An orchestrator may call a service by another name than the agents do.
        named = {each.service for each in self._situation.view.tasks if each.container == step.action.task}
        until = self._core.clock() + self._core.config.driver.avoid_seconds
        for service in named | {step.service}:
            if service is not None:
                self._core.reservations.leave(service, source, until=until)

    async def done(self, name: str, place: int, done: ActionResult) -> None:
        """Note that the orchestrator says that a step is done."""
        await self.change(
            name,
            place,
            before=done.before,
            state=StepState.DONE,
            done_at=self._core.clock(),
            what=done.what,
            containers=done.containers,
        )
        self._situation.tell_board()

    async def verify(self, name: str, place: int) -> None:
        """Wait until the agents show a step; put it back if they do not."""
        deadline = self._core.clock() + self._settings.verify_seconds
        while self._core.clock() < deadline:
            step = self._journal.known(name).steps[place]
            found = shown(step, await self._situation.snapshot(), self._situation.limit(step))
            if found is not None:
                await self.change(
                    name, place, state=StepState.VERIFIED, containers=tuple(sorted(found)) or step.containers
                )
                self._bar_the_way_back(step)
                await self._situation.see()
                return
            await self.wait(_LOOK_AGAIN_SECONDS)
        why = f"no agent showed it within {self._settings.verify_seconds:g} s"
        await self.change(name, place, state=StepState.UNDOING, why=why)
        await self.undo(name, place)

    def _bar_the_way_back(self, step: Step) -> None:
        """Hints send nothing of a service back to where it was just moved away from."""
        if isinstance(step.action, Move) and step.service is not None:
            until = self._core.clock() + self._settings.cool_down_seconds
            self._core.reservations.leave(step.service, step.action.node, until=until)

    async def undo(self, name: str, place: int) -> None:
        """Put a step back as far as that can be."""
        step = self._journal.known(name).steps[place]
        before = self._journal.before(name, place)
        done = ActionResult(what=step.what or "", before=before, containers=step.containers)
        try:
            await self._driver.undo(step.action, done)
        except DriverError as error:
            why = f"{step.why}; and it could not be put back: {error}"
            await self.change(name, place, state=StepState.UNCLEAR, why=why)
        else:
            await self.change(name, place, state=StepState.UNDONE)
        await self._situation.see()

    async def change(self, name: str, place: int, *, before: bytes | None = None, **changes: Any) -> None:  # noqa: ANN401 - fields of a step
        """Write down what became of a step, before anything else happens."""

        def changed(known: Decision) -> Decision:
            step = msgspec.structs.replace(known.steps[place], **changes)
            if step.state not in {*IN_MOTION, StepState.PLANNED}:
                step = msgspec.structs.replace(step, ended_at=self._core.clock())
            steps = (*known.steps[:place], step, *known.steps[place + 1 :])
            return msgspec.structs.replace(known, steps=steps)

        befores = {} if before is None else {place: before}
        step = (await self._journal.amend(name, changed, befores)).steps[place]
        if step.ended_at is not None:
            self.ended[step.action.kind, step.state] += 1
        log.info("%s %s: %s%s", name, describe(step.action), step.state, f" ({step.why})" if step.why else "")


def _batches(steps: Sequence[Step], at_once: int) -> Iterator[list[int]]:
    """Places of steps that may run beside each other: moves that follow each other, so many at once."""
    for is_move, group in groupby(range(len(steps)), key=lambda place: isinstance(steps[place].action, Move)):
        places, size = list(group), at_once if is_move else 1
        yield from (places[start : start + size] for start in range(0, len(places), size))


def _builds_on_sand(decision: Decision, place: int) -> str | None:
    """Why a step makes no sense any more: an earlier one on the same node was not carried out."""
    mine = affected_nodes(decision.steps[place].action)
    for step in decision.steps[:place]:
        shared = mine & affected_nodes(step.action)
        if shared and step.state not in {StepState.VERIFIED, *IN_MOTION}:
            return f"an earlier step on {min(shared)} was not carried out"
    return None
