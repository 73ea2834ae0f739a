"""Plan replicas and CPU limits with a queueing model that corrects itself by what is observed.

The cost is that of ge-kube's learning policies: the probability that the target is broken, resources, and
changes, by their weights. But nothing is tried out: the demand until the next decision takes effect is
forecast, a queueing model says which metric each number of replicas and each limit leads to, and both have
the errors that they had before. Of all combinations, the one with the lowest cost is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite

import msgspec
import numpy as np
from numpy.typing import NDArray

from collector.elastic.bounds import (
    bounded,
    breaks_target,
    cpu_levels,
    decide_within,
    known_metric,
    nearest_level,
    utilization,
)
from collector.elastic.costs import adaptation_cost, resource_cost
from collector.elastic.demand import CpuDemand, Expected, forecast_demand, observe_demand
from collector.elastic.interface import ElasticDecision, ElasticPolicy, LearnedRow, Observation, Target
from collector.elastic.learned import decode_learned, encode_learned
from collector.elastic.response import SATURATED, Response, observe_metric, observe_start, predict_metric

_VERSION = "queueing/1"
_POINTS = 64
"""Of the distribution of a demand that is not known."""
_LEAST_METRIC, _MOST_METRIC = 1e-3, 1e6
"""Of its bound. A smaller metric counts as this much, since errors are relative. So does a larger one: it
says no more, and squares of what a query may return are no numbers."""
_GAP_INTERVALS = 2.5
"""After a longer time without an observation, the load may have done anything."""
_DECIMALS, _ROUNDING = 6, 1e-9
_Floats = NDArray[np.float64]


class _Knowledge(msgspec.Struct, frozen=True):
    demand: CpuDemand = CpuDemand()
    response: Response = Response()
    observed_seconds: float | None = None
    replicas: int = 0
    """When it was last observed; likewise the next."""
    limit_cores: float = 0.0
    decisions: float = 0.0
    changes: float = 0.0
    """How often it decided, and how often that was a change."""

    def __post_init__(self) -> None:
        if not 0 <= self.changes <= self.decisions < np.inf:
            raise ValueError("there are more changes than decisions")


@dataclass(frozen=True, slots=True)
class _Option:
    replicas: int
    limit_cores: float
    broken_ratio: float
    excess_ratio: float
    """Expected demand above its capacity, as a share of the capacity."""
    cost: float

    @property
    def capacity_cores(self) -> float:
        return self.replicas * self.limit_cores


def _decide(target: Target, seen: Observation, learned: bytes) -> ElasticDecision:
    known = decode_learned(learned, _VERSION, _Knowledge)
    levels = cpu_levels(target, seen.cpu_limit_cores)
    level = nearest_level(levels, seen.cpu_limit_cores)
    limit = levels[level] if seen.cpu_limit_cores is None else seen.cpu_limit_cores
    used = utilization(seen, limit)
    if used is None or seen.cpu_used_cores is None:
        return _without_usage(target, seen, known)
    known = _observe(target, seen, known, limit, used)
    ahead = _ahead_seconds(target, seen)
    if _is_saturated(target, seen, used):
        expected = _unknown_excess(seen.cpu_used_cores)
        reasons = [
            f"{used:.0%} of the CPU limit is used and the target is broken: demand is higher than usage"
        ]
    else:
        demand, expected = forecast_demand(known.demand, ahead)
        known = msgspec.structs.replace(known, demand=demand)
        reasons = [
            f"{expected.cores:.3g} cores expected within {ahead:.0f} s, {seen.cpu_used_cores:.3g} used now"
        ]
    options = _options(target, seen, known, levels, expected)
    best = min(options, key=lambda each: (each.cost, each.capacity_cores, each.replicas))
    if min(each.broken_ratio for each in options) > 1 / 2:
        best = _least_bad(options, seen.replicas * limit)
        reasons.append("no number of replicas within the bounds is likely to meet the target")
    reasons.append(
        f"{best.replicas} of {best.limit_cores:g} cores break the target with a probability of "
        f"{best.broken_ratio:.1%}, at a cost of {best.cost:.3f}"
    )
    return _finish(target, seen, known, best.replicas, best.limit_cores, reasons=reasons)


def _least_bad(options: Sequence[_Option], capacity_cores: float) -> _Option:
    """Where every size is likely to break the target: the one that helps most, and never a smaller one.

    By cost alone it would be the cheapest, since they are all equally bad. If size makes no difference, the
    size stays.
    """
    larger = [each for each in options if each.capacity_cores >= capacity_cores - _ROUNDING] or options
    return min(
        larger,
        key=lambda each: (
            round(each.broken_ratio, _DECIMALS),
            round(each.excess_ratio, _DECIMALS),
            each.capacity_cores,
            each.replicas,
        ),
    )


def _unknown_excess(used_cores: float) -> Expected:
    """Demand that is only known to be above what is used: each doubling is half as likely."""
    likely = (np.arange(_POINTS) + 0.5) / _POINTS
    return Expected(used_cores, 1 / (1 - likely), np.ones(_POINTS))


def _is_saturated(target: Target, seen: Observation, used: float) -> bool:
    """Whether demand is higher than what is used, and it is not known by how much."""
    return used >= SATURATED and (known_metric(seen) is None or breaks_target(target, seen))


def _ahead_seconds(target: Target, seen: Observation) -> float:
    """How long a decision must do: until the next one that may change something has taken effect."""
    return (seen.effect_seconds or 0.0) + max(target.decide_seconds, target.cool_down_seconds)


def _observe(target: Target, seen: Observation, known: _Knowledge, limit: float, used: float) -> _Knowledge:
    """Learn from an observation. The metric in the time of a change shows what a change adds."""
    response, metric = known.response, known_metric(seen)
    if metric is not None:
        metric = min(max(metric, _LEAST_METRIC * target.metric_max), _MOST_METRIC * target.metric_max)
    since = known.observed_seconds
    is_settled = seen.changed_at_seconds is None or (since is not None and seen.changed_at_seconds < since)
    if metric is not None and (is_settled or not response.is_known):
        response = observe_metric(response, limit, used, metric)
    elif metric is not None:
        new = _new_ratio(known.replicas, seen.replicas, vertical=limit != known.limit_cores)
        response = observe_start(response, limit, used, metric, new)
    assert seen.cpu_used_cores is not None
    demand = observe_demand(
        known.demand, seen.at_seconds, seen.cpu_used_cores, _GAP_INTERVALS * target.decide_seconds
    )
    return msgspec.structs.replace(
        known,
        response=response,
        demand=demand,
        observed_seconds=seen.at_seconds,
        replicas=seen.replicas,
        limit_cores=limit,
    )


def _new_ratio(before: int, after: int, *, vertical: bool) -> float:
    """Share of the replicas that are new after a change."""
    return 1.0 if vertical else max(0, after - before) / max(1, after)


def _options(
    target: Target, seen: Observation, known: _Knowledge, levels: Sequence[float], expected: Expected
) -> list[_Option]:
    """Every number of replicas and every limit, with its cost."""
    weights = target.weights
    lasts = (known.decisions + 2) / (known.changes + 1)
    highest = levels[-1]
    price = _resource_price(seen, expected.cores, max(target.replicas_min, target.replicas_max) * highest)
    may_shrink = known.response.is_known and not breaks_target(target, seen)
    capacity = seen.replicas * (highest if seen.cpu_limit_cores is None else seen.cpu_limit_cores)
    found = []
    demands = expected.cores * expected.factors
    for limit in levels:
        vertical = seen.cpu_limit_cores is not None and limit != seen.cpu_limit_cores
        for replicas in range(target.replicas_min, max(target.replicas_min, target.replicas_max) + 1):
            load = demands / (replicas * limit)
            new = _new_ratio(seen.replicas, replicas, vertical=vertical)
            steady = _broken_ratio(
                target, known.response, limit, load, new_ratio=0.0, weights=expected.weights
            )
            changing = (
                _broken_ratio(target, known.response, limit, load, new_ratio=new, weights=expected.weights)
                if new
                else steady
            )
            once = weights.performance * (changing - steady) + weights.adaptation * adaptation_cost(
                seen.replicas, replicas, vertical=vertical
            )
            resources = price * resource_cost(target, replicas, limit, highest)
            cost = weights.performance * steady + weights.resources * resources + once / lasts
            if may_shrink or replicas * limit >= capacity:
                excess = float(np.average(np.maximum(load - 1.0, 0.0), weights=expected.weights))
                found.append(_Option(replicas, limit, changing, excess, cost))
    return found or [_Option(bounded(target, seen.replicas), highest, 1.0, 0.0, 1.0)]


def _broken_ratio(  # noqa: PLR0913 - a load and what may happen to it
    target: Target, response: Response, limit: float, load: _Floats, *, new_ratio: float, weights: _Floats
) -> float:
    """How likely the target is broken under these loads, if this share of the replicas is new."""
    if not response.is_known:
        return float(np.average(load > target.utilization_target, weights=weights))
    metrics = predict_metric(response, limit, load) + new_ratio * response.starting
    residuals = np.sort(np.array((0.0, *response.residuals)))
    with np.errstate(divide="ignore"):
        room = np.log(target.metric_max / metrics)
    likely = 1 - np.searchsorted(residuals, room, side="right") / residuals.size
    return float(np.average(likely, weights=weights))


def _resource_price(seen: Observation, demand_cores: float, most_cores: float) -> float:
    """Share of the power that depends on what is reserved, if the most is reserved; 1 if it is unknown.

    The demand takes the same power whatever is reserved, and a reserved core the idle power of its node.
    """
    reserved, used = seen.reserved_core_watts, seen.used_core_watts
    if reserved is None or used is None or reserved <= 0 or used < 0:
        return 1.0
    idle = reserved * most_cores
    total = idle + used * demand_cores
    return idle / total if isfinite(total) else 1.0


def _without_usage(target: Target, seen: Observation, known: _Knowledge) -> ElasticDecision:
    """Without CPU usage there is no model: only add replicas while the target is broken."""
    metric = known_metric(seen)
    replicas, reason = seen.replicas, "CPU usage of the service is unknown"
    if metric is not None and metric > target.metric_max:
        replicas = ceil(seen.replicas * min(2.0, metric / target.metric_max))
        reason += "; the target is broken"
    return _finish(target, seen, known, replicas, None, reasons=[reason])


def _finish(  # noqa: PLR0913 - the fields of a decision
    target: Target,
    seen: Observation,
    known: _Knowledge,
    replicas: int,
    limit: float | None,
    *,
    reasons: Sequence[str],
) -> ElasticDecision:
    decision = decide_within(target, seen, replicas, limit, reasons, learned=b"")
    changed = (decision.replicas, decision.cpu_limit_cores) != (seen.replicas, seen.cpu_limit_cores)
    known = msgspec.structs.replace(known, decisions=known.decisions + 1, changes=known.changes + changed)
    return msgspec.structs.replace(decision, learned=encode_learned(_VERSION, known))


def _explain(target: Target, learned: bytes) -> tuple[LearnedRow, ...]:
    """The metric that the model expects, by the utilization of a replica with the highest limit."""
    known = decode_learned(learned, _VERSION, _Knowledge)
    if not known.response.is_known:
        return ()
    tenths = np.arange(1, 10) / 10
    limit = target.cpu_max_cores
    return tuple(
        LearnedRow(
            state=f"{used:.0%} of {limit:g} cores used",
            action=f"expected metric {metric:.4g}",
            cost=float(metric / target.metric_max),
            observed=len(known.response.residuals),
        )
        for used, metric in zip(tenths, predict_metric(known.response, limit, tenths), strict=True)
    )


QUEUEING = ElasticPolicy(
    name="queueing",
    summary="plan by a queueing model and a forecast of the load, both corrected by what is observed",
    decide=_decide,
    explain=_explain,
)
