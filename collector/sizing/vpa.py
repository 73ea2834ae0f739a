"""The recommender of Kubernetes' Vertical Pod Autoscaler, with its default flags.

Written from its public source (kubernetes/autoscaler, `vertical-pod-autoscaler/pkg/recommender`): samples go
into a histogram with exponential buckets, and their weight halves every 24 hours. CPU: the 90th percentile of
all samples. Memory: the 90th percentile of the peaks of 24 hours, of the last 8 days. To both, 15 % are
added. The lower and upper bound, within which VPA leaves a container alone, are the 50th and 95th percentile,
scaled by how long the container was observed.
"""

from dataclasses import dataclass
from math import ceil, floor, log

import numpy as np

from collector.analysis.histograms import Floats

HALF_LIFE_DAYS = 1.0
TARGET, LOWER, UPPER = 0.90, 0.50, 0.95
MARGIN_RATIO = 0.15
MEMORY_DAYS = 8
MIN_CPU_CORES = 0.025
MIN_MEMORY_BYTES = 250.0 * (1 << 20)
_GROWTH = 1.05
_CPU_BUCKETS = (0.001, 1000.0)
_MEMORY_BUCKETS = (1e7, 1e12)
"""The size of the first bucket, and the start of the last."""
_LOWER_EXPONENT, _LOWER_MULTIPLIER = -2.0, 0.001
_UPPER_EXPONENT, _UPPER_MULTIPLIER = 1.0, 1.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What VPA recommends for one resource of a container."""

    target: float
    lower: float
    upper: float


def recommend_cpu(cores: Floats, weights: Floats, days: float, percentile: float = TARGET) -> Bounds:
    """From samples of CPU use with their weights, observed for so many days."""
    return _bounds(cores, weights, days, percentile, _CPU_BUCKETS, MIN_CPU_CORES)


def recommend_memory(peaks: Floats, weights: Floats, days: float, percentile: float = TARGET) -> Bounds:
    """From the peaks of 24 hours each with their weights, observed for so many days."""
    return _bounds(peaks, weights, days, percentile, _MEMORY_BUCKETS, MIN_MEMORY_BYTES)


def decay(age_days: Floats) -> Floats:
    """The weight of samples of this age."""
    weights: Floats = np.exp2(-age_days / HALF_LIFE_DAYS)
    return weights


def _bounds(  # noqa: PLR0913, PLR0917 - one for each resource
    values: Floats,
    weights: Floats,
    days: float,
    percentile: float,
    buckets: tuple[float, float],
    smallest: float,
) -> Bounds:
    order = np.argsort(values, kind="stable")
    values, below = values[order], np.cumsum(weights[order])
    confidence = max(days, 1e-9)

    def at(share: float, multiplier: float = 0.0, exponent: float = 1.0) -> float:
        place = min(int(np.searchsorted(below, share * below[-1] * (1 - 1e-9))), values.size - 1)
        estimate = _bucket_end(float(values[place]), *buckets) * (1 + MARGIN_RATIO)
        return max(smallest, estimate * float((1 + multiplier / confidence) ** exponent))

    return Bounds(
        target=at(percentile),
        lower=at(LOWER, _LOWER_MULTIPLIER, _LOWER_EXPONENT),
        upper=at(UPPER, _UPPER_MULTIPLIER, _UPPER_EXPONENT),
    )


def _bucket_end(value: float, first: float, last: float) -> float:
    """The end of the bucket of a value: a percentile in the histogram is that of its bucket."""
    most = ceil(log(last * (_GROWTH - 1) / first + 1, _GROWTH)) + 1
    bucket = min(floor(log(max(value, 0.0) * (_GROWTH - 1) / first + 1, _GROWTH) + 1e-9), most - 1)
    return first * float(_GROWTH ** min(bucket + 1, most - 1) - 1) / (_GROWTH - 1)
