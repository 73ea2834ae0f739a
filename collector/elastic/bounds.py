"""Shared by all policies: the bounds of a service, its cool-down, and when it may be explored."""

from collections.abc import Sequence
from hashlib import sha256
from math import ceil, isfinite

from collector.elastic.interface import ElasticDecision, Observation, Target

_ROUNDING = 1e-9
_DIGITS = 6
"""CPU limits are rounded to a millionth of a core, so that sums of steps compare equal."""
_WORD_BYTES = 8
_MOST_SIZES = 10_000
"""Numbers of replicas times CPU limits that policies compare: a second of CPU time. Anyone who may label a
service chooses its bounds, and must not take the collector's time or memory."""


def cpu_levels(target: Target, limit_cores: float | None) -> tuple[float, ...]:
    """The CPU limits that a replica may have, ascending; one level if the limit stays as it is.

    If there are more than policies can compare, it is every second, third and so on.
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
    """The place of the level nearest to a limit; without a limit, of the highest."""
    if cores is None:
        return len(levels) - 1
    return min(range(len(levels)), key=lambda place: abs(levels[place] - cores))


def utilization(seen: Observation, limit_cores: float) -> float | None:
    """Share of their limits that the replicas use; None if it is unknown."""
    capacity = seen.replicas * limit_cores
    used = seen.cpu_used_cores
    if used is None or not isfinite(used) or used < 0 or capacity <= 0:
        return None
    return used / capacity


def known_metric(seen: Observation) -> float | None:
    """The metric, if it is a number."""
    metric = seen.metric
    return None if metric is None or not isfinite(metric) or metric < 0 else metric


def breaks_target(target: Target, seen: Observation) -> bool:
    """Whether the metric is known and above its bound."""
    metric = known_metric(seen)
    return metric is not None and metric > target.metric_max


def may_explore(target: Target, seen: Observation) -> bool:
    """Whether a policy may draw an action at random: only if the target is known to be met."""
    return target.explore and known_metric(seen) is not None and not breaks_target(target, seen)


def is_cooling(target: Target, seen: Observation) -> bool:
    """Whether the last change is too recent for another one; one in the future is of a wrong clock."""
    if seen.changed_at_seconds is None:
        return False
    return 0 <= seen.at_seconds - seen.changed_at_seconds < target.cool_down_seconds - _ROUNDING


def draws(target: Target, seen: Observation) -> tuple[float, float]:
    """Two numbers from 0 to 1 that look random, and depend on the service and the time only."""
    digest = sha256(f"{target.service}\n{seen.at_seconds!r}".encode()).digest()
    one, other = (
        int.from_bytes(digest[place : place + _WORD_BYTES], "big") / 2 ** (8 * _WORD_BYTES)
        for place in (0, _WORD_BYTES)
    )
    return one, other


def bounded(target: Target, replicas: int) -> int:
    """The number of replicas, within the bounds."""
    return max(target.replicas_min, min(target.replicas_max, replicas))


def decide_within(  # noqa: PLR0913 - the fields of a decision
    target: Target,
    seen: Observation,
    replicas: int,
    limit_cores: float | None,
    reasons: Sequence[str],
    *,
    learned: bytes,
    explored: bool = False,
) -> ElasticDecision:
    """A decision that keeps the bounds and the cool-down, whatever the policy wants."""
    replicas = bounded(target, replicas)
    if limit_cores is None or seen.cpu_limit_cores is None or target.cpu_step_cores <= 0:
        limit_cores = seen.cpu_limit_cores
    if limit_cores is not None and target.cpu_step_cores > 0:
        limit_cores = max(target.cpu_min_cores, min(target.cpu_max_cores, limit_cores))
    changes = replicas != seen.replicas or limit_cores != seen.cpu_limit_cores
    if changes and is_cooling(target, seen):
        since = seen.at_seconds - (seen.changed_at_seconds or 0.0)
        wait = f"the last change began {since:.0f} s ago, the cool-down is {target.cool_down_seconds:.0f} s"
        return ElasticDecision(
            replicas=seen.replicas,
            cpu_limit_cores=seen.cpu_limit_cores,
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
