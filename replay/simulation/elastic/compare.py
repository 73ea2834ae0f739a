"""Several policies on the same elastic service."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from collector.features.elastic.scaling.interface import ElasticPolicy
from replay.contenders.table import ELASTIC_POLICIES
from replay.generators.arrivals import Arrivals
from replay.setup.hosts import build_hosts
from replay.setup.scenario import Choice, Scenario
from replay.simulation.compare import Show
from replay.simulation.elastic.figures import (
    ElasticPoint,
    ElasticResults,
    elastic_points_of,
    elastic_result_of,
)
from replay.simulation.elastic.run import ElasticRun, run_elastic
from replay.simulation.policy_runs import parse_assignments
from wire.errors import UserError

_SETTING = "utilization_target"


@dataclass(frozen=True, slots=True)
class ElasticComparison:
    """The results of every policy, at the end and over time."""

    results: ElasticResults
    points: dict[str, list[ElasticPoint]]
    notes: dict[str, str]


def compare_elastic(
    names: Sequence[str], scenario: Scenario, arrivals: Arrivals, progress: Show
) -> ElasticComparison:
    """Run the elastic service of the scenario with each of these policies."""
    service, simulation = scenario.elastic, scenario.simulation
    if service is None:
        raise UserError("the scenario has no [elastic]: add one")
    if arrivals.seconds < simulation.decide_seconds:
        raise UserError("the arrivals end before the first decision: make them longer than decide_seconds")
    hosts = build_hosts(scenario.hosts, interleave=scenario.interleave, network=scenario.network)
    setup = ElasticRun(
        service=service,
        arrivals=arrivals,
        hosts=hosts,
        decide_seconds=simulation.decide_seconds,
        seed=simulation.seed,
    )
    chosen = {name: _policy(name, scenario.policies) for name in dict.fromkeys(names)}
    results, points = {}, {}
    for name, (policy, utilization_target) in chosen.items():
        with progress(name, arrivals.seconds) as update:
            intervals = run_elastic(policy, setup, utilization_target=utilization_target, progress=update)
        results[name] = elastic_result_of(intervals, service.metric_max)
        points[name] = elastic_points_of(intervals)
    notes = {name: choice.note for name, choice in scenario.policies.items() if name in names and choice.note}
    return ElasticComparison(ElasticResults(results), points, notes)


def _policy(text: str, choices: Mapping[str, Choice]) -> tuple[ElasticPolicy, float | None]:
    """A policy by its name, or by one of `[policies]`; `NAME:utilization_target=VALUE` sets its target."""
    name, given = parse_assignments(text)
    choice = choices.get(name, Choice(policy=name))
    if choice.policy not in ELASTIC_POLICIES:
        known = ", ".join(ELASTIC_POLICIES)
        raise UserError(f"unknown elasticity policy {choice.policy!r}: use one of {known}")
    settings = {**choice.settings, **given}
    if unknown := [key for key in settings if key != _SETTING]:
        raise UserError(f"{text}: an elasticity policy has no setting {unknown[0]!r}, only {_SETTING}")
    try:
        value = msgspec.convert(settings.get(_SETTING), float | None, strict=False)
    except msgspec.ValidationError:
        value = 0.0
    if value is not None and not 0 < value <= 1:
        raise UserError(f"{text}: {_SETTING} must be above 0 and at most 1")
    return ELASTIC_POLICIES[choice.policy], value
