"""The input of decisions: the cluster, the orchestrator's state, the lease and the pause."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from collector.act.drivers.interface import Driver, DriverError
from collector.act.experience import experience_of
from collector.act.guards import GuardContext
from collector.act.journal import Journal
from collector.act.lease import Lease, LeaseStatus
from collector.act.orchestrator_state import (
    CompletedActions,
    allocations,
    constraints_by_service,
    node_statuses,
    pending_tasks,
    waiting_tasks,
)
from collector.act.records import IN_MOTION, Pause, Step, StepState
from collector.act.verdicts.learning import DeciderEffect, SpentAnswers, services_on, spent_answers
from collector.common.orchestrator import OrchestratorState
from collector.common.outages import Dependency
from collector.decide.policies.actions import Cut, Resize, SizeBounds
from collector.decide.policies.resolve import PolicyChoice
from collector.runtime.parts import Core
from collector.snapshot.pending import with_waiting
from collector.snapshot.tables import Snapshot
from wire.resources import Quantities

log = logging.getLogger(__name__)

_GUARD_WINDOW_SECONDS = 86_400.0


class Situation:
    """The state that decisions and guards use."""

    def __init__(self, core: Core, driver: Driver, journal: Journal, lease: Lease | None) -> None:
        self.core, self.driver, self._lease = core, driver, lease
        self.settings = core.config.control
        self._schedule = self.settings.schedule()
        self.journal = journal
        self.view = OrchestratorState()
        self.refreshed_at: float | None = None
        """When the orchestrator returned this state."""
        self._driver_back_at: float | None = None
        self.holder = None if lease is None else "unknown (this collector restores its state)"
        """The holder of the lease, if it is not this collector."""
        self._taken_over_at: float | None = None
        self.bounds: Mapping[str, SizeBounds] = {}
        """Bounds of the size of services, by the orchestrator's names."""
        self.effects: Sequence[DeciderEffect] = ()
        """What the decisions of each decider brought in the last week."""
        self.cautions: Mapping[str, float] = {}
        """Factors by which the gains of policies must exceed the required minimum, learned from verdicts."""

    @property
    def is_dry(self) -> bool:
        return self.driver.dry

    @property
    def pause(self) -> Pause | None:
        """The current pause, if there is one."""
        pause = self.journal.pause
        if pause is not None and pause.until is not None and pause.until <= self.core.clock():
            return None
        return pause

    @property
    def acts(self) -> bool:
        return not self.is_dry and self.pause is None and self.holder is None

    @property
    def in_motion(self) -> int:
        """Number of steps that are started and not ended."""
        return sum(step.state in IN_MOTION for _, step in self.journal.started_steps(self.core.clock()))

    @property
    def other_holder(self) -> str | None:
        """Who holds the lease now, if this collector may not act."""
        if self.holder is None and self._lease is not None and not self._lease.is_mine:
            return "none (the lease of this collector has expired)"
        return self.holder

    def cautious(self, chosen: PolicyChoice) -> PolicyChoice:
        """Return a policy as cautious as its decisions have taught."""
        return chosen.with_caution(self.cautions.get(chosen.policy.name, 1.0))

    @property
    def trouble(self) -> str | None:
        """Why the driver cannot act, if it cannot."""
        return self.core.outages.by_dependency.get(Dependency.DRIVER) or None

    @property
    def stale_view(self) -> str | None:
        """Why the orchestrator does not answer, and the age of its last state; None while it answers."""
        if self.trouble is None:
            return None
        if self.refreshed_at is None:
            return f"{self.trouble}; its state is unknown"
        age = self.core.clock() - self.refreshed_at
        return f"{self.trouble}; its last known state is {age:.0f} s old"

    async def renew_lease(self) -> bool:
        """Take or renew the lease; return whether this collector may act."""
        if self._lease is None:
            return True
        held = await self._lease.take()
        self.holder = None if held.mine else held.holder
        if held.mine and held.before is not None:
            self._taken_over_at = self.core.clock()
        self._compare_clocks(held)
        return held.mine

    def _compare_clocks(self, held: LeaseStatus) -> None:
        """Report whether the clock of the collector that acts differs by more than a lease lasts."""
        skew = held.skew_seconds or 0.0
        if abs(skew) <= self.settings.lease_seconds:
            self.core.outages.end(Dependency.OTHER_CLOCK, "the clocks of the collectors agree again")
            return
        side = "ahead of" if skew > 0 else "behind"
        self.core.outages.begin(
            Dependency.OTHER_CLOCK,
            f"the clock of collector {held.holder} is {abs(skew):.0f} s {side} the clock of this one:"
            " synchronize both with NTP. The lease is not affected",
        )

    async def refresh(self) -> bool:
        """Update the orchestrator's state; return whether it answered."""
        try:
            self.view = await self.driver.view()
        except DriverError as error:
            self.core.outages.begin(Dependency.DRIVER, f"driver {self.driver.name} is unavailable: {error}")
            return False
        self.refreshed_at = self.core.clock()
        for part in self.core.registry.parts:
            part.put_services(self.view, self.refreshed_at)
        if self.trouble is not None:
            self._driver_back_at = self.refreshed_at
        self.core.outages.end(Dependency.DRIVER, f"driver {self.driver.name} is available again")
        self.publish_view()
        return True

    async def hold_back(self, tasks: Collection[str]) -> None:
        """Keep pending tasks from taking the room that is made for others."""
        try:
            for what in await self.driver.hold_back(tasks):
                log.info("%s", what)
        except DriverError as error:
            log.warning("cannot keep pending tasks from taking the room that is made: %s", error)

    async def release(self, *, keep_parked: bool) -> None:
        """Let the driver clean up after a killed collector; unless `keep_parked`, also start parked tasks."""
        try:
            for what in await self.driver.release(keep_parked=keep_parked):
                log.info("%s", what)
        except DriverError as error:
            log.warning("cannot clean up after an interrupted action: %s", error)

    def publish_view(self) -> None:
        """Write the orchestrator's last state, and the actions since, to the registry and its tables."""
        tables, completed = self.core.registry.tables, self.completed
        self.core.registry.add_successions(completed.successions)
        for part in self.core.registry.parts:
            part.put_queue({**completed.waiting, **completed.stopped})
        tables.put_constraints(constraints_by_service(self.view))
        power_seconds = self.core.config.driver.power_seconds
        tables.put_experience(experience_of(self.journal.carried_out(), power_seconds))
        tables.put_allocations(allocations(self.view, completed, opt_in=self.settings.opt_in))
        for status in node_statuses(self.view, completed, tables.node_names()):
            tables.put_status(status)

    async def snapshot(self) -> Snapshot:
        """Take a snapshot of the cluster, with pending placements."""
        self.core.require_state()
        taken = await asyncio.to_thread(self.core.registry.tables.snapshot, self.core.clock())
        folded = self.core.reservations.fold(taken, self.core.clock())
        stopped = waiting_tasks(self.completed)
        pending = pending_tasks(self.view, self.core.config.placement.default_class)
        # The orchestrator alone decides about the other pending tasks.
        ids = [each.id for each in pending]
        included = {task for part in folded.parts.values() for task in part.decides_about(ids)}
        return with_waiting(folded, [*stopped, *(each for each in pending if each.id in included)])

    @property
    def completed(self) -> CompletedActions:
        """The recorded actions that are in effect."""
        completed = CompletedActions.of(self.journal.carried_out())
        return replace(completed, waiting={}) if self.driver.has_queue else completed

    @property
    def waiting(self) -> dict[str, Step]:
        """The stops of containers that still wait for room, by container."""
        running = self.core.registry.tables.running(self.completed.waiting)
        return {task: step for task, step in self.completed.waiting.items() if task not in running}

    def guard_context(
        self, snapshot: Snapshot, own: str | None = None, steps: Iterable[Step] = ()
    ) -> GuardContext:
        """Return the input of the guards for a step of a decision with these steps: `own`, or a new one."""
        now = self.core.clock()
        started = list(self.journal.started_steps(now - _GUARD_WINDOW_SECONDS))
        return GuardContext(
            now=now,
            settings=self.settings,
            schedule=self._schedule,
            snapshot=snapshot,
            view=self.view,
            pause=self.pause,
            holder=self.other_holder,
            taken_over_at=self._taken_over_at,
            trouble=self.trouble,
            driver_back_at=self._driver_back_at,
            has_queue=self.driver.has_queue,
            bounds=self.bounds,
            earlier=[step for decision, step in started if decision.id != own],
            own=[step for decision, step in started if decision.id == own],
            planned=[step for step in steps if step.state is StepState.PLANNED],
            spent=self.spent_answers(snapshot),
        )

    def spent_answers(self, snapshot: Snapshot) -> SpentAnswers:
        """Return the answers to open alerts that were of no use, or may still be."""
        nodes = [snapshot.nodes.names[row] for row in np.flatnonzero(snapshot.nodes.has_bottleneck).tolist()]
        if not nodes:
            return SpentAnswers()
        return spent_answers(self.journal.decisions(), snapshot.at, services_on(snapshot, nodes))

    def limits(self, step: Step) -> dict[str, Quantities]:
        """Return the limits that nodes report for the containers whose limits a step changes."""
        wanted: Collection[str]
        node: str | None
        match step.action:
            case Cut(task=task, node=name):
                wanted, node = (task,), name
            case Resize():
                wanted, node = step.containers, None
            case _:
                return {}
        return {
            container: state.run.containers[container].value.limit
            for state in self.core.registry.nodes(self.core.clock(), node=node)
            for container in wanted
            if container in state.run.containers
        }
