"""Rules of all elasticity policies: bounds of the size of a service, its cool-down, and exploration."""

from collections.abc import Sequence
from math import ceil, isfinite

from collector.features.elastic.scaling.interface import ElasticDecision, Observation
from collector.features.elastic.settings import Target

_ROUNDING = 1e-9
_DIGITS = 6
"""CPU limits are rounded to a millionth of a core, so that equal limits compare equal."""
_MOST_SIZES = 10_000
"""Most sizes (replicas times CPU limits) that policies compare: about a second of CPU time. Labels of a
service set its bounds, and they must not exhaust the collector's time or memory."""
USAGE_UNKNOWN = "CPU usage of the service is unknown"


def cpu_levels(target: Target, limit_cores: float | None) -> tuple[float, ...]:
    """The CPU limits that a replica may have, ascending; one level if the limit stays as it is.

    If there are more levels than policies can compare, only every second, third and so on is returned.
    """
    if limit_cores is None:
        return (target.cpu_max_cores,)
    if target.cpu_step_cores <= 0 or target.cpu_max_cores <= target.cpu_min_cores:
        return (limit_cores,)
    step = max(target.cpu_step_cores, 10.0**-_DIGITS)
    count = int((target.cpu_max_cores - target.cpu_min_cores) / step + _ROUNDING) + 1
    most = max(2, _MOST_SIZES // max(1, target.replicas_max - target.replicas_min + 1))
    return tuple(
        round(target.cpu_min_cores + place * step, _DIGITS) for place in range(0, count, ceil(count / most))
    )


def nearest_level(levels: Sequence[float], cores: float | None) -> int:
    """The index of the level nearest to a limit; without a limit, that of the highest."""
    if cores is None:
        return len(levels) - 1
    return min(range(len(levels)), key=lambda place: abs(levels[place] - cores))


def utilization(observed: Observation, limit_cores: float) -> float | None:
    """Share of their CPU limits that the replicas use; None if it is unknown."""
    capacity = observed.replicas * limit_cores
    used = observed.cpu_used_cores
    if used is None or not isfinite(used) or used < 0 or capacity <= 0:
        return None
    return used / capacity


def valid_metric(observed: Observation) -> float | None:
    """The metric if it is finite and not negative; else None."""
    metric = observed.metric
    return None if metric is None or not isfinite(metric) or metric < 0 else metric


def breaks_target(target: Target, observed: Observation) -> bool:
    """Whether the metric is known and above its bound."""
    metric = valid_metric(observed)
    return metric is not None and metric > target.metric_max


def may_explore(target: Target, observed: Observation) -> bool:
    """Whether a policy may try an unknown action: only while the metric is known and meets its target."""
    return target.explore and valid_metric(observed) is not None and not breaks_target(target, observed)


def is_cooling(target: Target, observed: Observation) -> bool:
    """Whether the last change is too recent for another one; a change in the future does not count."""
    if observed.changed_at_seconds is None:
        return False
    return 0 <= observed.at_seconds - observed.changed_at_seconds < target.cool_down_seconds - _ROUNDING


def bounded(target: Target, replicas: int) -> int:
    """The number of replicas within the bounds of the target."""
    return max(target.replicas_min, min(target.replicas_max, replicas))


def changes_size(decision: ElasticDecision, observed: Observation) -> bool:
    """Whether a decision changes the replicas or the CPU limit of a service."""
    return (decision.replicas, decision.cpu_limit_cores) != (observed.replicas, observed.cpu_limit_cores)


def decide_within(  # noqa: PLR0913 - the fields of a decision
    target: Target,
    observed: Observation,
    replicas: int,
    limit_cores: float | None,
    reasons: Sequence[str],
    *,
    learned: bytes,
    explored: bool = False,
) -> ElasticDecision:
    """A decision for this size that keeps the bounds of the target and the cool-down."""
    replicas = bounded(target, replicas)
    if limit_cores is None or observed.cpu_limit_cores is None or target.cpu_step_cores <= 0:
        limit_cores = observed.cpu_limit_cores
    if limit_cores is not None and target.cpu_step_cores > 0:
        limit_cores = max(target.cpu_min_cores, min(target.cpu_max_cores, limit_cores))
    changes = replicas != observed.replicas or limit_cores != observed.cpu_limit_cores
    if changes and is_cooling(target, observed):
        since = observed.at_seconds - (observed.changed_at_seconds or 0.0)
        wait = f"the last change began {since:.0f} s ago, the cool-down is {target.cool_down_seconds:.0f} s"
        return ElasticDecision(
            replicas=observed.replicas,
            cpu_limit_cores=observed.cpu_limit_cores,
            reasons=(wait, *reasons),
            learned=learned,
        )
    return ElasticDecision(
        replicas=replicas,
        cpu_limit_cores=limit_cores,
        reasons=tuple(reasons),
        learned=learned,
        explored=explored and changes,
    )
