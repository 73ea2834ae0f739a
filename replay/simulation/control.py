"""Carries out decisions in a simulation, with the collector's guards and batches and a simulated driver."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from time import thread_time
from typing import Any

import msgspec

from collector.act.experience import experience_of
from collector.act.guards import GuardContext, first_refusal
from collector.act.records import CARRIED_OUT, IN_MOTION, Step, StepState, Trigger
from collector.act.repeats import ALERTS, Repeats, can_resume
from collector.act.steps import batches, failed_prerequisite, planned_step
from collector.act.verification import containers_of, find_effect, target_of
from collector.common.orchestrator import Mode, OrchestratorState, ServiceView
from collector.config import ControlConfig
from collector.decide.policies.actions import Action, Cut, Kill, Move
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.reservations import AVOID_SECONDS
from collector.snapshot.tables import Snapshot
from replay.simulation.cluster import seconds_of, unix
from replay.simulation.collector import SimulatedCollector
from replay.simulation.driver import SimulatedDriver
from wire.resources import Quantities

_DAY_SECONDS = 86_400.0
"""The period that guards check."""
_MILLISECOND = 0.001
"""Times that are this close are equal, since Unix times are rounded."""


@dataclass(slots=True)
class _Decision:
    """A plan that is being carried out."""

    steps: list[Step]
    batches: Iterator[list[int]]
    trigger: Trigger
    running: list[int] = field(default_factory=list)
    """Positions of the steps of the current batch."""


class SimulatedControl:
    """Carries out one decision at a time, step by step, as the collector's executor does."""

    def __init__(
        self,
        collector: SimulatedCollector,
        driver: SimulatedDriver,
        services: Sequence[ServiceView],
        plan_seconds: list[float],
    ) -> None:
        self._collector, self._driver, self._plan_seconds = collector, driver, plan_seconds
        self._settings: ControlConfig = collector.config.control
        self._schedule = self._settings.schedule()
        self._view = OrchestratorState(services=tuple(services))
        self._ended: list[Step] = []
        self._decision: _Decision | None = None
        self._repeats = Repeats()
        self._last_answer: list[Step] = []
        """The steps of the last answer to alerts."""

    @property
    def is_busy(self) -> bool:
        """Whether a decision is being carried out: the next one is made after it."""
        return self._decision is not None

    def decide(self, trigger: Trigger, chosen: PolicyChoice, seconds: float) -> None:
        """Run a policy, and begin to carry out its plan unless it repeats the last one."""
        snapshot = self._collector.snapshot(unix(seconds))
        began = thread_time()
        plan = chosen.rebalance(snapshot)
        self._plan_seconds.append(thread_time() - began)
        keeps_promises = chosen.policy.keeps_promises
        steps = self._planned(plan.actions, snapshot, trigger, keeps_promises=keeps_promises)
        context = self._context(snapshot, unix(seconds), steps)
        refusals = [first_refusal(step, context) for step in steps]
        can_run = (
            None in refusals
            if keeps_promises
            else trigger is Trigger.ALERT and can_resume(self._last_answer, steps, refusals)
        )
        if not (self._repeats.is_new((trigger, ""), plan, steps, refusals) or can_run):
            return
        most = self._settings.concurrent_moves(len(snapshot.tasks.ids))
        self._decision = _Decision(steps, batches(steps, most), trigger)
        self._next_batch(seconds)

    def forget_answer(self) -> None:
        """No alert is open: the next one is answered, even if the answer is the same."""
        self._repeats.forget(ALERTS)

    def carry_out_now(self, actions: Sequence[Action], snapshot: Snapshot, seconds: float) -> bool:
        """Carry out the actions that an arrival needs at once; returns False if a guard refuses one."""
        steps = self._planned(actions, snapshot, Trigger.REQUEST)
        now = unix(seconds)
        if any(first_refusal(step, self._context(snapshot, now, ())) is not None for step in steps):
            return False
        for step in steps:
            started = msgspec.structs.replace(step, state=StepState.VERIFIED, started_at=now, ended_at=now)
            self._driver.carry_out((step.action,), seconds)
            self._ended.append(started)
        return True

    @staticmethod
    def _planned(
        actions: Sequence[Action], snapshot: Snapshot, trigger: Trigger, *, keeps_promises: bool = False
    ) -> list[Step]:
        return [planned_step(action, snapshot, trigger, keeps_promises=keeps_promises) for action in actions]

    def advance(self, seconds: float) -> None:
        """Check which steps agents have confirmed, and begin the next ones."""
        decision = self._decision
        if decision is None:
            return
        self._verify(decision, seconds)
        if not decision.running:
            self._next_batch(seconds)

    def _verify(self, decision: _Decision, seconds: float) -> None:
        """End the steps that agents have confirmed, and undo the steps that they do not confirm in time."""
        now = unix(seconds)
        for position in list(decision.running):
            if decision.steps[position].state is StepState.STARTED:
                self._check_done(decision, position, now)
            step = decision.steps[position]
            if step.done_at is None:
                continue
            if find_effect(step, self._collector.snapshot(now), self._limits(step, now)) is not None:
                self._end(decision, position, StepState.VERIFIED, now)
                if isinstance(step.action, Move):
                    self._avoid_return(step, now + self._settings.cool_down_seconds)
            elif now >= step.done_at + self._settings.verify_seconds - _MILLISECOND:
                self._driver.undo(step.action, seconds)
                self._end(decision, position, StepState.UNDONE, now)

    def _check_done(self, decision: _Decision, position: int, now: float) -> None:
        action = decision.steps[position].action
        if not self._driver.is_done(action):
            return
        successors = self._driver.successors(action)
        if isinstance(action, Move) and not successors:
            self._end(decision, position, StepState.FAILED, now)  # the container ended during the move
        else:
            self._set(decision, position, state=StepState.DONE, done_at=now, containers=successors)

    def next_end(self) -> float:
        """The time until which agents have to confirm a step."""
        steps = (
            [] if self._decision is None else [self._decision.steps[each] for each in self._decision.running]
        )
        done = [step.done_at for step in steps if step.done_at is not None]
        return seconds_of(min(done, default=inf)) + self._settings.verify_seconds

    def _next_batch(self, seconds: float) -> None:
        decision, now = self._decision, unix(seconds)
        assert decision is not None
        while not decision.running:
            positions = next(decision.batches, None)
            if positions is None:
                self._ended = [
                    step
                    for step in (*self._ended, *decision.steps)
                    if (step.started_at or 0.0) > now - _DAY_SECONDS
                ]
                if decision.trigger is Trigger.ALERT:
                    self._last_answer = decision.steps
                self._decision = None
                self._learn()
                return
            for position in positions:
                self._start(decision, position, seconds)
            self._verify(decision, seconds)

    def _start(self, decision: _Decision, position: int, seconds: float) -> None:
        now, step = unix(seconds), decision.steps[position]
        if (why := failed_prerequisite(decision.steps, position)) is not None:
            self._set(decision, position, state=StepState.DROPPED, why=why)
            return
        snapshot = self._collector.snapshot(now)
        if (no := first_refusal(step, self._context(snapshot, now, decision.steps))) is not None:
            self._set(decision, position, state=StepState.REFUSED, guard=no[0], why=no[1])
            return
        before = tuple(sorted(containers_of(snapshot, step.service, target_of(step.action))))
        self._set(decision, position, state=StepState.STARTED, started_at=now, there_before=before)
        self._avoid_return(step, now + AVOID_SECONDS)
        decision.running.append(position)
        self._driver.carry_out((step.action,), seconds)

    def _learn(self) -> None:
        """Learn from the steps of the last day how long actions take."""
        carried_out = [step for step in self._ended if step.state in CARRIED_OUT]
        power_seconds = self._collector.config.driver.power_seconds
        self._collector.put_experience(experience_of(carried_out, power_seconds))

    def _avoid_return(self, step: Step, until: float) -> None:
        if isinstance(step.action, Move | Kill) and step.service is not None:
            self._collector.reservations.keep_from_returning(step.service, step.action.node, until=until)

    def _end(self, decision: _Decision, position: int, state: StepState, now: float) -> None:
        self._set(decision, position, state=state, ended_at=now)
        decision.running.remove(position)

    def _set(self, decision: _Decision, position: int, **changes: Any) -> None:  # noqa: ANN401 - fields of a step
        decision.steps[position] = msgspec.structs.replace(decision.steps[position], **changes)

    def _context(self, snapshot: Snapshot, now: float, own: Sequence[Step]) -> GuardContext:
        return GuardContext(
            now=now,
            settings=self._settings,
            schedule=self._schedule,
            snapshot=snapshot,
            view=self._view,
            earlier=self._ended,
            own=[step for step in own if step.started_at is not None or step.state in IN_MOTION],
            planned=[step for step in own if step.state is StepState.PLANNED],
        )

    def _limits(self, step: Step, now: float) -> dict[str, Quantities]:
        """The limits that the node of a cut container reports."""
        action = step.action
        if not isinstance(action, Cut):
            return {}
        for node in self._collector.registry.nodes(now, node=action.node):
            if action.task in node.run.containers:
                return {action.task: node.run.containers[action.task].value.limit}
        return {}


def service_views(services: Sequence[str]) -> list[ServiceView]:
    """The services of a workload, as an orchestrator has them."""
    counts = Counter(services).items()
    return [ServiceView(name=name, mode=Mode.REPLICATED, replicas=count) for name, count in counts]
