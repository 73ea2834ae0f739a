"""The planner runs a policy, and records its plan with its input, a snapshot; plans for room too."""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from collector.act.guards import first_refusal
from collector.act.records import Decision, DecisionOutcome, Step, Trigger
from collector.act.repeats import ALERTS, Repeats, can_resume
from collector.act.situation import Situation
from collector.act.steps import planned_step
from collector.act.verification import alerts, load
from collector.decide.policies.actions import affected_nodes, describe
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.policies.interface import Plan, Rejection, Request
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.question import PlacementQuestion, build_request
from collector.decide.ranking import rank
from collector.snapshot.codec import pack
from collector.snapshot.tables import Snapshot

log = logging.getLogger(__name__)

ROOM_POLICY = "energy4cloud"
"""The policy that cuts and stops containers of tolerant classes, and starts them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """The policy that makes a decision, and its settings."""

    policy: str
    settings: dict[str, Any]
    keeps_promises: bool = False
    subject: str = ""
    """The service that it decides about; empty if it decides about all."""

    @classmethod
    def of(cls, chosen: PolicyChoice) -> "Decider":
        """Return a policy that makes plans for the whole cluster."""
        return cls(
            policy=chosen.policy.name,
            settings=msgspec.to_builtins(chosen.settings),
            keeps_promises=chosen.policy.keeps_promises,
        )


class Planner:
    """Makes decisions, and records repeated ones only once."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._repeats = Repeats()
        self.decided: Counter[tuple[Trigger, str]] = Counter()
        """Number of decisions since the start, by trigger and policy."""

    async def answer_alerts(self, chosen: PolicyChoice) -> Decision | None:
        """Decide about the open bottlenecks; None if the decision is the same as the last."""
        snapshot = await self._situation.snapshot()
        if not snapshot.nodes.has_bottleneck.any():
            self._repeats.forget(ALERTS)
            return None
        snapshot, spent = self._situation.spent_answers(snapshot).pinned(snapshot)
        return await self.decide(Trigger.ALERT, chosen, snapshot, spent)

    async def decide(
        self, trigger: Trigger, chosen: PolicyChoice, snapshot: Snapshot, left: tuple[str, ...] = ()
    ) -> Decision | None:
        """Run a policy and record its plan, with what else is `left`; None if it is the same as the last."""
        plan = await self._situation.core.worker.run(chosen.rebalance, snapshot)
        plan = replace(plan, left=(*plan.left, *left))
        return await self.record(trigger, Decider.of(chosen), snapshot, plan)

    async def record(
        self,
        trigger: Trigger,
        decider: Decider,
        snapshot: Snapshot,
        plan: Plan,
        request: dict[str, Any] | None = None,
    ) -> Decision | None:
        """Record a plan with its snapshot; None if the plan is the same as the last."""
        keeps_promises = decider.keeps_promises
        # What the steps take off short nodes is found among all containers.
        steps = await asyncio.to_thread(
            lambda: tuple(
                planned_step(action, snapshot, trigger, keeps_promises=keeps_promises)
                for action in plan.actions
            )
        )
        context = self._situation.guard_context(snapshot, steps=steps)
        refusals = [first_refusal(step, context) for step in steps]
        is_dry = self._situation.is_dry
        # A failed stop or start for a promise, or change of a service, is retried although it is not new.
        is_retried = not is_dry and (
            None in refusals
            if keeps_promises or decider.subject
            else trigger is Trigger.ALERT and can_resume(self._last_answer(), steps, refusals)
        )
        cause, is_blind = (trigger, decider.subject), self._situation.trouble is not None
        is_new = self._repeats.is_new(cause, plan, steps, refusals, is_blind=is_blind)
        if not (is_new or is_retried):
            return None
        if is_dry:
            steps = tuple(
                step if refusal is None else msgspec.structs.replace(step, guard=refusal[0], why=refusal[1])
                for step, refusal in zip(steps, refusals, strict=True)
            )
        open_alerts = alerts(snapshot)
        nodes = frozenset[str]().union(
            *(affected_nodes(step.action) for step in steps), (each.node for each in open_alerts)
        )
        decision = Decision(
            id=self._situation.journal.new_id(),
            at=context.now,
            trigger=trigger,
            policy=decider.policy,
            settings=decider.settings,
            driver=self._situation.driver.name,
            dry=is_dry,
            alerts=open_alerts,
            request=request,
            gets=plan.gets,
            trouble=self._situation.stale_view,
            reasons=plan.reasons,
            left=plan.left,
            steps=steps,
            watts_before=plan.watts_before,
            watts_after=plan.watts_after,
            before=load(snapshot, nodes),
            ended_at=context.now if is_dry or not steps else None,
        )
        waiting = self._situation.waiting.keys() | self._situation.completed.stopped.keys()
        try:
            packed = await asyncio.to_thread(pack, snapshot)
            decision = await self._situation.journal.add(decision, packed, waiting)
        except BaseException:
            # It is made again: nobody knows of it.
            self._repeats.forget(cause)
            raise
        self.decided[trigger, decider.policy] += 1
        _log(decision)
        return decision

    def _last_answer(self) -> tuple[Step, ...]:
        """Return the steps of the last answer to alerts."""
        decisions = self._situation.journal.decisions()
        return next((each.steps for each in decisions if each.trigger is Trigger.ALERT), ())


def _log(decision: Decision) -> None:
    would = "would " if decision.dry else ""
    for step in decision.steps:
        log.info(
            "decision %s: %s%s: %s", decision.id, would, describe(step.action), "; ".join(step.action.reasons)
        )
    if not decision.steps:
        log.info("decision %s: no action possible: %s", decision.id, "; ".join(decision.left))
    if decision.trouble is not None:
        log.info("decision %s uses an old state of the orchestrator: %s", decision.id, decision.trouble)


@dataclass(frozen=True, slots=True)
class RoomPlan:
    """Where a container fits, and the actions that must come first."""

    plan: Plan
    question: PlacementQuestion
    """It excludes the nodes that the service just left, and those that were refused: so the plan can be
    made again from the snapshot."""
    request: Request
    node: str | None = None
    """None if it fits nowhere."""


def plan_room(  # noqa: PLR0913 - question, policy and state
    snapshot: Snapshot,
    question: PlacementQuestion,
    policy: PolicyChoice,
    default_class: int,
    *,
    left: frozenset[str] = frozenset(),
    admission: AdmissionRule | None = None,
    may_cut: bool = True,
) -> RoomPlan:
    """Plan the actions that let the container fit on the best node."""
    refused = left
    while True:
        question = msgspec.structs.replace(question, exclude=question.exclude | refused)
        request, _ = build_request(question, snapshot, default_class)
        ranking = rank(snapshot, request, policy, admission=admission)
        ranking = ranking if may_cut else ranking.uncut()
        found = np.flatnonzero(np.isin(ranking.refused, (Rejection.RISK, Rejection.NEEDS_ROOM)))
        refused = frozenset(snapshot.nodes.names[row] for row in found.tolist())
        # Without the refused nodes, the policy may find others, such as some with room after cuts.
        if not refused or ranking.best is not None:
            break
    question = msgspec.structs.replace(question, exclude=question.exclude | refused)
    if ranking.best is None:
        nowhere = "the container fits on no node, even after cuts, moves and stops"
        return RoomPlan(Plan(left=(nowhere,)), question, request)
    best = snapshot.nodes.names[ranking.best]
    first = ranking.needs(ranking.best)
    reasons = (f"the container then fits on {best}", *ranking.explain(ranking.best))
    kept = () if first else (f"the container already fits on {best}",)
    plan = Plan(actions=first, reasons=reasons, left=kept, gets=ranking.gets(ranking.best))
    return RoomPlan(plan, question, request, best)


def room_seconds(question: PlacementQuestion, outcome: DecisionOutcome, reservation_seconds: float) -> float:
    """Return how long the room is reserved: as requested, or by default only if room had to be made."""
    if outcome is DecisionOutcome.DONE:
        return question.reserve_seconds or reservation_seconds
    return question.reserve_seconds if outcome is DecisionOutcome.NOTHING else 0.0
