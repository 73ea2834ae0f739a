"""Carries out decisions step by step, and records each step before and after."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from collector.control.guards import first_refusal
from collector.control.queue_events import promised_tasks
from collector.control.records import (
    IN_MOTION,
    Decision,
    Step,
    StepState,
)
from collector.control.situation import Situation
from collector.control.steps import batches, failed_prerequisite
from collector.control.verification import containers_of, find_effect, service_containers, target_of
from collector.drivers.interface import ActionResult, Driver, DriverError
from collector.policies.actions import Kill, Move, ServiceAction, Start, describe
from collector.policies.interface import Request
from collector.snapshot.tables import Snapshot

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5


class Executor:
    """Carries out the decisions of one collector."""

    def __init__(
        self, situation: Situation, driver: Driver, wait: Callable[[float], Awaitable[None]]
    ) -> None:
        self._situation, self._driver = situation, driver
        self._core, self._settings, self._journal = situation.core, situation.settings, situation.journal
        self.wait = wait
        self.ended: Counter[tuple[str, StepState]] = Counter()
        """Ended steps since the start, by kind and state."""

    async def carry_out(self, decision: Decision) -> Decision:
        """Carry out the steps in order; consecutive moves run concurrently within the limit."""
        if decision.dry or not decision.steps:
            return decision
        most = self._settings.concurrent_moves(self._core.registry.container_count())
        starts = {step.action.task: step for step in decision.steps if isinstance(step.action, Start)}
        makes_room = any(isinstance(step.action, Kill) and step.keeps_promises for step in decision.steps)
        if starts or makes_room:
            await self._make_way(starts, makes_room=makes_room)
        try:
            done: list[int] = []
            for places in batches(decision.steps, most):
                found = await asyncio.gather(*(self._carry_out_step(decision.id, place) for place in places))
                done += [place for place, is_done in zip(places, found, strict=True) if is_done]
            await self.verify(decision.id, *done)
        finally:
            for task in starts:
                self._core.reservations.give_up(task)
        return await self.close(decision.id)

    async def _make_way(self, starts: Mapping[str, Step], *, makes_room: bool) -> None:
        """Keep the places of tasks that start: others ask for room, or take it, while it is made."""
        snapshot = await self._situation.snapshot()
        for task, step in starts.items():
            self._core.reservations.keep(
                snapshot,
                Request(
                    demand=step.requested,
                    reserve=step.requested,
                    service=step.service,
                    task_class=step.task_class,
                ),
                task,
                target_of(step.action),
                now=self._core.clock(),
                seconds=self._settings.reservation_seconds,
            )
        if makes_room:
            await self._situation.hold_back(promised_tasks(snapshot, waiting=True) - starts.keys())

    async def close(self, name: str) -> Decision:
        """Record the end of a decision."""
        ended_at = self._core.clock()
        decision = await self._journal.amend(
            name, lambda decision: msgspec.structs.replace(decision, ended_at=ended_at)
        )
        log.info("%s: %s", decision.id, decision.outcome)
        return decision

    async def _carry_out_step(self, name: str, place: int) -> bool:
        """Carry out a step, and verify it; return whether it is done and its verification can wait.

        The room of a container that is stopped for another one is empty until that one starts. So the start
        follows as soon as the orchestrator reports the stop, and agents may confirm both later.
        """
        decision = self._journal.require(name)
        step = decision.steps[place]
        if (why := failed_prerequisite(decision.steps, place)) is not None:
            await self.change(name, place, state=StepState.DROPPED, why=why)
            return False
        snapshot = await self._situation.snapshot()
        if (refusal := first_refusal(step, self._situation.guard_context(snapshot, name))) is not None:
            await self.change(name, place, state=StepState.REFUSED, guard=refusal[0], why=refusal[1])
            return False
        if isinstance(step.action, ServiceAction):
            before = service_containers(step.action, self._situation.view)
        else:
            before = tuple(sorted(containers_of(snapshot, step.service, target_of(step.action))))
        await self.change(
            name, place, state=StepState.STARTED, started_at=self._core.clock(), there_before=before
        )
        self._keep_away(step)
        try:
            done = await self._driver.carry_out(step.action)
        except DriverError as error:
            await self.change(name, place, state=StepState.FAILED, why=str(error))
            return False
        await self.done(name, place, done)
        if not step.keeps_promises:
            await self.verify(name, place)
        return step.keeps_promises

    def _keep_away(self, step: Step) -> None:
        """Keep hints from returning a container to its node: the orchestrator may ask during the move."""
        if isinstance(step.action, Move | Kill):
            self._core.registry.promises.expect_stop(step.action.task)
        if not isinstance(step.action, Move | Kill) or step.keeps_promises:
            return  # the place of a container that is stopped for another one is kept for that one
        if isinstance(step.action, Kill) and step.action.sheds:
            return  # it starts again where it was
        source = step.action.node
        # An orchestrator and the agents may use different names for a service.
        names = {each.service for each in self._situation.view.tasks if each.container == step.action.task}
        until = self._core.clock() + self._core.config.driver.avoid_seconds
        for service in names | {step.service}:
            if service is not None:
                self._core.reservations.leave(service, source, until=until)

    async def done(self, name: str, place: int, done: ActionResult) -> None:
        """Record that the orchestrator has carried out a step."""
        await self.change(
            name,
            place,
            before=done.before,
            state=StepState.DONE,
            done_at=self._core.clock(),
            what=done.what,
            containers=done.containers,
        )
        self._situation.publish_view()

    async def verify(self, name: str, *places: int) -> None:
        """Wait until agents report the effects of steps; undo those whose effect they do not report."""
        deadline = self._core.clock() + self._settings.verify_seconds
        left = list(places)
        while left and self._core.clock() < deadline:
            snapshot = await self._situation.snapshot()
            left = [place for place in left if not await self._is_verified(name, place, snapshot)]
            if left:
                await self.wait(_POLL_SECONDS)
        if len(left) < len(places):
            await self._situation.refresh()
        why = f"no agent reported the effect within {self._settings.verify_seconds:g} s"
        for place in left:
            await self.change(name, place, state=StepState.UNDOING, why=why)
            await self.undo(name, place)

    async def _is_verified(self, name: str, place: int, snapshot: Snapshot) -> bool:
        step = self._journal.require(name).steps[place]
        found = find_effect(step, snapshot, self._situation.limits(step))
        if found is None:
            return False
        containers = step.containers or tuple(sorted(found))
        await self.change(name, place, state=StepState.VERIFIED, containers=containers)
        self._forbid_return(step)
        return True

    def _forbid_return(self, step: Step) -> None:
        """Keep hints from returning a service to the node that it was moved from."""
        if isinstance(step.action, Move) and step.service is not None:
            until = self._core.clock() + self._settings.cool_down_seconds
            self._core.reservations.leave(step.service, step.action.node, until=until)

    async def undo(self, name: str, place: int) -> None:
        """Undo a step as far as possible."""
        step = self._journal.require(name).steps[place]
        before = self._journal.before(name, place)
        done = ActionResult(what=step.what or "", before=before, containers=step.containers)
        try:
            await self._driver.undo(step.action, done)
        except DriverError as error:
            why = f"{step.why}; undo failed: {error}"
            await self.change(name, place, state=StepState.UNCLEAR, why=why)
        else:
            await self.change(name, place, state=StepState.UNDONE)
        await self._situation.refresh()

    async def change(self, name: str, place: int, *, before: bytes | None = None, **changes: Any) -> None:  # noqa: ANN401 - fields of a step
        """Record a change of a step before anything else happens."""

        def changed(decision: Decision) -> Decision:
            step = msgspec.structs.replace(decision.steps[place], **changes)
            if step.state not in {*IN_MOTION, StepState.PLANNED}:
                step = msgspec.structs.replace(step, ended_at=self._core.clock())
            steps = (*decision.steps[:place], step, *decision.steps[place + 1 :])
            return msgspec.structs.replace(decision, steps=steps)

        befores = {} if before is None else {place: before}
        step = (await self._journal.amend(name, changed, befores)).steps[place]
        if step.ended_at is not None:
            self.ended[step.action.kind, step.state] += 1
        log.info("%s %s: %s%s", name, describe(step.action), step.state, f" ({step.why})" if step.why else "")
