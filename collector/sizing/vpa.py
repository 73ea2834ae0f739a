"""The recommender of Kubernetes' Vertical Pod Autoscaler, with its default flags.

Written from its public source (kubernetes/autoscaler, `vertical-pod-autoscaler/pkg/recommender`): samples go
into a histogram with exponential buckets, and their weight halves every 24 hours. CPU: the 90th percentile of
all samples. Memory: the 90th percentile of the peaks of 24 hours, of the last 8 days. To both, 15 % are
added.
"""

from math import ceil, floor, log

import numpy as np

from collector.common.arrays import Floats

HALF_LIFE_DAYS = 1.0
PERCENTILE = 0.90
MARGIN_RATIO = 0.15
MEMORY_DAYS = 8
MIN_CPU_CORES = 0.025
MIN_MEMORY_BYTES = 250.0 * (1 << 20)
_GROWTH = 1.05
_CPU_BUCKETS = (0.001, 1000.0)
_MEMORY_BUCKETS = (1e7, 1e12)
"""The size of the first bucket, and the start of the last."""


def recommend_cpu(cores: Floats, weights: Floats, percentile: float = PERCENTILE) -> float:
    """The recommended CPU request, from samples of CPU usage with their weights."""
    return max(MIN_CPU_CORES, _estimate(cores, weights, percentile, _CPU_BUCKETS))


def recommend_memory(peaks: Floats, weights: Floats, percentile: float = PERCENTILE) -> float:
    """The recommended memory request, from the peaks of 24 hours each with their weights."""
    return max(MIN_MEMORY_BYTES, _estimate(peaks, weights, percentile, _MEMORY_BUCKETS))


def decay(age_days: Floats) -> Floats:
    """The weights of samples of these ages."""
    weights: Floats = np.exp2(-age_days / HALF_LIFE_DAYS)
    return weights


def _estimate(values: Floats, weights: Floats, percentile: float, buckets: tuple[float, float]) -> float:
    """The weighted percentile with its margin."""
    order = np.argsort(values, kind="stable")
    values, below = values[order], np.cumsum(weights[order])
    place = min(int(np.searchsorted(below, percentile * below[-1] * (1 - 1e-9))), values.size - 1)
    return _bucket_end(float(values[place]), *buckets) * (1 + MARGIN_RATIO)


def _bucket_end(value: float, first: float, last: float) -> float:
    """The end of the bucket of a value, which the histogram returns for every value in the bucket."""
    most = ceil(log(last * (_GROWTH - 1) / first + 1, _GROWTH)) + 1
    bucket = min(floor(log(max(value, 0.0) * (_GROWTH - 1) / first + 1, _GROWTH) + 1e-9), most - 1)
    return first * float(_GROWTH ** min(bucket + 1, most - 1) - 1) / (_GROWTH - 1)
