"""Carries out decisions step by step, and records each step before and after.

After a crash, or a failure that could not be undone, the driver completes the step or undoes it, by the state
of the orchestrator.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from collector.act.drivers.interface import ActionResult, DriverError, HalfDoneError
from collector.act.guards import first_refusal
from collector.act.lease import LeaseLostError
from collector.act.queue_events import promised_tasks
from collector.act.records import IN_MOTION, Decision, Step, StepState
from collector.act.situation import Situation
from collector.act.steps import batches, failed_prerequisite
from collector.act.verification import containers_of, find_effect, service_containers, target_of
from collector.decide.policies.actions import Kill, Move, ServiceAction, Start, describe
from collector.decide.policies.interface import Request
from collector.decide.reservations import AVOID_SECONDS
from collector.snapshot.tables import Snapshot

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_STOPPED = "the collector was stopped"


class Executor:
    """Carries out the decisions of one collector."""

    def __init__(self, situation: Situation, wait: Callable[[float], Awaitable[None]]) -> None:
        self._situation, self._driver = situation, situation.driver
        self._core, self._settings, self._journal = situation.core, situation.settings, situation.journal
        self._wait = wait
        self.ended: Counter[tuple[str, StepState]] = Counter()
        """Number of ended steps since the start, by kind of action and state."""

    async def carry_out(self, decision: Decision) -> Decision:
        """Carry out the steps in order; consecutive moves run concurrently within the limit."""
        if decision.dry or not decision.steps:
            return decision
        most = self._settings.concurrent_moves(self._core.registry.container_count())
        starts = {step.action.task: step for step in decision.steps if isinstance(step.action, Start)}
        makes_room = any(isinstance(step.action, Kill) and step.keeps_promises for step in decision.steps)
        if starts or makes_room:
            await self._keep_room(starts, makes_room=makes_room)
        try:
            done: list[int] = []
            for indices in batches(decision.steps, most):
                results = await asyncio.gather(
                    *(self._carry_out_step(decision.id, index) for index in indices)
                )
                done += [index for index, is_done in zip(indices, results, strict=True) if is_done]
            await self._verify(decision.id, *done)
        finally:
            for task in starts:
                self._core.reservations.give_up(task)
        return await self._close(decision.id)

    async def _keep_room(self, starts: Mapping[str, Step], *, makes_room: bool) -> None:
        """Reserve the room of tasks that start, since others could request or take it while it is made."""
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

    async def _close(self, decision_id: str) -> Decision:
        ended_at = self._core.clock()
        decision = await self._journal.amend(
            decision_id, lambda decision: msgspec.structs.replace(decision, ended_at=ended_at)
        )
        log.info("decision %s: %s", decision.id, decision.outcome)
        return decision

    async def _carry_out_step(self, decision_id: str, index: int) -> bool:
        """Carry out a step, and verify it; return whether it is done and its verification can wait.

        If a container is stopped for another one, the other starts as soon as the orchestrator reports the
        stop, because the room is unused until then. Agents may confirm both later.
        """
        decision = self._journal.require(decision_id)
        step = decision.steps[index]
        if (why := failed_prerequisite(decision.steps, index)) is not None:
            await self.change(decision_id, index, state=StepState.DROPPED, why=why)
            return False
        snapshot = await self._situation.snapshot()
        context = self._situation.guard_context(snapshot, decision_id, decision.steps)
        if (refusal := first_refusal(step, context)) is not None:
            await self.change(decision_id, index, state=StepState.REFUSED, guard=refusal[0], why=refusal[1])
            return False
        if isinstance(step.action, ServiceAction):
            before = service_containers(step.action, self._situation.view)
        else:
            before = tuple(sorted(containers_of(snapshot, step.service, target_of(step.action))))
        started = {"state": StepState.STARTED, "started_at": self._core.clock(), "there_before": before}
        try:
            await self.change(decision_id, index, before=await self._driver.prepare(step.action), **started)
            self._avoid_source(step)
            await self._record_done(decision_id, index, await self._driver.carry_out(step.action))
        except HalfDoneError as error:
            if not await self._complete_or_undo(decision_id, index, str(error)):
                return False
        except DriverError as error:
            await self.change(decision_id, index, state=StepState.FAILED, why=str(error))
            return False
        if not step.keeps_promises:
            await self._verify(decision_id, index)
        return step.keeps_promises

    def _avoid_source(self, step: Step) -> None:
        """Keep hints from returning a container to its node, if the orchestrator asks during the move."""
        if isinstance(step.action, Move | Kill):
            for part in self._core.registry.parts:
                part.expect_stop(step.action.task)
        if not isinstance(step.action, Move | Kill) or step.keeps_promises:
            return  # its room is reserved for the container that it is stopped for
        if isinstance(step.action, Kill) and step.action.sheds:
            return  # it starts again where it was
        source = step.action.node
        # An orchestrator and the agents may use different names for a service.
        names = {each.service for each in self._situation.view.tasks if each.container == step.action.task}
        until = self._core.clock() + AVOID_SECONDS
        for service in names | {step.service}:
            if service is not None:
                self._core.reservations.keep_from_returning(service, source, until=until)

    async def _record_done(
        self, decision_id: str, index: int, done: ActionResult, *, is_timed: bool = True
    ) -> None:
        """Record that the orchestrator has carried out a step; its time is unknown after an interruption."""
        await self.change(
            decision_id,
            index,
            before=done.before,
            state=StepState.DONE,
            done_at=self._core.clock(),
            is_timed=is_timed and not done.nothing_to_do,
            what=done.what,
            containers=done.containers,
        )
        self._situation.publish_view()

    async def _verify(self, decision_id: str, *indices: int) -> None:
        """Wait until agents report the effects of steps; undo the steps whose effect is not reported."""
        deadline = self._core.clock() + self._settings.verify_seconds
        left = list(indices)
        while left and self._core.clock() < deadline:
            snapshot = await self._situation.snapshot()
            left = [index for index in left if not await self._is_verified(decision_id, index, snapshot)]
            if left:
                await self._wait(_POLL_SECONDS)
        if len(left) < len(indices):
            await self._situation.refresh()
        why = f"no agent reported the effect within {self._settings.verify_seconds:g} s"
        for index in left:
            await self.change(decision_id, index, state=StepState.UNDOING, why=why)
            await self._undo(decision_id, index)

    async def _is_verified(self, decision_id: str, index: int, snapshot: Snapshot) -> bool:
        step = self._journal.require(decision_id).steps[index]
        found = find_effect(step, snapshot, self._situation.limits(step))
        if found is None:
            return False
        containers = step.containers or tuple(sorted(found))
        await self.change(decision_id, index, state=StepState.VERIFIED, containers=containers)
        self._forbid_return(step)
        return True

    def _forbid_return(self, step: Step) -> None:
        """Keep hints from returning a service to the node that it was moved from."""
        if isinstance(step.action, Move) and step.service is not None:
            until = self._core.clock() + self._settings.cool_down_seconds
            self._core.reservations.keep_from_returning(step.service, step.action.node, until=until)

    def _require_lease(self) -> None:
        """Raise `LeaseLostError` if another collector may act."""
        if (holder := self._situation.other_holder) is not None:
            raise LeaseLostError(holder)

    async def _undo(self, decision_id: str, index: int) -> None:
        """Undo a step as far as possible. Raise `LeaseLostError` if another collector may act."""
        self._require_lease()
        step = self._journal.require(decision_id).steps[index]
        before = self._journal.undo_data(decision_id, index)
        done = ActionResult(what=step.what or "", before=before, containers=step.containers)
        try:
            await self._driver.undo(step.action, done)
        except DriverError as error:
            why = f"{step.why}; undo failed: {error}"
            await self.change(decision_id, index, state=StepState.UNCLEAR, why=why)
        else:
            await self.change(decision_id, index, state=StepState.UNDONE)
        await self._situation.refresh()

    async def change(
        self,
        decision_id: str,
        index: int,
        *,
        before: bytes | None = None,
        **changes: Any,  # noqa: ANN401 - fields of a step
    ) -> None:
        """Record a change of a step before anything else happens."""

        def changed(decision: Decision) -> Decision:
            step = msgspec.structs.replace(decision.steps[index], **changes)
            if step.state not in {*IN_MOTION, StepState.PLANNED}:
                step = msgspec.structs.replace(step, ended_at=self._core.clock())
            steps = (*decision.steps[:index], step, *decision.steps[index + 1 :])
            return msgspec.structs.replace(decision, steps=steps)

        befores = None if before is None else {index: before}
        step = (await self._journal.amend(decision_id, changed, befores)).steps[index]
        if step.ended_at is not None:
            self.ended[step.action.kind, step.state] += 1
        why = f" ({step.why})" if step.why else ""
        log.info("decision %s, %s: %s%s", decision_id, describe(step.action), step.state, why)

    # --- Recovery -----------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Finish every decision that was interrupted."""
        for decision in reversed(self._journal.decisions()):
            if decision.dry or decision.ended_at is not None:
                continue
            log.info("decision %s was interrupted: determining its outcome", decision.id)
            for index, step in enumerate(decision.steps):
                match step.state:
                    case StepState.PLANNED:
                        why = f"{_STOPPED} before the step started"
                        await self.change(decision.id, index, state=StepState.DROPPED, why=why)
                    case StepState.STARTED:
                        if await self._complete_or_undo(decision.id, index, f"{_STOPPED} during the step"):
                            await self._verify(decision.id, index)
                    case StepState.DONE:
                        await self._verify(decision.id, index)
                    case StepState.UNDOING:
                        # Undoing is idempotent.
                        await self._undo(decision.id, index)
            await self._close(decision.id)

    async def _complete_or_undo(self, decision_id: str, index: int, why: str) -> bool:
        """Let the driver complete or undo a step that was interrupted; return whether it is complete.

        The time for this begins when the orchestrator answers. Raise `LeaseLostError` if another collector
        may act meanwhile.
        """
        step, seconds = self._journal.require(decision_id).steps[index], self._settings.verify_seconds
        noted = self._journal.undo_data(decision_id, index)
        deadline: float | None = None
        trouble = ""
        while deadline is None or self._core.clock() < deadline:
            answers = await self._situation.refresh()
            self._require_lease()
            if answers:
                deadline = deadline or self._core.clock() + seconds
                try:
                    done = await self._driver.recover(step.action, noted)
                except DriverError as error:
                    trouble = str(error)
                else:
                    await self._record_recovered(decision_id, index, done, why)
                    return done is not None
            await self._wait(_POLL_SECONDS)
        why = f"{why}; after {seconds:g} s it was neither complete nor undone: {trouble}"
        await self.change(decision_id, index, state=StepState.UNCLEAR, why=why)
        return False

    async def _record_recovered(
        self, decision_id: str, index: int, done: ActionResult | None, why: str
    ) -> None:
        await self._situation.refresh()
        if done is None:
            why = f"{why}; it was not carried out, or was undone: nothing of it is left"
            await self.change(decision_id, index, state=StepState.FAILED, why=why)
        else:
            done = replace(done, what=f"{done.what} ({why}; completed)")
            await self._record_done(decision_id, index, done, is_timed=False)
