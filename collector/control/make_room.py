"""Room for a container that fits nowhere as things are: what a policy would do first, as a plan."""

import logging
from dataclasses import dataclass
from typing import Any

import msgspec

from collector.config import CollectorConfig
from collector.control.records import DecisionOutcome
from collector.placement.question import PlacementQuestion, resolve_policy, understood
from collector.placement.reservations import Reservations
from collector.policies.interface import Plan
from collector.policies.resolve import PolicyChoice
from collector.snapshot.tables import Snapshot
from wire.errors import UserError

log = logging.getLogger(__name__)

_DEFAULT = "energy4cloud"
"""The policy that cuts what bears it."""


@dataclass(frozen=True, slots=True)
class RoomPlan:
    """Where a container fits, and what must be done there first."""

    plan: Plan
    node: str | None = None
    """None if it fits nowhere."""


def by_whom(question: PlacementQuestion, config: CollectorConfig) -> PolicyChoice:
    """The policy that makes room; raises `ApiError` if there is no such policy."""
    return resolve_policy(config, question.policy or _DEFAULT, question.settings, "place")


def room(snapshot: Snapshot, question: PlacementQuestion, who: PolicyChoice, default_class: int) -> RoomPlan:
    """What must be done before the container fits on the best node."""
    request, _ = understood(question, snapshot, default_class)
    ranking = who.place(snapshot, request)
    if ranking.best is None:
        return RoomPlan(Plan(left=("it fits nowhere, whatever is cut, moved or ended",)))
    best = snapshot.nodes.names[ranking.best]
    first = ranking.needs(ranking.best)
    reasons = (f"it then fits on {best}", *ranking.explain(ranking.best))
    left = () if first else (f"it fits on {best} as things are",)
    return RoomPlan(Plan(actions=first, reasons=reasons, left=left), best)


def kept_seconds(question: PlacementQuestion, outcome: DecisionOutcome, reservation_seconds: float) -> float:
    """How long a place is kept: as asked; and if room had to be made for it, not for nothing."""
    if outcome is DecisionOutcome.DONE:
        return question.reserve_seconds or reservation_seconds
    return question.reserve_seconds if outcome is DecisionOutcome.NOTHING else 0.0


def keep(  # noqa: PLR0913 - what, where, and for how long
    ledger: Reservations,
    snapshot: Snapshot,
    question: PlacementQuestion,
    node: str,
    *,
    default_class: int,
    now: float,
    seconds: float,
) -> None:
    """Count the container on a node, so that nobody takes its room meanwhile, nor gives back what was cut."""
    request, _ = understood(question, snapshot, default_class)
    try:
        ledger.place(snapshot, request, node, now=now, seconds=seconds)
    except UserError as complaint:
        # What was done is done, and on record.
        log.warning("the room on %s is not kept: %s", node, complaint)


def asked(told: dict[str, Any]) -> PlacementQuestion:
    """The question that is on record."""
    return msgspec.convert(told, PlacementQuestion)
