"""The control loop: renews the lease, responds to bottlenecks, runs the timer policy, records effects.

In each round it also runs the controllers of features, which act through the same parts as the loop.
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import msgspec

from collector.act.drivers.interface import Driver
from collector.act.drivers.table import open_driver
from collector.act.executor import Executor
from collector.act.journal import Journal, open_journal
from collector.act.lease import Lease, lease_path
from collector.act.planner import ROOM_POLICY, Decider, Planner, plan_room, room_seconds
from collector.act.queue_events import QueueState, promised_tasks
from collector.act.records import Decision, Goal, Trigger
from collector.act.situation import Situation
from collector.act.verdicts.follow_up import follow_up, learn
from collector.common.errors import LimitError, WorkerUnavailable
from collector.common.extensions import extend
from collector.common.outages import Dependency
from collector.common.periodic import in_background, repeat
from collector.config import CollectorConfig
from collector.decide.policies.resolve import PolicyChoice, beside_timer, resolve
from collector.decide.policies.table import POLICIES
from collector.decide.question import PlacementQuestion, resolve_policy, with_complete_labels
from collector.runtime.parts import Core


@dataclass(frozen=True, slots=True)
class Actor:
    """Plans and carries out decisions, with one journal and one driver."""

    situation: Situation
    planner: Planner
    executor: Executor

    @classmethod
    def of(
        cls,
        core: Core,
        driver: Driver,
        journal: Journal,
        lease: Lease | None,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> "Actor":
        """Create the actor of a driver. Without a lease, this collector always acts."""
        situation = Situation(core, driver, journal, lease)
        return cls(situation, Planner(situation), Executor(situation, wait))


class Controller:
    """Decides about one aspect of the cluster, and acts through the planner and the executor."""

    is_before_timer: ClassVar[bool] = False
    """Whether it runs before the timer policy; otherwise it runs last."""

    def __init__(self, actor: Actor) -> None:
        raise NotImplementedError

    async def start(self, stack: AsyncExitStack) -> None:
        """Load the stored state, and open what stays open while the control loop runs."""

    async def run(self, alert_policy: PolicyChoice | None) -> bool:
        """Decide and act; return whether the round ends here, so that the effect can show."""
        raise NotImplementedError

    def goal_of(self, decision: Decision) -> Goal | None:
        """Return what it made a decision for, as it is now; None if power and alerts tell."""
        del decision
        return None


AnyController = TypeVar("AnyController", bound=Controller)


log = logging.getLogger(__name__)

_DEPLOYMENT_SECONDS = 120.0
"""Time after a deploy request in which its services are expected to be created."""
_CHECKS_PER_REFRESH = 3
"""Checks for bottlenecks per query of the orchestrator."""
_ID_BYTES = 8
_RENEWALS = 3
"""Renewals per lease duration."""


class ControlLoop:
    """The control loop of one collector."""

    def __init__(self, core: Core, actor: Actor) -> None:
        config = core.config
        self._core, self._settings = core, config.control
        self._alert_policy = _resolve(config, config.control.policy)
        """As set, for controllers that ask whether moves would help."""
        self._timer_policy = _resolve(config, config.control.timer_policy)
        given = config.policies.get(config.control.policy, {})
        self._answering_policy = beside_timer(self._alert_policy, self._timer_policy, given)
        # The feature with this policy may be missing.
        self._room_policy = _resolve(config, ROOM_POLICY if ROOM_POLICY in POLICIES else "")
        self._keeps_promises = self._timer_policy is not None and self._timer_policy.policy.keeps_promises
        self._timer_ran_at = core.clock()
        self._queue: QueueState | None = None
        """The queue after the last run of a policy that keeps promises."""
        self._refreshed_at = 0.0
        self._frequent_until = 0.0
        self._recovered = False
        self._deciding = asyncio.Lock()
        """Held during a decision, because each starts from the result of the last."""
        self.actor = actor
        self._controllers: dict[type[Controller], Controller] = {
            kind: kind(actor) for kind in extend("controllers", "CONTROLLERS")
        }

    def controller(self, kind: type[AnyController]) -> AnyController:
        found = self._controllers[kind]
        assert isinstance(found, kind)
        return found

    def as_it_runs(self, chosen: PolicyChoice, given: Mapping[str, Any]) -> PolicyChoice:
        """Return a policy as this loop runs it, if it does; `given` are its settings."""
        if chosen.policy.name == self._settings.policy:
            chosen = beside_timer(chosen, self._timer_policy, given) or chosen
        return self.actor.situation.cautious(chosen)

    async def start(self, stack: AsyncExitStack) -> None:
        """Start the controllers; what they open is closed with the stack.

        Times to wait begin now: before, no report could arrive.
        """
        self._timer_ran_at = self._core.clock()
        await learn(self.actor.situation)
        for each in self._controllers.values():
            await each.start(stack)

    async def renew(self) -> None:
        before = self.actor.situation.holder
        await self.actor.situation.renew_lease()
        if self.actor.situation.holder != before and not self.actor.situation.is_dry:
            log.info("the lease is held by %s", self.actor.situation.holder or "this collector")

    async def run_once(self) -> None:
        now = self._core.clock()
        checks = 0 if now < self._frequent_until else _CHECKS_PER_REFRESH
        is_due = now - self._refreshed_at >= checks * self._settings.check_seconds
        refreshed = is_due and await self.actor.situation.refresh()
        if refreshed:
            self._refreshed_at = now
        async with self._deciding:
            if self.actor.situation.holder is not None and not self.actor.situation.is_dry:
                # Another collector acts; steps that this one left open are recovered later.
                self._recovered = False
                return
            if not self._recovered:
                await self.actor.executor.recover()
            if refreshed:
                await self.release()
            # After an error in this iteration, recovery comes first in the next.
            self._recovered = False
            await self._decide_and_act()
            self._recovered = True

    async def _decide_and_act(self) -> None:
        if (alert_policy := self._cautious(self._answering_policy)) is not None:
            decision = await self.actor.planner.answer_alerts(alert_policy)
            if decision is not None:
                await self.actor.executor.carry_out(decision)
        if await self._run_controllers(before_timer=True):
            await follow_up(self.actor.situation, self._goal_of)
            return
        timer_policy = self._cautious(self._timer_policy)
        if timer_policy is not None and await self._is_due(timer_policy):
            ran_at, self._timer_ran_at = self._timer_ran_at, self._core.clock()
            try:
                await self._run_timer_policy(timer_policy)
            except WorkerUnavailable:
                self._timer_ran_at = ran_at
                raise
        await self._start_waiting()
        await self._run_controllers(before_timer=False)
        await follow_up(self.actor.situation, self._goal_of)

    def _goal_of(self, decision: Decision) -> Goal | None:
        return next((goal for each in self._controllers.values() if (goal := each.goal_of(decision))), None)

    def _cautious(self, chosen: PolicyChoice | None) -> PolicyChoice | None:
        return None if chosen is None else self.actor.situation.cautious(chosen)

    async def _run_controllers(self, *, before_timer: bool) -> bool:
        """Run these controllers until one ends the round; return whether one did."""
        for each in self._controllers.values():
            if each.is_before_timer is before_timer and await each.run(self._cautious(self._alert_policy)):
                return True
        return False

    async def _is_due(self, chosen: PolicyChoice) -> bool:
        """Whether the timer policy runs now: by its timer, or after an event in the queue of promises."""
        seconds = self._settings.timer_seconds or chosen.policy.timer_seconds
        if self._core.clock() - self._timer_ran_at >= seconds:
            return True
        if not chosen.policy.keeps_promises:
            return False
        now = QueueState.of(await self.actor.situation.snapshot())
        before, self._queue = self._queue, now
        return before is not None and now.calls_for_run(before)

    async def _start_waiting(self) -> None:
        """Start the containers that were stopped to make room, as soon as they fit."""
        situation = self.actor.situation
        if self._room_policy is None or not situation.waiting:
            return
        snapshot = await situation.snapshot()
        # The policy that keeps promises decides about tasks that have one.
        promised = promised_tasks(snapshot) if self._keeps_promises else frozenset()
        if situation.waiting.keys() <= promised:
            return
        plan = await self._core.worker.run(self._room_policy.rebalance, snapshot)
        actions = tuple(each for each in plan.actions if getattr(each, "task", "") not in promised)
        decision = await self.actor.planner.record(
            Trigger.WAITING, Decider.of(self._room_policy), snapshot, replace(plan, actions=actions)
        )
        if decision is not None:
            await self.actor.executor.carry_out(decision)

    async def release(self) -> None:
        """Clean up after a killed collector, and hand parked tasks back unless a policy starts them."""
        keeps = self._keeps_promises and self.actor.situation.pause is None
        await self.actor.situation.release(keep_parked=keeps)

    async def stop(self) -> None:
        """Hand parked tasks back to the orchestrator: no policy starts them after this."""
        if self._keeps_promises and self.actor.situation.holder is None and not self.actor.situation.is_dry:
            await self.actor.situation.release(keep_parked=False)

    def expect_deployment(self) -> None:
        """Query the orchestrator more often for two minutes: a service is about to be created."""
        self._frequent_until = self._core.clock() + _DEPLOYMENT_SECONDS

    async def make_room(
        self, question: PlacementQuestion, *, may_cut: bool = True
    ) -> tuple[Decision, str | None]:
        """Make room for a container that fits nowhere, and reserve it; return the node, if there is one.

        Without `may_cut`, other containers are cut, but not the container itself.
        """
        core, config = self._core, self._core.config
        question = with_complete_labels(question, config)
        async with self._deciding:
            policy = resolve_policy(config, question.policy or ROOM_POLICY, question.settings, "place")
            snapshot = await self.actor.situation.snapshot()
            left = core.reservations.left_by([question.service] if question.service else (), core.clock())
            found = await asyncio.to_thread(
                plan_room,
                snapshot,
                question,
                policy,
                config.placement.default_class,
                left=left,
                admission=core.admission,
                may_cut=may_cut,
            )
            request = msgspec.to_builtins(found.question)
            decision = await self.actor.planner.record(
                Trigger.REQUEST, Decider.of(policy), snapshot, found.plan, request
            )
            assert decision is not None, "a request is always recorded"
            decision = await self.actor.executor.carry_out(decision)
            seconds = room_seconds(question, decision.outcome, self._settings.reservation_seconds)
            if seconds and found.node is not None:
                # Nothing else may take the room, and no cut is undone.
                try:
                    core.reservations.place(
                        snapshot,
                        found.request,
                        found.node,
                        now=core.clock(),
                        seconds=seconds,
                        gets=found.plan.gets,
                    )
                except LimitError as error:
                    log.warning("cannot reserve the room on %s: %s", found.node, error)
            return decision, found.node

    async def _run_timer_policy(self, chosen: PolicyChoice) -> None:
        decision = await self.actor.planner.decide(
            Trigger.TIMER, chosen, await self.actor.situation.snapshot()
        )
        if decision is not None:
            await self.actor.executor.carry_out(decision)
        if chosen.policy.keeps_promises:
            # Its own stops and starts do not count as events.
            self._queue = QueueState.of(await self.actor.situation.snapshot())


def _resolve(config: CollectorConfig, name: str) -> PolicyChoice | None:
    """Return the policy of this name as configured, or None if the name is empty."""
    return resolve(name, config.policies.get(name, {}), "rebalance") if name else None


@asynccontextmanager
async def acting(core: Core, driver: Driver | None = None) -> AsyncIterator[ControlLoop]:
    """Open the control loop; `controlling` lets it act. Whatever it holds is given back after the block.

    Raise `UserError` if the settings do not allow it.
    """
    settings = core.config.control
    async with AsyncExitStack() as stack:
        if driver is None:
            driver = await stack.enter_async_context(open_driver(core.config.driver))
        journal = await open_journal(core.history, settings)
        lease = None
        if not driver.dry:
            # No other process has it, whatever was copied: the history, the host, or the container.
            holder = f"{socket.gethostname()} ({secrets.token_hex(_ID_BYTES)})"
            lease = Lease(lease_path(core.config), holder, settings.lease_seconds)
            core.outages.watch(Dependency.DRIVER)
            core.outages.watch(Dependency.OTHER_CLOCK)
        loop = ControlLoop(core, Actor.of(core, driver, journal, lease))
        if lease is not None:
            stack.push_async_callback(lease.give_back)
            stack.push_async_callback(loop.stop)
        yield loop


@asynccontextmanager
async def controlling(loop: ControlLoop) -> AsyncIterator[None]:
    """Hold the lease, and let the control loop decide and act, while the block runs.

    A collector that cannot act yet leaves the lease to another one.
    """
    settings = loop.actor.situation.settings
    async with AsyncExitStack() as stack:
        await loop.start(stack)
        await loop.renew()
        renew_seconds = settings.lease_seconds / _RENEWALS
        # A decision that cannot be recorded is not carried out.
        async with in_background(
            repeat(loop.renew, renew_seconds, "renewing the lease"),
            repeat(loop.run_once, settings.check_seconds, "the control loop"),
        ):
            yield
