"""Plans: what a policy would move, cut, start or switch, and what each bottleneck asks for."""

from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from collector.placement.answers import PlanHint, PolicyInfo, Proposal, Proposals
from collector.placement.question import Name
from collector.policies.draps import propose
from collector.policies.interface import PolicySettings, Stability
from collector.policies.resolve import PolicyChoice
from collector.policies.table import POLICIES
from collector.snapshot.tables import Snapshot
from wire.resources import RESOURCES


class RebalanceQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """By what to plan. Asking changes nothing."""

    policy: Name | None = None
    """If not told, what is configured."""
    settings: dict[str, Any] = {}
    """Of the policy; those not told are as configured, or its defaults."""
    moves: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    """No more moves than these: the same as the setting of this name, for policies that have it."""


def plan(snapshot: Snapshot, chosen: PolicyChoice) -> PlanHint:
    """What a policy would do now."""
    made = chosen.rebalance(snapshot)
    return PlanHint(
        policy=chosen.policy.name,
        at=snapshot.at,
        actions=made.actions,
        reasons=made.reasons,
        left=made.left,
        watts_before=made.watts_before,
        watts_after=made.watts_after,
    )


def proposals(snapshot: Snapshot) -> Proposals:
    """A migration for each open bottleneck."""
    nodes = snapshot.nodes
    # Each is there to be looked at by itself, so that their number is no matter.
    settings = Stability(moves=int(nodes.bottleneck.sum()))
    found = []
    for each in propose(snapshot, settings):
        used_ratio = nodes.used_ratio[each.node, each.resource]
        found.append(
            Proposal(
                node=nodes.names[each.node],
                resource=RESOURCES[each.resource],
                used_ratio=None if np.isnan(used_ratio) else float(used_ratio),
                wake=each.wake,
                move=each.move,
                why_not=each.why_not,
            )
        )
    return Proposals(at=snapshot.at, proposals=found)


def policies() -> list[PolicyInfo]:
    """Every policy, with what can be chosen of it."""
    return [
        PolicyInfo(
            name=policy.name,
            summary=policy.summary,
            places=policy.place is not None,
            plans=policy.rebalance is not None,
            settings=_schema(policy.settings),
        )
        for policy in POLICIES.values()
    ]


def _schema(settings: type[PolicySettings]) -> dict[str, Any]:
    (_,), components = msgspec.json.schema_components([settings])
    schema: dict[str, Any] = components[settings.__name__]
    return {name: schema["properties"][name] for name in schema["properties"]}
