"""Resolve a policy from its name and settings, as a settings file, a request or a scenario gives them."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from collector.decide.policies.interface import (
    ApplicationPlacement,
    Plan,
    Policy,
    PolicySettings,
    Ranking,
    Request,
    Stability,
)
from collector.decide.policies.table import POLICIES
from collector.snapshot.tables import Snapshot
from wire.errors import UserError

Ability = Literal["place", "rebalance"]
_LACKS: Mapping[Ability, str] = {"place": "does not place containers", "rebalance": "does not make plans"}
_ELSEWHERE = "policies to compare with, such as spread, are in `wattpack replay` only"

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `([^`]*)`")


class SettingsError(UserError):
    """Settings that a policy does not accept."""

    def __init__(self, error: msgspec.ValidationError, policy: Policy) -> None:
        found = _UNKNOWN_FIELD.match(str(error))
        valid = policy.settings.__struct_fields__
        near = difflib.get_close_matches(found[1], valid, n=1) if found else []
        did_you_mean = f": did you mean {near[0]!r}?" if near else ""
        self.error = error
        self.hint = f"{did_you_mean} (GET /v1/policies lists the settings of each policy)"
        super().__init__(f"{error}{self.hint}")


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy with its settings."""

    policy: Policy
    settings: PolicySettings

    def __reduce__(self) -> tuple[Any, ...]:
        # A policy consists of functions: it is found by its name.
        return _choice, (self.policy.name, self.settings)

    def with_caution(self, factor: float) -> "PolicyChoice":
        """Return the same policy with a caution that is at least this; itself if it weighs no gains."""
        settings = self.settings
        if not isinstance(settings, Stability) or factor <= settings.caution:
            return self
        return replace(self, settings=msgspec.structs.replace(settings, caution=factor))

    def place(self, snapshot: Snapshot, request: Request) -> Ranking:
        assert self.policy.place is not None
        return self.policy.place(snapshot, request, self.settings)

    def place_all(self, snapshot: Snapshot, requests: Sequence[Request]) -> ApplicationPlacement:
        """Place the containers of an application together. Takes seconds."""
        assert self.policy.place_all is not None
        return self.policy.place_all(snapshot, requests, self.settings)

    def rebalance(self, snapshot: Snapshot) -> Plan:
        assert self.policy.rebalance is not None
        return self.policy.rebalance(snapshot, self.settings)


def _choice(name: str, settings: PolicySettings) -> PolicyChoice:
    return PolicyChoice(POLICIES[name], settings)


def excluding(requests: Sequence[Request], nodes: frozenset[str]) -> list[Request]:
    """Return the requests for other nodes than these."""
    return [replace(each, exclude=each.exclude | nodes) if nodes else each for each in requests]


def find_policy(
    name: str,
    ability: Ability | None = None,
    *,
    policies: Mapping[str, Policy] = POLICIES,
    aliases: Iterable[str] = (),
) -> Policy:
    """Return the policy of this name. Raise `UserError` if there is none or it lacks the ability.

    `aliases` are other names that the user could have meant.
    """
    policy = policies.get(name)
    if policy is None:
        names = [*policies, *aliases]
        near = difflib.get_close_matches(name, names, n=1)
        advice = f"did you mean {near[0]!r}? Or choose" if near else "choose"
        elsewhere = f" ({_ELSEWHERE})" if policies is POLICIES else ""
        raise UserError(f"there is no policy {name!r}: {advice} one of {', '.join(names)}{elsewhere}")
    if ability is not None and getattr(policy, ability) is None:
        able = ", ".join(each.name for each in policies.values() if getattr(each, ability) is not None)
        raise UserError(f"policy {name!r} {_LACKS[ability]}: choose one of {able}")
    return policy


def with_settings(policy: Policy, settings: Mapping[str, Any], *, strict: bool = True) -> PolicyChoice:
    """Return a policy with these settings; the others have their defaults. Raise `SettingsError`.

    Without `strict`, numbers and booleans may be written as strings.
    """
    try:
        return PolicyChoice(policy, msgspec.convert(settings, policy.settings, strict=strict))
    except msgspec.ValidationError as error:
        raise SettingsError(error, policy) from error


def resolve(name: str, settings: Mapping[str, Any], ability: Ability | None = None) -> PolicyChoice:
    """Return the policy of this name with these settings. Raise `UserError` if there is no such policy."""
    return with_settings(find_policy(name, ability), settings)


def beside_timer(
    alerts: PolicyChoice | None, timer: PolicyChoice | None, given: Mapping[str, Any]
) -> PolicyChoice | None:
    """Return the policy on alerts as it runs beside the one on the timer; `given` are its settings.

    How full nodes are is decided once: by the policy on the timer, if it has margins of its own. Two policies
    with different limits undo the moves of each other.
    """
    if alerts is None or timer is None or not timer.policy.has_margins:
        return alerts
    if "usage_alerts" in given or not hasattr(alerts.settings, "usage_alerts"):
        return alerts
    return replace(alerts, settings=msgspec.structs.replace(alerts.settings, usage_alerts=False))
