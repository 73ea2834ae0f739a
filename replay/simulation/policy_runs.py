"""The policies to compare, with their settings, from the names that a user gives."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from collector.config import CollectorConfig, PlacementConfig
from collector.decide.policies import table as live
from collector.decide.policies.resolve import (
    PolicyChoice,
    SettingsError,
    beside_timer,
    find_policy,
    with_settings,
)
from replay.contenders.table import POLICIES
from replay.setup.scenario import Choice, Scenario, Simulation, convert_table
from wire.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRun:
    """A policy with the settings of its run."""

    name: str
    chosen: PolicyChoice
    """The policy that places containers."""
    timer: PolicyChoice | None = None
    """The policy that runs every `decide_seconds`: the same, unless `control.timer_policy` names another."""
    alerts: PolicyChoice | None = None
    """The policy that answers alerts: `control.policy`, for policies that the collector has as well."""
    collector: CollectorConfig
    simulation: Simulation

    @property
    def has_admission(self) -> bool:
        """Whether the collector's admission refuses risky nodes."""
        if self.simulation.admission is not None:
            return self.simulation.admission
        return self.chosen.policy.name == PlacementConfig().policy and not self.simulation.exact


def resolve_runs(names: Sequence[str], scenario: Scenario) -> list[PolicyRun]:
    """Resolve the names of policies, each once, in this order.

    A name is one of `[policies]`, or a policy's own; settings may follow it: `NAME:KEY=VALUE:KEY=VALUE`.
    """
    return [_policy_run(name, scenario) for name in dict.fromkeys(names)]


def _policy_run(text: str, scenario: Scenario) -> PolicyRun:
    name, assigned = parse_assignments(text)
    choice = scenario.policies.get(name, Choice(policy=name))
    given = {**choice.settings, **assigned}
    try:
        policy = find_policy(choice.policy, policies=POLICIES, aliases=scenario.policies)
        chosen = with_settings(policy, given, strict=False)
    except SettingsError as invalid:
        raise UserError(f"the settings of {text}: {invalid.error}") from None
    simulation = convert_table(
        {**msgspec.structs.asdict(scenario.simulation), **choice.simulation},
        Simulation,
        f"the simulation of {text}",
        strict=False,
    )
    runs_live = policy.name in live.POLICIES and not simulation.exact
    collector = convert_table(
        {
            # Live, users name applications that span nodes, if no orchestrator lists their services.
            "applications": {each.name: {} for each in scenario.applications},
            **choice.collector,
            "control": {
                **({} if runs_live else {"policy": ""}),
                "timer_policy": "" if policy.rebalance is None else policy.name,
                **scenario.control,
                **choice.control,
            },
        },
        CollectorConfig,
        f"the collector's settings of {text}",
        strict=False,
    )

    def deciding(name: str) -> PolicyChoice | None:
        if name == policy.name:
            return chosen
        if not name:
            return None
        other = find_policy(name, "rebalance", policies=POLICIES)
        return with_settings(other, collector.policies.get(name, {}), strict=False)

    timer, answers = deciding(collector.control.timer_policy), collector.control.policy
    return PolicyRun(
        name=text,
        chosen=chosen,
        timer=timer,
        alerts=beside_timer(deciding(answers), timer, collector.policies.get(answers, {})),
        collector=collector,
        simulation=simulation,
    )


def parse_assignments(text: str) -> tuple[str, dict[str, str]]:
    """Parse the name and the settings in `NAME:KEY=VALUE:KEY=VALUE`."""
    name, *assignments = text.split(":")
    return name, dict(_assigned(text, each) for each in assignments)


def _assigned(text: str, assignment: str) -> tuple[str, str]:
    key, equals, value = assignment.partition("=")
    if not equals:
        raise UserError(f"{text}: write settings as NAME:KEY=VALUE, such as consolidate:overload=lr")
    return key.strip(), value.strip()
