"""Room for a container that fits nowhere: the plan that makes it, and its reservation."""

from dataclasses import dataclass

from collector.act.records import DecisionOutcome
from collector.config import CollectorConfig
from collector.decide.policies.interface import Plan, Request
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.question import PlacementQuestion, build_request, resolve_policy
from collector.snapshot.tables import Snapshot

ROOM_POLICY = "energy4cloud"
"""The policy that cuts and stops containers of tolerant classes, and starts them again."""


@dataclass(frozen=True, slots=True)
class RoomPlan:
    """Where a container fits, and the actions that must come first."""

    plan: Plan
    request: Request
    node: str | None = None
    """None if it fits nowhere."""


def room_policy(question: PlacementQuestion, config: CollectorConfig) -> PolicyChoice:
    """Return the policy that makes room. Raise `QuestionError` if there is none of that name."""
    return resolve_policy(config, question.policy or ROOM_POLICY, question.settings, "place")


def plan_room(
    snapshot: Snapshot, question: PlacementQuestion, policy: PolicyChoice, default_class: int
) -> RoomPlan:
    """Plan the actions that let the container fit on the best node."""
    request, _ = build_request(question, snapshot, default_class)
    ranking = policy.place(snapshot, request)
    if ranking.best is None:
        nowhere = "the container fits on no node, even after cuts, moves and stops"
        return RoomPlan(Plan(left=(nowhere,)), request)
    best = snapshot.nodes.names[ranking.best]
    first = ranking.needs(ranking.best)
    reasons = (f"the container then fits on {best}", *ranking.explain(ranking.best))
    left = () if first else (f"the container already fits on {best}",)
    return RoomPlan(Plan(actions=first, reasons=reasons, left=left), request, best)


def room_seconds(question: PlacementQuestion, outcome: DecisionOutcome, reservation_seconds: float) -> float:
    """Return how long the room is reserved: as requested, or by default only if room had to be made."""
    if outcome is DecisionOutcome.DONE:
        return question.reserve_seconds or reservation_seconds
    return question.reserve_seconds if outcome is DecisionOutcome.NOTHING else 0.0
