"""Plan replicas and CPU limits with a queueing model that observations correct.

The cost is that of ge-kube's learning policies: the probability that the target is broken, resources, and
changes, by their weights. But this policy does not explore. It forecasts the demand until the next decision
takes effect, and predicts the metric for each number of replicas and each limit with a queueing model. Both
are expected to have the errors that they had before. The combination with the lowest cost is chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite

import msgspec
import numpy as np

from collector.common.arrays import Floats
from collector.features.elastic.scaling.demand import CpuDemand, Expected, forecast_demand, observe_demand
from collector.features.elastic.scaling.interface import (
    USAGE_UNKNOWN,
    ElasticDecision,
    Observation,
    Target,
    bounded,
    breaks_target,
    changes_size,
    cpu_levels,
    decide_within,
    decode_learned,
    encode_learned,
    nearest_level,
    utilization,
    valid_metric,
)
from collector.features.elastic.scaling.model_based import adaptation_cost, resource_cost
from collector.features.elastic.scaling.response import (
    SATURATED,
    Response,
    observe_metric,
    observe_start,
    predict_metric,
)

_VERSION = "queueing/1"
_POINTS = 64
"""Points of the distribution of an unknown demand."""
_LEAST_METRIC, _MOST_METRIC = 1e-3, 1e6
"""Smallest and largest metric that counts, relative to its bound: errors are relative, and the square of a
larger number may overflow."""
_GAP_INTERVALS = 2.5
"""After more intervals than this without an observation, the last growth of the load says nothing."""
_DECIMALS, _ROUNDING = 6, 1e-9


class _Model(msgspec.Struct, frozen=True):
    """What the policy learned about a service."""

    demand: CpuDemand = CpuDemand()
    response: Response = Response()
    observed_seconds: float | None = None
    """Time of the last observation; the next two are the size of the service then."""
    replicas: int = 0
    limit_cores: float = 0.0
    decisions: float = 0.0
    """Number of decisions; the next is how many of them changed the size."""
    changes: float = 0.0


@dataclass(frozen=True, slots=True)
class _Option:
    """A size of the service, with its expected effect."""

    replicas: int
    limit_cores: float
    broken_ratio: float
    excess_ratio: float
    """Expected demand above the capacity, as a share of the capacity."""
    cost: float

    @property
    def capacity_cores(self) -> float:
        return self.replicas * self.limit_cores


def decide(target: Target, observed: Observation, learned: bytes) -> ElasticDecision:
    """Decide for a service; an `ElasticPolicy`."""
    model = decode_learned(learned, _VERSION, _Model)
    levels = cpu_levels(target, observed.cpu_limit_cores)
    level = nearest_level(levels, observed.cpu_limit_cores)
    limit = levels[level] if observed.cpu_limit_cores is None else observed.cpu_limit_cores
    used = utilization(observed, limit)
    if used is None or observed.cpu_used_cores is None:
        return _without_usage(target, observed, model)
    model = _observe(target, observed, model, limit, used)
    ahead = _ahead_seconds(target, observed)
    if _is_saturated(target, observed, used):
        expected = _unknown_excess(observed.cpu_used_cores)
        reasons = [
            f"{used:.0%} of the CPU limit is used and the target is broken: demand is higher than usage"
        ]
    else:
        demand, expected = forecast_demand(model.demand, ahead)
        model = msgspec.structs.replace(model, demand=demand)
        used_text = f"{observed.cpu_used_cores:.3g} used now"
        reasons = [f"{expected.cores:.3g} cores expected within {ahead:.0f} s, {used_text}"]
    options = _options(target, observed, model, levels, expected)
    best = min(options, key=lambda each: (each.cost, each.capacity_cores, each.replicas))
    if min(each.broken_ratio for each in options) > 1 / 2:
        best = _least_bad(options, observed.replicas * limit)
        reasons.append("no number of replicas within the bounds is likely to meet the target")
    reasons.append(
        f"{best.replicas} of {best.limit_cores:g} cores break the target with a probability of "
        f"{best.broken_ratio:.1%}, at a cost of {best.cost:.3f}"
    )
    return _finish(target, observed, model, best.replicas, best.limit_cores, reasons=reasons)


def _least_bad(options: Sequence[_Option], capacity_cores: float) -> _Option:
    """The size that helps most if every size is likely to break the target; never a smaller size than now.

    By cost alone, the cheapest size would win, since all are equally bad. If size makes no difference, the
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
    """Demand of which only a lower bound is known, the usage: each doubling is half as likely."""
    likely = (np.arange(_POINTS) + 0.5) / _POINTS
    return Expected(used_cores, 1 / (1 - likely), np.ones(_POINTS))


def _is_saturated(target: Target, observed: Observation, used: float) -> bool:
    """Whether demand is higher than usage, by an unknown amount."""
    return used >= SATURATED and (valid_metric(observed) is None or breaks_target(target, observed))


def _ahead_seconds(target: Target, observed: Observation) -> float:
    """How long a decision must suffice: until the next possible change has taken effect."""
    return (observed.effect_seconds or 0.0) + max(target.decide_seconds, target.cool_down_seconds)


def _observe(target: Target, observed: Observation, model: _Model, limit: float, used: float) -> _Model:
    """Learn from an observation. During a change, the metric shows how much the change adds to it."""
    response, metric = model.response, valid_metric(observed)
    if metric is not None:
        metric = min(max(metric, _LEAST_METRIC * target.metric_max), _MOST_METRIC * target.metric_max)
    since = model.observed_seconds
    is_settled = observed.changed_at_seconds is None or (
        since is not None and observed.changed_at_seconds < since
    )
    if metric is not None and (is_settled or not response.is_known):
        response = observe_metric(response, limit, used, metric)
    elif metric is not None:
        new = _new_ratio(model.replicas, observed.replicas, vertical=limit != model.limit_cores)
        response = observe_start(response, limit, used, metric, new)
    assert observed.cpu_used_cores is not None
    demand = observe_demand(
        model.demand, observed.at_seconds, observed.cpu_used_cores, _GAP_INTERVALS * target.decide_seconds
    )
    return msgspec.structs.replace(
        model,
        response=response,
        demand=demand,
        observed_seconds=observed.at_seconds,
        replicas=observed.replicas,
        limit_cores=limit,
    )


def _new_ratio(before: int, after: int, *, vertical: bool) -> float:
    """Share of the replicas that are new after a change."""
    return 1.0 if vertical else max(0, after - before) / max(1, after)


def _options(
    target: Target, observed: Observation, model: _Model, levels: Sequence[float], expected: Expected
) -> list[_Option]:
    """Every number of replicas and every CPU limit, with its cost."""
    weights = target.weights
    lasts = (model.decisions + 2) / (model.changes + 1)
    highest = levels[-1]
    price = _resource_price(observed, expected.cores, target.replicas_max * highest)
    may_shrink = model.response.is_known and not breaks_target(target, observed)
    capacity = observed.replicas * (highest if observed.cpu_limit_cores is None else observed.cpu_limit_cores)
    found = []
    demands = expected.cores * expected.factors
    for limit in levels:
        vertical = observed.cpu_limit_cores is not None and limit != observed.cpu_limit_cores
        for replicas in range(target.replicas_min, target.replicas_max + 1):
            load = demands / (replicas * limit)
            new = _new_ratio(observed.replicas, replicas, vertical=vertical)
            steady = _broken_ratio(
                target, model.response, limit, load, new_ratio=0.0, weights=expected.weights
            )
            changing = (
                _broken_ratio(target, model.response, limit, load, new_ratio=new, weights=expected.weights)
                if new
                else steady
            )
            once = weights.performance * (changing - steady) + weights.adaptation * adaptation_cost(
                observed.replicas, replicas, vertical=vertical
            )
            resources = price * resource_cost(target, replicas, limit, highest)
            cost = weights.performance * steady + weights.resources * resources + once / lasts
            if may_shrink or replicas * limit >= capacity:
                excess = float(np.average(np.maximum(load - 1.0, 0.0), weights=expected.weights))
                found.append(_Option(replicas, limit, changing, excess, cost))
    return found or [_Option(bounded(target, observed.replicas), highest, 1.0, 0.0, 1.0)]


def _broken_ratio(  # noqa: PLR0913 - the size, its load and the model
    target: Target, response: Response, limit: float, load: Floats, *, new_ratio: float, weights: Floats
) -> float:
    """The probability that the target is broken under these loads, if this share of the replicas is new."""
    if not response.is_known:
        return float(np.average(load > target.utilization_target, weights=weights))
    metrics = predict_metric(response, limit, load) + new_ratio * response.starting
    residuals = np.sort(np.array((0.0, *response.residuals)))
    with np.errstate(divide="ignore"):
        room = np.log(target.metric_max / metrics)
    likely = 1 - np.searchsorted(residuals, room, side="right") / residuals.size
    return float(np.average(likely, weights=weights))


def _resource_price(observed: Observation, demand_cores: float, most_cores: float) -> float:
    """Share of the power that depends on reservations, at the largest reservation; 1 if it is unknown.

    The demand takes the same power at any reservation; a reserved core takes the idle power of its node.
    """
    reserved, used = observed.reserved_core_watts, observed.used_core_watts
    if reserved is None or used is None or reserved <= 0 or used < 0:
        return 1.0
    idle = reserved * most_cores
    total = idle + used * demand_cores
    return idle / total if isfinite(total) else 1.0


def _without_usage(target: Target, observed: Observation, model: _Model) -> ElasticDecision:
    """Decide without CPU usage, and so without the model: only add replicas while the target is broken."""
    metric = valid_metric(observed)
    replicas, reason = observed.replicas, USAGE_UNKNOWN
    if metric is not None and metric > target.metric_max:
        replicas = ceil(observed.replicas * min(2.0, metric / target.metric_max))
        reason += "; the target is broken"
    return _finish(target, observed, model, replicas, None, reasons=[reason])


def _finish(  # noqa: PLR0913 - the fields of a decision
    target: Target,
    observed: Observation,
    model: _Model,
    replicas: int,
    limit: float | None,
    *,
    reasons: Sequence[str],
) -> ElasticDecision:
    decision = decide_within(target, observed, replicas, limit, reasons, learned=b"")
    model = msgspec.structs.replace(
        model, decisions=model.decisions + 1, changes=model.changes + changes_size(decision, observed)
    )
    return msgspec.structs.replace(decision, learned=encode_learned(_VERSION, model))
