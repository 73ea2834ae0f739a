"""The CPU demand of a service in cores: observed at each decision, and forecast until the next one.

The expected growth is a linear function of the last growth, of the growth at the same time of earlier days,
and of the difference between demand and that of earlier days. Its coefficients are fitted to past forecasts,
and its errors are those in similar situations.
"""

from math import exp, log

import msgspec
import numpy as np

from collector.common.arrays import Floats

_DAY_SECONDS = 86_400.0
_SLOTS = 480
"""A day in slots of three minutes."""
_DAYS = 7
"""Days that count in the usual demand of a slot."""
_KEPT = 480
"""Forecasts that are kept to learn from: those of a day, if decisions are three minutes apart."""
_RIDGE = 0.01
"""Keeps the coefficients near 0 while observations are few: demand is expected to stay as it is."""
_LEAST_CORES = 1e-3
"""Smallest demand that counts, since growth is relative."""
_MOST_GROWTH = log(10.0)
_ROUNDING = 1e-6
_REWEIGHTED = 5
_HUBER = 1.345 * 1.483
"""Errors above this multiple of their median count less: 95 % efficient if they are normal."""
_PRIOR_ERRORS = 0.1 * np.array((-1.64, -1.04, -0.67, -0.39, -0.13, 0.13, 0.39, 0.67, 1.04, 1.64))
"""Assumed errors: a normal distribution with a deviation of a tenth. They count as much as ten observed
ones."""


class Forecast(msgspec.Struct, frozen=True, array_like=True):
    """A forecast, and the highest demand until it was over."""

    growth: float
    """Growth before the forecast."""
    usual_growth: float
    """Growth at this time on earlier days."""
    below_usual: float
    """How far the usual demand was above the demand."""
    base: float
    """Logarithm of the demand at the time of the forecast."""
    highest: float
    """Logarithm of the highest demand from then on."""
    until_seconds: float


class CpuDemand(msgspec.Struct, frozen=True, array_like=True):
    """What was learned about the demand of a service."""

    at_seconds: float = 0.0
    """Time of the last observation."""
    last: float | None = None
    """Logarithm of the last demand."""
    growth: float = 0.0
    """Difference to the logarithm before."""
    usual: dict[int, tuple[float, int]] = {}
    """Per slot of the day: the usual logarithm of demand, and the number of days observed."""
    past: tuple[Forecast, ...] = ()
    """Forecasts that are over; the newest last."""
    pending: tuple[Forecast, ...] = ()


class Expected(msgspec.Struct, frozen=True):
    """The highest expected demand, and the factors by which it may be wrong, with their weights."""

    cores: float
    factors: Floats
    weights: Floats


def observe_demand(demand: CpuDemand, at_seconds: float, cores: float, gap_seconds: float) -> CpuDemand:
    """Add an observation, and close the forecasts that are over.

    After a gap of more than `gap_seconds`, pending forecasts are dropped.
    """
    now = log(max(cores, _LEAST_CORES))
    if not 0 < at_seconds - demand.at_seconds <= gap_seconds:
        demand = msgspec.structs.replace(demand, last=None, pending=())
    later = [msgspec.structs.replace(each, highest=max(each.highest, now)) for each in demand.pending]
    over = [each for each in later if each.until_seconds <= at_seconds + _ROUNDING]
    return msgspec.structs.replace(
        demand,
        at_seconds=at_seconds,
        last=now,
        growth=0.0 if demand.last is None else now - demand.last,
        past=(*demand.past, *over)[-_KEPT:],
        pending=tuple(each for each in later if each.until_seconds > at_seconds + _ROUNDING),
    )


def forecast_demand(demand: CpuDemand, ahead_seconds: float) -> tuple[CpuDemand, Expected]:
    """Forecast the highest demand from now to this time ahead; also returns the demand with the forecast."""
    assert demand.last is not None
    slot, until = _slot(demand.at_seconds), demand.at_seconds + ahead_seconds
    usual, days = demand.usual.get(slot, (demand.last, 0))
    then, _ = demand.usual.get(_slot(until), (usual, 0))
    # The time ahead begins now: the size must suffice for the current demand too.
    made = Forecast(demand.growth, then - usual, usual - demand.last, demand.last, demand.last, until)
    expected = _expect(demand.past, made)
    days = min(days + 1, _DAYS)
    usual += (demand.last - usual) / days
    return (
        msgspec.structs.replace(
            demand, pending=(*demand.pending, made), usual={**demand.usual, slot: (usual, days)}
        ),
        expected,
    )


def _expect(past: tuple[Forecast, ...], made: Forecast) -> Expected:
    """Fit the growth to past forecasts, and weight their errors by the similarity of the situations."""
    table = np.array([msgspec.structs.astuple(each)[:5] for each in past]).reshape(-1, 5)
    features, base, grown = table[:, :3], table[:, 3], table[:, 4] - table[:, 3]
    coefficients = _fit(features, grown)
    # A line through small changes does not hold for large ones: expect no growth that was never observed.
    bounds = 0.0, min(_MOST_GROWTH, grown.max(initial=0.0))
    now = np.array((made.growth, made.usual_growth, made.below_usual))
    growth = float(np.clip(coefficients @ now, *bounds))
    errors = grown - np.clip(features @ coefficients, *bounds)
    weights = _similarity(base - made.base) * _similarity(features[:, 0] - made.growth)
    return Expected(
        exp(made.base + growth),
        np.exp(np.concatenate([_PRIOR_ERRORS, errors])),
        np.concatenate([np.ones(_PRIOR_ERRORS.size), weights]),
    )


def _fit(features: Floats, grown: Floats) -> Floats:
    """Coefficients of a robust fit: large errors count less, by Huber's weights."""
    weights: Floats = np.ones(grown.size)
    coefficients: Floats = np.zeros(features.shape[1])
    for _ in range(_REWEIGHTED):
        weighted = features * weights[:, np.newaxis]
        squares = weighted.T @ features + _RIDGE * np.eye(features.shape[1])
        coefficients = np.asarray(np.linalg.solve(squares, weighted.T @ grown), dtype=np.float64)
        errors = np.abs(grown - features @ coefficients)
        usual = _HUBER * np.median(errors) if errors.size else 0.0
        weights = np.minimum(1.0, max(usual, _ROUNDING) / np.maximum(errors, _ROUNDING))
    return coefficients


def _similarity(differences: Floats) -> Floats:
    """Weights by a normal kernel, with Silverman's bandwidth for two dimensions."""
    if not differences.size:
        return differences
    width = differences.std() * differences.size ** (-1 / 6)
    weights: Floats = np.exp(-0.5 * (differences / max(width, _ROUNDING)) ** 2)
    return weights


def _slot(at_seconds: float) -> int:
    return int(at_seconds % _DAY_SECONDS / _DAY_SECONDS * _SLOTS + _ROUNDING) % _SLOTS
