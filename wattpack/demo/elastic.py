"""The elastic service of the demo: how its load changes, and how long its requests take. Pure.

A replica is a queue with one server (M/M/1) whose speed is its CPU limit, and the balancer gives each replica
the same part of the requests. The response time then has an exponential distribution, with the mean
`SERVICE_SECONDS / (1 - busy)`.
"""

from math import pi, sin

import numpy as np

from collector.common.arrays import Floats

SERVICE_SECONDS = 0.02
"""Response time of a replica without load."""
_WAVE_SECONDS, _WAVE_RATIO = 600.0, 0.6
"""Visitors come in waves of ten minutes, because nobody watches a demo for a day."""
_MOST_BUSY = 0.99
"""The highest load that counts: the queue is not carried over to the next sample."""


def visitors(since_start: float) -> float:
    """Load relative to the usual load at that time of day. The waves begin with the demo."""
    return 1.0 if since_start < 0 else 1.0 + _WAVE_RATIO * sin(2 * pi * since_start / _WAVE_SECONDS)


def response_seconds(busy: float, requests: int, rng: np.random.Generator) -> Floats:
    """Response times of a replica whose requests need this share of its CPU limit."""
    return rng.exponential(SERVICE_SECONDS / (1 - min(busy, _MOST_BUSY)), requests)
