"""The policies to compare, with their settings, from the names that a user gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from collector.config import CollectorConfig, PlacementConfig
from collector.policies.resolve import PolicyChoice, SettingsError, resolve
from replay.setup.scenario import Choice, Scenario, Simulation
from wire.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A policy with the settings of its run."""

    name: str
    chosen: PolicyChoice
    collector: CollectorConfig
    simulation: Simulation

    @property
    def has_admission(self) -> bool:
        """Whether the collector's admission refuses risky nodes."""
        if self.simulation.admission is not None:
            return self.simulation.admission
        return self.chosen.policy.name == PlacementConfig().policy and not self.simulation.exact


def resolve_contenders(names: Sequence[str], scenario: Scenario) -> list[Contender]:
    """Resolve the names of policies, each once, in this order.

    A name is one of `[policies]`, or a policy's own; settings may follow it: `NAME:KEY=VALUE:KEY=VALUE`.
    """
    return [_contender(name, scenario) for name in dict.fromkeys(names)]


def _contender(text: str, scenario: Scenario) -> Contender:
    name, assigned = parse_assignments(text)
    choice = scenario.policies.get(name, Choice(policy=name))
    given = {**choice.settings, **assigned}
    try:
        resolved = resolve(choice.policy, given, aliases=scenario.policies, strict=False)
    except SettingsError as invalid:
        raise UserError(f"the settings of {text}: {invalid.error}") from None
    return Contender(
        name=text,
        chosen=resolved,
        collector=_converted(
            {
                # Live, users name applications that span nodes, if no orchestrator lists their services.
                "applications": {each.name: {} for each in scenario.applications},
                **choice.collector,
                "control": {**scenario.control, **choice.control},
            },
            CollectorConfig,
            f"the collector's settings of {text}",
        ),
        simulation=_converted(
            {**msgspec.structs.asdict(scenario.simulation), **choice.simulation},
            Simulation,
            f"the simulation of {text}",
        ),
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


def _converted(given: Mapping[str, Any], into: type[Any], what: str) -> Any:  # noqa: ANN401 - of the type `into`
    try:
        return msgspec.convert(given, into, strict=False)
    except msgspec.ValidationError as error:
        raise UserError(f"{what}: {error}") from None
