"""The figures of a run of an elastic service, in total and over time."""

from collections.abc import Sequence

import msgspec

from replay.simulation.accounting import JOULES_PER_KWH, SECONDS_PER_HOUR
from replay.simulation.elastic.run import Interval

_DAY_SECONDS = 86_400.0
_MINUTE_SECONDS = 60.0
_MILLI = 1000.0


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
    cpu_limit_mean_cores: float
    utilization_mean_ratio: float
    response_mean_ms: float | None
    """Mean of the metric over all intervals with requests."""
    intervals: int


class ElasticPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One interval, for the charts."""

    hours: float
    requests_per_second: float
    response_ms: float | None
    replicas: int
    cpu_limit_cores: float
    used_cores: float
    watts: float


class ElasticResults(msgspec.Struct, frozen=True):
    """All policies that were compared."""

    policies: dict[str, ElasticResult]


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
        replica_minutes=sum(each.replica_seconds for each in intervals) / _MINUTE_SECONDS,
        energy_kwh=sum(each.joules for each in intervals) / JOULES_PER_KWH,
        actions=actions,
        vertical_actions=sum(each.vertical for each in intervals),
        explored=sum(each.decision.explored for each in intervals),
        actions_ratio=actions / count,
        replicas_mean=sum(each.replicas for each in intervals) / count,
        cpu_limit_mean_cores=sum(each.limit_cores for each in intervals) / count,
        utilization_mean_ratio=sum(each.used_cores / (each.replicas * each.limit_cores) for each in intervals)
        / count,
        response_mean_ms=_MILLI * sum(metrics) / len(metrics) if metrics else None,
        intervals=count,
    )


def _violations(intervals: Sequence[Interval], metric_max: float) -> float:
    return sum(each.metric is not None and each.metric > metric_max for each in intervals) / len(intervals)


def elastic_points_of(intervals: Sequence[Interval]) -> list[ElasticPoint]:
    """A run over time, for the charts."""
    return [
        ElasticPoint(
            hours=each.begin_seconds / SECONDS_PER_HOUR,
            requests_per_second=each.requests / each.seconds,
            response_ms=None if each.metric is None else _MILLI * each.metric,
            replicas=each.replicas,
            cpu_limit_cores=each.limit_cores,
            used_cores=each.used_cores,
            watts=each.joules / each.seconds,
        )
        for each in intervals
    ]
