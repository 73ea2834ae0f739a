"""Statistics of containers from the histograms of all their samples: percentiles, mean, variance, envelope.

One percentile does not fit all resources. Over a week of 498 virtual machines (Bitbrains), the 90th
percentiles of CPU add up to the highest total usage of all machines. Those of memory add up to three quarters
of it, of disk to less than half, of network to a seventh: disk and network are used in bursts. So each
resource has its own percentile. The envelope of a resource with bursts is the *mean above the percentile*,
which also covers how large bursts are.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from collector.analysis.histograms import BIN_BITS, VALUES, Keys
from collector.common.arrays import Floats, Numbers
from wire.resources import RESOURCES

_BIN_MASK = (1 << BIN_BITS) - 1
_PERCENTILES = (0.5, 0.9, 0.95, 0.99)
_ROUNDING = 1e-9
"""Relative tolerance when a rank is compared with a cumulative weight."""


class Statistic(IntEnum):
    """The columns of `statistics`."""

    P50 = 0
    P90 = 1
    P95 = 2
    P99 = 3
    MAX = 4
    MEAN = 5
    VARIANCE = 6
    ENVELOPE = 7


@dataclass(frozen=True, slots=True)
class EnvelopeRule:
    """How the envelope is computed, per resource in the order of `RESOURCES`."""

    percentile: tuple[float, ...] = (0.90, 0.99, 0.90, 0.97)
    bursts: tuple[bool, ...] = (False, False, True, True)
    """Whether the envelope is the mean above the percentile."""


DEFAULT_RULE = EnvelopeRule()


def statistics(keys: Keys, weights: Floats, rows: int, rule: EnvelopeRule) -> Floats:
    """Per row, resource and `Statistic`; NaN where a resource was not measured.

    `keys` are sorted and unique; `weights` are the time of each. A percentile is the value that was not
    exceeded for that share of the time (nearest rank), given as the middle of its bin.
    """
    places = len(RESOURCES)
    found = np.full((rows * places, len(Statistic)), np.nan)
    if not keys.size:
        return found.reshape(rows, places, len(Statistic))
    edges = np.searchsorted(keys >> BIN_BITS, np.arange(rows * places + 1))
    measured = np.flatnonzero(edges[1:] > edges[:-1])
    begin, end = edges[measured], edges[measured + 1]
    values = VALUES[keys & _BIN_MASK]
    below = np.concatenate(([0.0], np.cumsum(weights)))
    total = below[end] - below[begin]

    place = measured % places
    shares = np.empty((measured.size, len(_PERCENTILES) + 1))
    shares[:, :-1], shares[:, -1] = _PERCENTILES, np.array(rule.percentile)[place]
    # Relative to the start of each row: other rows must not change the last digit.
    ranks = (shares - _ROUNDING) * total[:, None]
    at = np.clip(np.searchsorted(below[1:], below[begin, None] + ranks), begin[:, None], end[:, None] - 1)
    quantiles = values[at]

    mean = np.add.reduceat(weights * values, begin) / total
    of = np.repeat(np.arange(measured.size), end - begin)
    variance = np.add.reduceat(weights * (values - mean[of]) ** 2, begin) / total
    within = below[1:] - below[begin][of]
    beyond = np.clip(within - ranks[of, -1], 0.0, weights)
    time_beyond = np.add.reduceat(beyond, begin)
    highest = values[end - 1]
    burst = np.divide(
        np.add.reduceat(beyond * values, begin), time_beyond, out=highest.copy(), where=time_beyond > 0
    )

    found[measured, : len(_PERCENTILES)] = quantiles[:, :-1]
    found[measured, Statistic.MAX] = highest
    found[measured, Statistic.MEAN] = mean
    found[measured, Statistic.VARIANCE] = variance
    has_bursts = np.array(rule.bursts)[place]
    found[measured, Statistic.ENVELOPE] = np.where(has_bursts, burst, quantiles[:, -1])
    return found.reshape(rows, places, len(Statistic))


def totals(keys: Keys, amounts: Numbers | Floats, rows: int) -> Floats:
    """The sum of each row, for the resource with the largest one."""
    places = len(RESOURCES)
    sums = np.bincount(keys >> BIN_BITS, weights=amounts, minlength=rows * places)
    most: Floats = sums.reshape(rows, places).max(axis=1, initial=0.0)
    return most
