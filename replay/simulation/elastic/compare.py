"""Several policies on the same elastic service, and the figures of each run, in total and over time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.features.elastic.scaling.interface import ElasticPolicy
from replay.contenders.table import ELASTIC_POLICIES
from replay.generators.arrivals import Arrivals
from replay.setup.elastic import MILLI
from replay.setup.hosts import build_hosts
from replay.setup.scenario import Choice, Scenario, Table, convert_table
from replay.simulation.accounting import JOULES_PER_KWH
from replay.simulation.compare import Compared, Show, notes_on
from replay.simulation.elastic.placement import Placement
from replay.simulation.elastic.run import ElasticRun, Interval, run_elastic
from replay.simulation.policy_runs import parse_assignments
from wire.errors import UserError

_DAY_SECONDS = 86_400.0
_MINUTE_SECONDS = 60.0


class ElasticResult(msgspec.Struct, frozen=True, kw_only=True):
    """One policy on one elastic service."""

    violations_ratio: float
    """Share of the intervals between two decisions in which the metric was above its bound."""
    violations_after_day_ratio: float | None
    """Violations without the first 24 hours; None if the run is not longer."""
    late_requests_ratio: float
    """Share of the requests that took longer than the bound."""
    core_minutes: float
    """CPU limits of all replicas, over time."""
    replica_minutes: float
    energy_kwh: float
    """Energy of the hosts that run replicas; the others are off."""
    actions: int
    vertical_actions: int
    """Changes of the CPU limit."""
    explored: int
    """Actions that were drawn at random."""
    actions_ratio: float
    """Share of the decisions that were a change."""
    replicas_mean: float
    hosts_mean: float | None = None
    cpu_limit_mean_cores: float
    utilization_mean_ratio: float
    response_mean_ms: float | None
    """Mean of the metric over all intervals with requests."""
    intervals: int


def elastic_result_of(intervals: Sequence[Interval], metric_max: float) -> ElasticResult:
    """The figures of a run."""
    later = [each for each in intervals if each.begin_seconds >= _DAY_SECONDS]
    requests = sum(each.requests for each in intervals)
    metrics = [each.metric for each in intervals if each.metric is not None]
    actions = sum(each.changed for each in intervals)
    count = len(intervals)
    return ElasticResult(
        violations_ratio=_violations(intervals, metric_max),
        violations_after_day_ratio=_violations(later, metric_max) if later else None,
        late_requests_ratio=sum(each.late for each in intervals) / max(1, requests),
        core_minutes=sum(each.core_seconds for each in intervals) / _MINUTE_SECONDS,
        replica_minutes=sum(each.replicas * each.seconds for each in intervals) / _MINUTE_SECONDS,
        energy_kwh=sum(each.joules for each in intervals) / JOULES_PER_KWH,
        actions=actions,
        vertical_actions=sum(each.vertical for each in intervals),
        explored=sum(each.decision.explored for each in intervals),
        actions_ratio=actions / count,
        replicas_mean=sum(each.replicas for each in intervals) / count,
        hosts_mean=sum(each.hosts for each in intervals) / count,
        cpu_limit_mean_cores=sum(each.limit_cores for each in intervals) / count,
        utilization_mean_ratio=sum(each.used_cores / (each.replicas * each.limit_cores) for each in intervals)
        / count,
        response_mean_ms=MILLI * sum(metrics) / len(metrics) if metrics else None,
        intervals=count,
    )


def _violations(intervals: Sequence[Interval], metric_max: float) -> float:
    return sum(each.metric is not None and each.metric > metric_max for each in intervals) / len(intervals)


ElasticComparison = Compared[ElasticResult, Interval]


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
    for name, (policy, settings) in chosen.items():
        placement = None
        if settings.placement is not None:
            placement = Placement(settings.placement, service, hosts, mesh=settings.mesh)
        placed = replace(setup, placement=placement)
        with progress(name, arrivals.seconds) as update:
            intervals = run_elastic(
                policy, placed, utilization_target=settings.utilization_target, progress=update
            )
        results[name] = elastic_result_of(intervals, service.metric_max)
        points[name] = intervals
    return ElasticComparison(results, points, notes_on(names, scenario))


class _Settings(Table, frozen=True, kw_only=True):
    """The settings that elasticity policies have here."""

    utilization_target: Annotated[float, Meta(gt=0, le=1)] | None = None
    placement: str | None = None
    """The policy that places replicas; without one, they are packed onto the nearest hosts."""
    mesh: bool = True
    """Whether that policy knows the round-trip times between hosts."""


def _policy(text: str, choices: Mapping[str, Choice]) -> tuple[ElasticPolicy, _Settings]:
    """A policy by its name, or by one of `[policies]`; `NAME:utilization_target=VALUE` sets its target."""
    name, given = parse_assignments(text)
    choice = choices.get(name, Choice(policy=name))
    if choice.policy not in ELASTIC_POLICIES:
        known = ", ".join(ELASTIC_POLICIES)
        raise UserError(f"unknown elasticity policy {choice.policy!r}: use one of {known}")
    settings = convert_table({**choice.settings, **given}, _Settings, f"the settings of {text}", strict=False)
    return ELASTIC_POLICIES[choice.policy], settings
