"""Decides, and carries out what was decided: one step after the other, each on record before and after."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import numpy as np

from collector.acting.choice import Chosen
from collector.acting.guards import Circumstances, refusal
from collector.acting.journal import Journal
from collector.acting.keeping import pack
from collector.acting.knowing import Deeds, allocations, hosts
from collector.acting.lease import Lease
from collector.acting.records import (
    IN_MOTION,
    Decision,
    Outcome,
    Pause,
    Step,
    StepState,
    Trigger,
    action_of,
    touched,
)
from collector.acting.verifying import alerts, containers_of, load, shown
from collector.acting.windows import Timetable
from collector.core import Core
from collector.drivers.interface import CannotAct, Done, Driver, View
from collector.hints.placing import act
from collector.policies.interface import Action, Plan
from collector.snapshot.tables import NOWHERE, Snapshot
from collector.trouble import Part
from collector.usage import quantities
from wire.resources import Quantities

log = logging.getLogger(__name__)

_COUNT = re.compile(r"(?<=\s)\d+(?=\s)")
"""Why nothing can be done is no news where only a number in it moved."""

_LOOK_AGAIN_SECONDS = 0.5
"""While something is waited for that agents will tell."""
_LONG_AGO_SECONDS = 86_400.0
_MEMORY = 1


class Actor:
    """The will of one collector."""

    def __init__(
        self,
        core: Core,
        driver: Driver,
        journal: Journal,
        lease: Lease | None,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._core, self._driver, self._lease = core, driver, lease
        self.wait = wait
        self._settings = core.config.acting
        self._timetable = Timetable.of(
            self._settings.allowed, self._settings.forbidden, self._settings.time_zone
        )
        self._writing = asyncio.Lock()
        self._said: dict[Trigger, object] = {}
        self.journal = journal
        self.view = View()
        self.holder: str | None = "nobody yet"
        """Who acts, if this collector does not."""
        self._taken_over_at: float | None = None
        self.decided: Counter[tuple[Trigger, str]] = Counter()
        self.ended: Counter[tuple[str, StepState]] = Counter()
        """Steps by kind and how they ended, since the start."""

    @property
    def driver_name(self) -> str:
        return self._driver.name

    @property
    def is_dry(self) -> bool:
        return self._driver.dry

    @property
    def pause(self) -> Pause | None:
        """The pause that lasts, if one does."""
        pause = self.journal.pause
        if pause is not None and pause.until is not None and pause.until <= self._core.clock():
            return None
        return pause

    @property
    def acts(self) -> bool:
        """Whether plans are carried out now."""
        return not self.is_dry and self.pause is None and self.holder is None

    @property
    def in_motion(self) -> int:
        """Steps that are begun and not ended."""
        now = self._core.clock()
        return sum(step.state in IN_MOTION for _, step in self.journal.begun(now))

    @property
    def last_healed_seconds(self) -> float | None:
        """How long the last decision took that healed a bottleneck."""
        return next(
            (each.healed_seconds for each in self.journal.decisions() if each.healed_seconds is not None),
            None,
        )

    @property
    def trouble(self) -> str | None:
        """Why the driver cannot act, if it cannot."""
        return self._core.troubles.parts.get(Part.DRIVER) or None

    # --- Monitor ----------------------------------------------------------------------------------

    async def hold(self) -> bool:
        """Hold the lease, or go on holding it; says whether this collector may act."""
        if self._lease is None:
            self.holder = None
            return True
        held = await self._lease.take()
        self.holder = None if held.mine else held.holder
        if held.mine and held.before is not None:
            self._taken_over_at = self._core.clock()
        return held.mine

    async def see(self) -> bool:
        """Put on the board what the orchestrator knows; says whether it answered."""
        try:
            self.view = await self._driver.view()
        except CannotAct as error:
            self._core.troubles.begin(Part.DRIVER, f"the driver {self._driver.name} cannot act: {error}")
            return False
        self._core.troubles.end(Part.DRIVER, f"the driver {self._driver.name} can act again")
        self._tell_board()
        return True

    async def release(self) -> None:
        """Let the driver take back what it left half done when a collector was killed."""
        try:
            for what in await self._driver.release():
                log.info("%s", what)
        except CannotAct as error:
            log.warning("what was left half done stays so for now: %s", error)

    def _tell_board(self) -> None:
        board, deeds = self._core.registry.board, Deeds.of(self.journal.carried_out())
        board.put_allocations(allocations(self.view, deeds, opt_in=self._settings.opt_in))
        for host in hosts(self.view, deeds):
            board.put_host(host)

    async def snapshot(self) -> Snapshot:
        """The cluster now, with what was hinted or made room for and is not there yet."""
        taken = await asyncio.to_thread(self._core.registry.board.snapshot, self._core.clock())
        return self._core.ledger.fold(taken, self._core.clock())

    # --- Analyse, plan ----------------------------------------------------------------------------

    async def answer_alerts(self, chosen: Chosen) -> Decision | None:
        """Decide what to do about the bottlenecks that are open; None if there is nothing new to say."""
        snapshot = await self.snapshot()
        if not snapshot.nodes.short.any():
            self._said.pop(Trigger.ALERT, None)
            return None
        return await self.decide(Trigger.ALERT, chosen, snapshot)

    async def decide(self, trigger: Trigger, chosen: Chosen, snapshot: Snapshot) -> Decision | None:
        """Ask a policy, and put on record what it answers; None if that was said before."""
        plan = await asyncio.to_thread(chosen.rebalance, snapshot)
        return await self.record(trigger, chosen, snapshot, plan)

    async def record(
        self,
        trigger: Trigger,
        chosen: Chosen,
        snapshot: Snapshot,
        plan: Plan,
        request: dict[str, Any] | None = None,
    ) -> Decision | None:
        """Put a plan on record, with all that it was made from."""
        steps = tuple(_step(action, snapshot) for action in plan.actions)
        given = self._circumstances(snapshot, None)
        noes = [refusal(step, given) for step in steps]
        news = (
            tuple((step.act.kind, step.act.task, step.act.node, step.act.target) for step in steps),
            tuple(no and no[0] for no in noes),
            () if steps else tuple(_COUNT.sub("some", each) for each in plan.left),
        )
        if trigger is not Trigger.REQUEST and (self._said.get(trigger) == news or not (steps or plan.left)):
            return None
        self._said[trigger] = news
        if self._driver.dry:
            steps = tuple(
                step if no is None else msgspec.structs.replace(step, guard=no[0], why=no[1])
                for step, no in zip(steps, noes, strict=True)
            )
        now = self._core.clock()
        open_alerts = alerts(snapshot)
        nodes = frozenset[str]().union(
            *(touched(step.act) for step in steps), (each.node for each in open_alerts)
        )
        decision = Decision(
            id=self.journal.new_id(),
            at=now,
            trigger=trigger,
            policy=chosen.policy.name,
            settings=msgspec.to_builtins(chosen.settings),
            driver=self._driver.name,
            dry=self._driver.dry,
            alerts=open_alerts,
            request=request,
            reasons=plan.reasons,
            left=plan.left,
            steps=steps,
            watts_before=plan.watts_before,
            watts_after=plan.watts_after,
            before=load(snapshot, nodes),
            ended_at=now if self._driver.dry or not steps else None,
        )
        packed = await asyncio.to_thread(pack, snapshot)
        decision = await self.journal.add(decision, packed)
        self.decided[trigger, chosen.policy.name] += 1
        for step in steps:
            would = "would " if decision.dry else ""
            log.info("%s %s%s: %s", decision.id, would, _words(step), "; ".join(step.act.reasons))
        return decision

    # --- Execute ------------------------------------------------------------------------------------

    async def carry_out(self, decision: Decision) -> Decision:
        """Do what was decided, in order; moves that follow each other as many at once as may be."""
        if decision.dry or not decision.steps:
            return decision
        for places in _batches(decision.steps, self._settings.moves_at_once):
            await asyncio.gather(*(self._do(decision.id, place) for place in places))
        return await self.close(decision.id)

    async def close(self, name: str) -> Decision:
        """Note that a decision is over."""
        async with self._writing:
            decision = msgspec.structs.replace(self._decision(name), ended_at=self._core.clock())
            decision = await self.journal.update(decision)
        log.info("%s: %s", decision.id, decision.outcome)
        return decision

    async def _do(self, name: str, place: int) -> None:
        decision = self._decision(name)
        step = decision.steps[place]
        if (why := _builds_on_sand(decision, place)) is not None:
            await self.change(name, place, state=StepState.DROPPED, why=why)
            return
        snapshot = await self.snapshot()
        if (no := refusal(step, self._circumstances(snapshot, name))) is not None:
            await self.change(name, place, state=StepState.REFUSED, guard=no[0], why=no[1])
            return
        before = tuple(sorted(containers_of(snapshot, step.service, step.act.target or "")))
        await self.change(
            name, place, state=StepState.STARTED, started_at=self._core.clock(), there_before=before
        )
        self._keep_away(step)
        try:
            done = await self._driver.carry_out(action_of(step.act))
        except CannotAct as error:
            await self.change(name, place, state=StepState.FAILED, why=str(error))
            return
        await self.done(name, place, done)
        await self.verify(name, place)

    def _keep_away(self, step: Step) -> None:
        """Let no hint send what leaves a node straight back: an orchestrator may ask while it still moves."""
        if step.act.kind != "move" or step.act.node is None:
            return
        # An orchestrator may call a service by another name than the agents do.
        named = {each.service for each in self.view.tasks if each.container == step.act.task}
        until = self._core.clock() + self._core.config.driver.refuse_seconds
        for service in named | {step.service}:
            if service is not None:
                self._core.ledger.leave(service, step.act.node, until=until)

    async def done(self, name: str, place: int, done: Done) -> None:
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
        self._tell_board()

    async def verify(self, name: str, place: int) -> None:
        """Wait until the agents show a step; put it back if they do not."""
        deadline = self._core.clock() + self._settings.verify_seconds
        while self._core.clock() < deadline:
            step = self._decision(name).steps[place]
            found = shown(step, await self.snapshot(), self.limit(step))
            if found is not None:
                await self.change(
                    name, place, state=StepState.VERIFIED, containers=tuple(sorted(found)) or step.containers
                )
                self._bar_the_way_back(step)
                await self.see()
                return
            await self.wait(_LOOK_AGAIN_SECONDS)
        why = f"no agent showed it within {self._settings.verify_seconds:g} s"
        await self.change(name, place, state=StepState.UNDOING, why=why)
        await self.undo(name, place)

    def _bar_the_way_back(self, step: Step) -> None:
        """Hints send nothing of a service back to where it was just moved away from."""
        if step.act.kind == "move" and step.service is not None and step.act.node is not None:
            until = self._core.clock() + self._settings.cool_down_seconds
            self._core.ledger.leave(step.service, step.act.node, until=until)

    async def undo(self, name: str, place: int) -> None:
        """Put a step back as far as that can be."""
        step = self._decision(name).steps[place]
        done = Done(what=step.what or "", before=self.journal.before(name, place), containers=step.containers)
        try:
            await self._driver.undo(action_of(step.act), done)
        except CannotAct as error:
            why = f"{step.why}; and it could not be put back: {error}"
            await self.change(name, place, state=StepState.UNCLEAR, why=why)
        else:
            await self.change(name, place, state=StepState.UNDONE)
        await self.see()

    async def change(self, name: str, place: int, *, before: bytes | None = None, **changes: Any) -> None:  # noqa: ANN401 - fields of a step
        """Write down what became of a step, before anything else happens."""
        async with self._writing:
            decision = self._decision(name)
            step = msgspec.structs.replace(decision.steps[place], **changes)
            if step.state not in {*IN_MOTION, StepState.PLANNED}:
                step = msgspec.structs.replace(step, ended_at=self._core.clock())
                self.ended[step.act.kind, step.state] += 1
            steps = (*decision.steps[:place], step, *decision.steps[place + 1 :])
            changed = msgspec.structs.replace(decision, steps=steps)
            if before is None:
                await self.journal.update(changed)
            else:
                await self.journal.update(changed, place, before)
        log.info("%s %s: %s%s", name, _words(step), step.state, f" ({step.why})" if step.why else "")

    # --- What came of it ----------------------------------------------------------------------------

    async def follow_up(self) -> None:
        """See what decisions that are over have done to their nodes, once that shows."""
        waiting = [
            each
            for each in self.journal.decisions()
            if each.after is None
            and each.ended_at is not None
            and each.outcome in {Outcome.DONE, Outcome.PARTLY}
        ]
        if not waiting:
            return
        snapshot, now = await self.snapshot(), self._core.clock()
        for decision in waiting:
            changes: dict[str, Any] = {}
            answered = frozenset(each.node for each in decision.alerts)
            if answered and decision.healed_seconds is None and not alerts(snapshot, answered):
                changes["healed_seconds"] = now - decision.at
            assert decision.ended_at is not None
            if now - decision.ended_at >= self._settings.settle_seconds:
                changes["after"] = load(snapshot, frozenset(decision.before.used_ratios))
            if changes:
                async with self._writing:
                    await self.journal.update(msgspec.structs.replace(self._decision(decision.id), **changes))

    # --- Helpers ------------------------------------------------------------------------------------

    def _decision(self, name: str) -> Decision:
        decision = self.journal.get(name)
        assert decision is not None
        return decision

    def _circumstances(self, snapshot: Snapshot, own: str | None) -> Circumstances:
        now = self._core.clock()
        begun = list(self.journal.begun(now - _LONG_AGO_SECONDS))
        holder = self.holder
        if holder is None and self._lease is not None and not self._lease.is_mine:
            holder = "the lease of this one has expired"
        return Circumstances(
            now=now,
            settings=self._settings,
            timetable=self._timetable,
            snapshot=snapshot,
            view=self.view,
            pause=self.pause,
            holder=holder,
            taken_over_at=self._taken_over_at,
            trouble=self.trouble,
            earlier=[step for decision, step in begun if decision.id != own],
            own=[step for decision, step in begun if decision.id == own],
        )

    def limit(self, step: Step) -> Quantities | None:
        """What the node of a container that is cut sees as its limits."""
        if step.act.kind != "cut":
            return None
        listed = self._core.registry.containers(self._core.clock(), node=step.act.node)
        return next((each.limit for each in listed if each.id == step.act.task), None)


def _step(action: Action, snapshot: Snapshot) -> Step:
    told, tasks = act(snapshot, action), snapshot.tasks
    row = tasks.index.get(told.task or "", NOWHERE)
    if row == NOWHERE:
        return Step(act=told)
    service = int(tasks.service[row])
    requested = np.where(np.isnan(tasks.requested[row]), tasks.allocated[row], tasks.requested[row])
    return Step(
        act=told,
        service=None if service == NOWHERE else snapshot.services.names[service],
        memory_bytes=int(tasks.envelope[row, _MEMORY]),
        requested=quantities(requested),
    )


def _batches(steps: Sequence[Step], at_once: int) -> Iterator[list[int]]:
    """Places of steps that may run beside each other: moves that follow each other, so many at once."""
    for is_move, group in groupby(range(len(steps)), key=lambda place: steps[place].act.kind == "move"):
        places, size = list(group), at_once if is_move else 1
        yield from (places[start : start + size] for start in range(0, len(places), size))


def _builds_on_sand(decision: Decision, place: int) -> str | None:
    """Why a step makes no sense any more: an earlier one on the same node was not carried out."""
    mine = touched(decision.steps[place].act)
    for step in decision.steps[:place]:
        shared = mine & touched(step.act)
        if shared and step.state not in {StepState.VERIFIED, *IN_MOTION}:
            return f"an earlier step on {min(shared)} was not carried out"
    return None


def _words(step: Step) -> str:
    told = step.act
    where = "".join(
        f" {word} {node}" for word, node in (("on", told.node), ("to", told.target)) if node is not None
    )
    return f"{told.kind} {told.name or told.task or ''}".rstrip() + where
