"""Room for a container that fits nowhere as things are: what a policy would do first, as a plan."""

from http import HTTPStatus
from typing import Any

import msgspec

from collector.acting.choice import Chosen
from collector.config import CollectorConfig
from collector.hints.ledger import Ledger
from collector.hints.questions import PlacementQuestion, chosen, understood
from collector.policies.interface import Plan
from collector.refusal import Refusal
from collector.snapshot.tables import Snapshot

_DEFAULT = "energy4cloud"
"""The policy that cuts what bears it."""


def by_whom(question: PlacementQuestion, config: CollectorConfig) -> Chosen:
    """The policy that makes room; raises `Refusal` if it ranks no nodes."""
    policy, settings = chosen(config, question.policy or _DEFAULT, question.settings)
    if policy.place is None:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{policy.name} ranks no nodes: choose another", "$.policy")
    return Chosen(policy, settings)


def room(snapshot: Snapshot, question: PlacementQuestion, who: Chosen, default_class: int) -> Plan:
    """What must be done before the container fits on the best node."""
    assert who.policy.place is not None
    request, _ = understood(question, snapshot, default_class)
    ranking = who.policy.place(snapshot, request, who.settings)
    if ranking.best is None:
        return Plan(left=("it fits nowhere, whatever is cut, moved or ended",))
    best = snapshot.nodes.names[ranking.best]
    first = ranking.needs(ranking.best)
    reasons = (f"it then fits on {best}", *ranking.explain(ranking.best))
    return Plan(actions=first, reasons=reasons, left=() if first else (f"it fits on {best} as things are",))


def keep(  # noqa: PLR0913, PLR0917 - what, where, and for how long
    ledger: Ledger, snapshot: Snapshot, question: PlacementQuestion, node: str, default_class: int, now: float
) -> None:
    """Count the container on the node that room was made on, so that nobody takes it meanwhile."""
    request, _ = understood(question, snapshot, default_class)
    ledger.place(snapshot, request, node, now=now, seconds=question.reserve_seconds)


def asked(told: dict[str, Any]) -> PlacementQuestion:
    """The question that is on record."""
    return msgspec.convert(told, PlacementQuestion)
