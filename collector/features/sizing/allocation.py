"""Sizes of all services together: reserve goes where it saves the most time above the request.

Usage tomorrow is that of the days before times an unknown factor. The logarithm of the factor has a logistic
distribution, whose width is the *spread*. An idle service may wake up: it counts as if it had the use of the
median service. From this follow the expected time above each size, and the unused reserve. A service gets the
size with the lowest cost of both, at one *price* of time above for all services: small services get much
room, which is cheap, and large ones little. The price is chosen so that all sizes together stay within a
budget. No service gets less than its envelope's percentile, more than twice its peak, or more than a limit
that it never reached.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.features.sizing.usage_table import UsageTimes

_STEPS = 40
_PRICES = (1e-3, 1e8)
"""Lowest and highest price, relative to the mean usage of all services: for no reserve, and for any."""
_STEEPEST = 60.0
_AT_ONCE = 500
_SAMPLE = 1000
"""Most services from which the price is computed."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How past days predict the next ones; learned from the services' own days."""

    half_life_days: float = inf
    """Age at which a day counts half."""
    spread: float = 0.1

    def weights(self, days: int) -> Floats:
        """The weight of each day, from the oldest."""
        ages = np.arange(days)[::-1]
        weights: Floats = np.exp2(-ages / self.half_life_days)
        return weights


@dataclass(frozen=True, eq=False, slots=True)
class Demand:
    """The demand of services for one resource, one row each."""

    times: UsageTimes
    least: Rows
    """The bin of the smallest size."""
    most: Floats
    """The largest size; infinite without one."""

    def rows(self, rows: Rows) -> "Demand":
        times = UsageTimes(self.times.edges, self.times.seconds[rows])
        return Demand(times, self.least[rows], self.most[rows])


class _Costs:
    """The unused reserve and the expected time above of each size."""

    def __init__(self, demand: Demand, spread: float, idle: float) -> None:
        times = demand.times
        self._edges, self._most = times.edges, demand.most
        shares = times.seconds / np.maximum(times.total[:, None], 1e-9)
        self._above = shares @ _exceeding(times.edges, spread, idle)
        unused = times.edges * np.cumsum(shares, axis=1) - np.cumsum(shares * times.edges, axis=1)
        self._unused = np.where(np.arange(times.edges.size) >= demand.least[:, None], unused, inf)

    def sizes(self, price: float) -> Floats:
        """The size of each service with the lowest cost at this price."""
        cheapest = (self._unused + price * self._above).argmin(axis=1)
        sizes: Floats = np.minimum(self._edges[cheapest], self._most)
        return sizes


def _exceeding(edges: Floats, spread: float, idle: float) -> Floats:
    """Per bin of past usage and per size: the probability that usage in the future exceeds the size."""
    expected = np.log(np.maximum(edges, max(idle, 1e-300)))
    sizes = np.log(np.maximum(edges, 1e-300))
    distance = np.clip((sizes[None, :] - expected[:, None]) / spread, -_STEEPEST, _STEEPEST)
    return 1 / (1 + np.exp(distance))


def _time_above(times: UsageTimes, spread: float, sizes: Floats) -> Floats:
    """The expected share of the time above each size, for services that go on as before."""
    shares = times.seconds / np.maximum(times.total[:, None], 1e-9)
    bins = np.maximum(np.searchsorted(times.edges, sizes * (1 + 1e-9), side="right") - 1, 0)
    above: Floats = np.einsum("ij,ji->i", shares, _exceeding(times.edges, spread, 0.0)[:, bins])
    return above


def allocate(demand: Demand, spread: float, budget: float) -> tuple[Floats, Floats]:
    """The sizes of all services within a budget, or the smallest sizes if these exceed it.

    Also the expected share of the time in which each service is above its size.
    """
    count = demand.least.size
    idle = idle_use(demand.times)
    price = _price(demand, spread, idle, budget)
    sizes, above = np.empty(count), np.empty(count)
    for start in range(0, count, _AT_ONCE):
        rows = np.arange(start, min(count, start + _AT_ONCE))
        part = demand.rows(rows)
        sizes[rows] = _Costs(part, spread, idle).sizes(price)
        above[rows] = _time_above(part.times, spread, sizes[rows])
    return sizes, above


def idle_use(times: UsageTimes) -> float:
    """The usage that an idle service may wake up to: the median of the mean usage of all services."""
    return float(np.median(times.mean)) if times.seconds.size else 0.0


def _price(demand: Demand, spread: float, idle: float, budget: float) -> float:
    count = demand.least.size
    rows = np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(np.intp)) if count else None
    mean = float(demand.times.mean.mean()) if count else 0.0
    if rows is None or not mean > 0:
        return 0.0
    low, high = (mean * each for each in _PRICES)
    costs = _Costs(demand.rows(rows), spread, idle)
    budget *= rows.size / count
    for _ in range(_STEPS):
        middle = float(np.sqrt(low * high))
        if costs.sizes(middle).sum() > budget:
            high = middle
        else:
            low = middle
    return low
