"""How the metric of a service depends on its load: a queueing model whose parameters are learned.

A replica is a server with its CPU limit as speed. With few requests, the metric is the sum of two parts: one
does not depend on CPU, and the other is the CPU time of a request at this speed. With more requests, they
wait: the second part grows as in a queue with as many servers as the limit has whole cores. The formula is
Sakasegawa's; for one server it is exact, and under processor sharing this holds for every distribution of CPU
times.
"""

from math import log, sqrt
from statistics import median

import msgspec
import numpy as np

from collector.common.arrays import Floats

_HALF_LIFE = 480
"""Half-life of the weight of an observation, in decisions: a day if they are three minutes apart."""
SATURATED = 0.95
"""Above this utilization, replicas are overloaded for a part of the time. Waiting times then depend on how
long that lasts, and say nothing about other loads."""
_FULL = 0.99
"""Largest utilization for which the formula is used."""
_RIDGE = 0.01
"""Until the load has varied, the whole metric is assumed to depend on CPU, which is cautious."""
_RESIDUALS = 480
_LEAST_SLOPE = 0.1
"""Smallest share of the metric that depends on CPU: a few observations cannot show that it is 0."""
_STARTS = 20
_BUSY = 0.8
"""Above this utilization, the effect of a change cannot be distinguished from that of waiting."""


class Response(msgspec.Struct, frozen=True, array_like=True):
    """What was learned about the metric."""

    squares: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Weighted sums of 1, of the load factor, and of its square; each relative to the metric."""
    products: tuple[float, float] = (0.0, 0.0)
    residuals: tuple[float, ...] = ()
    """The metric relative to the prediction of the model, as logarithms; the newest last."""
    starts: tuple[float, ...] = ()
    """How much past changes added to the metric, scaled to a change of every replica; the newest last."""

    @property
    def is_known(self) -> bool:
        """Whether the metric was observed."""
        return self.squares[2] > 0

    @property
    def starting(self) -> float:
        """How much a change of every replica adds to the metric."""
        return median(self.starts) if self.starts else 0.0

    def parts(self) -> tuple[float, float]:
        """The part of the metric that does not depend on CPU, and the part that does, on one idle core."""
        ones, both, factors = self.squares
        of_ones, of_factors = self.products
        fixed_ridge = _RIDGE * max(ones, 1e-12)
        determinant = (ones + fixed_ridge) * factors - both * both
        if determinant <= 0:
            return 0.0, of_factors / factors
        fixed = (of_ones * factors - of_factors * both) / determinant
        slope = (of_factors * (ones + fixed_ridge) - of_ones * both) / determinant
        if fixed < 0:
            return 0.0, of_factors / factors
        least = _LEAST_SLOPE * of_factors / factors
        return (fixed, slope) if slope >= least else (max(0.0, (of_ones - least * both) / ones), least)


def load_factor(limit_cores: float, utilization: Floats) -> Floats:
    """How many times longer a request takes than alone on one core."""
    servers = max(1.0, limit_cores)
    busy = np.clip(utilization, 0.0, _FULL)
    waiting = busy ** (sqrt(2 * (servers + 1)) - 1) / (servers * (1 - busy))
    factor: Floats = (1 + waiting) / min(1.0, limit_cores)
    return factor


def predict_metric(response: Response, limit_cores: float, utilization: Floats) -> Floats:
    """The metric at these utilizations; infinite if the replicas cannot keep up."""
    fixed, slope = response.parts()
    metric = fixed + slope * load_factor(limit_cores, utilization)
    # Requests pile up, even if the metric did not depend on CPU so far.
    found: Floats = np.where(utilization >= 1.0, np.inf, metric)
    return found


def observe_metric(response: Response, limit_cores: float, utilization: float, metric: float) -> Response:
    """Correct the model by an observation, unless the replicas were overloaded."""
    if utilization >= SATURATED:
        return response
    factor = float(load_factor(limit_cores, np.array([utilization]))[0])
    residuals = response.residuals
    if response.is_known:
        expected = float(predict_metric(response, limit_cores, np.array([utilization]))[0])
        residuals = (*residuals, log(metric / expected))[-_RESIDUALS:]
    keep = 0.5 ** (1 / _HALF_LIFE)
    ones, both, factors = (keep * each for each in response.squares)
    of_ones, of_factors = (keep * each for each in response.products)
    weight = 1 / metric**2
    return msgspec.structs.replace(
        response,
        squares=(ones + weight, both + weight * factor, factors + weight * factor**2),
        products=(of_ones + weight * metric, of_factors + weight * metric * factor),
        residuals=residuals,
    )


def observe_start(
    response: Response, limit_cores: float, utilization: float, metric: float, new_ratio: float
) -> Response:
    """Learn how much a change adds to the metric, from a change that replaced this share of the replicas."""
    if utilization >= _BUSY or new_ratio <= 0 or not response.is_known:
        return response
    expected = float(predict_metric(response, limit_cores, np.array([utilization]))[0])
    added = max(0.0, metric - expected) / new_ratio
    return msgspec.structs.replace(response, starts=(*response.starts, added)[-_STARTS:])
