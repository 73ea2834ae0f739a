"""The policy that decides, with its settings as configured."""

from dataclasses import dataclass
from typing import Any

import msgspec

from collector.config import CollectorConfig
from collector.policies.interface import Plan, Policy, PolicySettings
from collector.policies.table import POLICIES
from collector.snapshot.tables import Snapshot
from wire.errors import UserError


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy that can make plans, and its settings."""

    policy: Policy
    settings: PolicySettings

    def rebalance(self, snapshot: Snapshot) -> Plan:
        """What it would do now."""
        assert self.policy.rebalance is not None
        return self.policy.rebalance(snapshot, self.settings)


def choose(config: CollectorConfig, name: str, key: str) -> PolicyChoice | None:
    """The policy that a key names, None if it is empty; raises `UserError` if it cannot be."""
    if not name:
        return None
    planners = [policy.name for policy in POLICIES.values() if policy.rebalance is not None]
    if name not in planners:
        raise UserError(f"{key}: {name!r} makes no plans: choose one of {', '.join(planners)}")
    return PolicyChoice(POLICIES[name], settings_of(config, name))


def settings_of(config: CollectorConfig, name: str) -> PolicySettings:
    """A policy's settings as configured; raises `UserError` where they cannot be."""
    return read_settings(POLICIES[name], config.policies.get(name, {}), f"policies.{name}")


def read_settings(policy: Policy, told: dict[str, Any], key: str) -> PolicySettings:
    """Settings as they are written down; raises `UserError` where they cannot be."""
    try:
        return msgspec.convert(told, policy.settings)
    except msgspec.ValidationError as error:
        raise UserError(f"{key}: {error}: GET /v1/policies lists what can be set") from error
