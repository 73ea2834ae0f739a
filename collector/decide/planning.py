"""Plans of a policy, and the list of policies."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from collector.config import ControlConfig
from collector.decide.answers import PlanHint, PolicyInfo
from collector.decide.policies.interface import PolicySettings
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.policies.table import POLICIES
from collector.decide.question import Name
from collector.snapshot.tables import Snapshot


class RebalanceQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A question for a plan. It changes nothing."""

    policy: Name | None = None
    """Default: `control.timer_policy`, which the collector itself runs, or else `placement.policy`."""
    settings: dict[str, Any] = {}
    """Settings of the policy. Default: as configured."""
    moves: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    """Maximum number of moves; overrides the setting `moves`."""


def plan(snapshot: Snapshot, chosen: PolicyChoice, control: ControlConfig) -> PlanHint:
    """Return the plan of a policy."""
    made = chosen.rebalance(snapshot)
    return PlanHint(
        policy=chosen.policy.name,
        at=snapshot.at,
        actions=made.actions,
        reasons=made.reasons,
        left=made.left,
        timer_policy=control.timer_policy,
        alert_policy=control.policy,
        watts_before=made.watts_before,
        watts_after=made.watts_after,
    )


def policies() -> list[PolicyInfo]:
    """Return all policies with their settings."""
    return [
        PolicyInfo(
            name=policy.name,
            summary=policy.summary,
            for_whom=policy.for_whom,
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
