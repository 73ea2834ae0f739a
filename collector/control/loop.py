"""The rhythm of acting: hold the lease, see, look for bottlenecks, ask the timer's policy, follow up."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from collector.common.outages import Dependency
from collector.common.periodic import in_background, repeat
from collector.config import CollectorConfig
from collector.control.actor import Actor
from collector.control.follow_up import follow_up
from collector.control.journal import Journal
from collector.control.lease import Lease, lease_path
from collector.control.make_room import by_whom, keep, kept_seconds, room
from collector.control.records import Decision, Trigger
from collector.control.recovery import recover
from collector.core.parts import Core
from collector.drivers.interface import Driver
from collector.drivers.table import open_driver
from collector.history.interface import HistoryUnavailable
from collector.placement.question import PlacementQuestion
from collector.policies.resolve import PolicyChoice, SettingsError, resolve
from wire.errors import UserError

log = logging.getLogger(__name__)

_RENEWALS = 3
"""Times that a lease is renewed before it would expire."""


class ControlLoop:
    """One collector's acting, while it runs."""

    def __init__(self, core: Core, actor: Actor) -> None:
        config = core.config
        self._core, self._settings = core, config.control
        self._healer = _resolve(config, config.control.policy, "control.policy")
        self._planner = _resolve(config, config.control.timer_policy, "control.timer_policy")
        self._asked_at = core.clock()
        self._seen_at = 0.0
        self._recovered = False
        self._deciding = asyncio.Lock()
        """One decision at a time: the next is made from what the last one left."""
        self.actor = actor

    async def renew(self) -> None:
        """Hold the lease."""
        was = self.actor.situation.holder
        await self.actor.situation.hold()
        if self.actor.situation.holder != was and not self.actor.situation.is_dry:
            log.info(
                "%s",
                "this collector acts"
                if self.actor.situation.holder is None
                else f"{self.actor.situation.holder} acts",
            )

    async def look(self) -> None:
        """One turn."""
        now = self._core.clock()
        seen = now - self._seen_at >= self._settings.refresh_seconds and await self.actor.situation.see()
        if seen:
            self._seen_at = now
        async with self._deciding:
            if self.actor.situation.holder is not None and not self.actor.situation.is_dry:
                # What another one does is its own record's business; what this one left is taken up later.
                self._recovered = False
                return
            if not self._recovered:
                await recover(self.actor)
            if seen:
                await self.actor.situation.release()
            # Whatever goes wrong in between is made out before anything else is done.
            self._recovered = False
            await self._turn()
            self._recovered = True

    async def _turn(self) -> None:
        if self._healer is not None:
            decision = await self.actor.decider.answer_alerts(self._healer)
            if decision is not None:
                await self.actor.hands.carry_out(decision)
        if self._planner is not None and self._core.clock() - self._asked_at >= self._settings.timer_seconds:
            self._asked_at = self._core.clock()
            await self._ask(self._planner)
        await follow_up(self.actor.situation)

    async def make_room(self, question: PlacementQuestion) -> Decision:
        """Do what a container needs first that fits nowhere as things are."""
        config = self._core.config
        async with self._deciding:
            who = by_whom(question, config)
            snapshot = await self.actor.situation.snapshot()
            found = room(snapshot, question, who, config.placement.default_class)
            told = msgspec.to_builtins(question)
            decision = await self.actor.decider.record(Trigger.REQUEST, who, snapshot, found.plan, told)
            assert decision is not None, "what somebody asks for is always answered"
            decision = await self.actor.hands.carry_out(decision)
            seconds = kept_seconds(question, decision.outcome, self._settings.reservation_seconds)
            if seconds and found.node is not None:
                keep(
                    self._core.reservations,
                    snapshot,
                    question,
                    found.node,
                    default_class=config.placement.default_class,
                    now=self._core.clock(),
                    seconds=seconds,
                )
            return decision

    async def _ask(self, chosen: PolicyChoice) -> None:
        decision = await self.actor.decider.decide(
            Trigger.TIMER, chosen, await self.actor.situation.snapshot()
        )
        if decision is not None:
            await self.actor.hands.carry_out(decision)


def _resolve(config: CollectorConfig, name: str, key: str) -> PolicyChoice | None:
    """Return the policy of this name as configured, or None if the name is empty."""
    if not name:
        return None
    try:
        return resolve(name, config.policies.get(name, {}), "rebalance")
    except SettingsError as error:
        raise UserError(f"policies.{name}: {error}") from error
    except UserError as error:
        raise UserError(f"{key}: {error}") from error


@asynccontextmanager
async def acting(core: Core, driver: Driver | None = None) -> AsyncIterator[ControlLoop]:
    """Act while the block runs, as the settings say; raises `UserError` when that cannot be."""
    settings = core.config.control
    async with AsyncExitStack() as stack:
        hands = driver
        if hands is None:
            hands = await stack.enter_async_context(open_driver(core.config.driver))
        journal = Journal(
            core.history, keep=settings.keep_decisions, keep_input_bytes=settings.keep_input_bytes
        )
        await journal.recollect()
        lease = None
        if not hands.dry:
            holder = f"{socket.gethostname()} ({journal.identity})"
            lease = Lease(lease_path(core.config), holder, settings.lease_seconds, core.clock)
            core.outages.watch(Dependency.DRIVER)
        loop = ControlLoop(core, Actor.of(core, hands, journal, lease))
        await loop.renew()
        if lease is not None:
            stack.push_async_callback(lease.give_back)
        # A decision that cannot be recorded is not carried out.
        async with in_background(
            repeat(
                loop.renew,
                settings.lease_seconds / _RENEWALS,
                "renewing the lease",
                expected=HistoryUnavailable,
            ),
            repeat(loop.look, settings.check_seconds, "the control loop", expected=HistoryUnavailable),
        ):
            yield loop
