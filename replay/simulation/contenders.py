"""From the names that a person writes to policies with their settings."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from collector.policies.interface import Policy
from collector.policies.table import POLICIES
from replay.setup.scenario import Choice, Learning, Scenario, Simulation
from replay.simulation.run import Contender
from wire.errors import UserError


def contenders(names: Sequence[str], scenario: Scenario) -> list[Contender]:
    """The policies of these names, each once, in this order.

    A name is one of `[policies]`, or a policy's own; settings may follow it: `NAME:KEY=VALUE:KEY=VALUE`.
    """
    return [_contender(name, scenario) for name in dict.fromkeys(names)]


def _contender(text: str, scenario: Scenario) -> Contender:
    name, *assignments = text.split(":")
    choice = scenario.policies.get(name, Choice(policy=name))
    policy = _policy(choice.policy, scenario.policies)
    given = {**choice.settings, **dict(_assigned(text, each) for each in assignments)}
    return Contender(
        name=text,
        policy=policy,
        settings=_converted(given, policy.settings, f"the settings of {text}"),
        learning=_converted(
            {**msgspec.structs.asdict(scenario.learning), **choice.learning},
            Learning,
            f"the learning of {text}",
        ),
        simulation=_converted(
            {**msgspec.structs.asdict(scenario.simulation), **choice.simulation},
            Simulation,
            f"the simulation of {text}",
        ),
    )


def _policy(name: str, aliases: Mapping[str, Choice]) -> Policy:
    if name in POLICIES:
        return POLICIES[name]
    known = [*POLICIES, *aliases]
    near = difflib.get_close_matches(name, known, n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    raise UserError(f"there is no policy {name!r}: {advice}")


def _assigned(text: str, assignment: str) -> tuple[str, str]:
    key, equals, value = assignment.partition("=")
    if not equals:
        raise UserError(f"{text}: write settings as NAME:KEY=VALUE, such as consolidate:overload=lr")
    return key.strip(), value.strip()


def _converted(given: Mapping[str, Any], into: type[Any], what: str) -> Any:  # noqa: ANN401 - as `into` says
    try:
        return msgspec.convert(given, into, strict=False)
    except msgspec.ValidationError as error:
        raise UserError(f"{what}: {error}") from None
