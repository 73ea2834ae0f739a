"""The policy that decides, with its settings as configured."""

from dataclasses import dataclass
from typing import Any

import msgspec

from collector.config import CollectorConfig
from collector.policies.interface import Plan, Policy, Settings
from collector.policies.table import POLICIES
from collector.snapshot.tables import Snapshot
from wire.errors import Complaint


@dataclass(frozen=True, slots=True)
class Chosen:
    """A policy that can make plans, and its settings."""

    policy: Policy
    settings: Settings

    def rebalance(self, snapshot: Snapshot) -> Plan:
        """What it would do now."""
        assert self.policy.rebalance is not None
        return self.policy.rebalance(snapshot, self.settings)


def choose(config: CollectorConfig, name: str, key: str) -> Chosen | None:
    """The policy that a key names, None if it is empty; raises `Complaint` if it cannot be."""
    if not name:
        return None
    planners = [policy.name for policy in POLICIES.values() if policy.rebalance is not None]
    if name not in planners:
        raise Complaint(f"{key}: {name!r} makes no plans: choose one of {', '.join(planners)}")
    return Chosen(POLICIES[name], settings_of(config, name))


def settings_of(config: CollectorConfig, name: str) -> Settings:
    """A policy's settings as configured; raises `Complaint` where they cannot be."""
    return read_settings(POLICIES[name], config.policies.get(name, {}), f"policies.{name}")


def read_settings(policy: Policy, told: dict[str, Any], key: str) -> Settings:
    """Settings as they are written down; raises `Complaint` where they cannot be."""
    try:
        return msgspec.convert(told, policy.settings)
    except msgspec.ValidationError as error:
        raise Complaint(f"{key}: {error}: GET /v1/policies lists what can be set") from error
