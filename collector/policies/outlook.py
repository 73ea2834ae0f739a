"""The expected usage of tasks, and its sum on each node with a given confidence.

CPU, disk and network of many tasks seldom peak together, so means add up, and deviations add up in squares.
Memory does not fluctuate like this: there, envelopes add up. Recent windows, where they are stored, show load
that does peak together, which a sum of variances does not contain.
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.snapshot.columns import sum_by_node
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import Flags, Snapshot, Tasks
from wire.resources import RESOURCES, Quantities, Resource

CPU, MEMORY = RESOURCES.index(Resource.CPU), RESOURCES.index(Resource.MEMORY)
BURSTS = 3.0
"""Number of deviations kept free for disk and network, whose bursts no normal distribution describes."""
LOOK_BACK = 30
FEW_SECONDS = 3600.0
"""A mean of less than an hour of observation is not reliable."""
_NEWEST_WEIGHT = 0.9
"""Maximum weight of the newest windows against the whole day."""
_PRIOR_SAMPLES = 3.0
"""Number of recent windows that an estimate from other tasks, or from another day, counts as."""

Four = tuple[float, float, float, float]


def deviations(confidence: float) -> Floats:
    """How many deviations are kept free of each resource: memory needs none, its envelopes add up."""
    return np.array([NormalDist().inv_cdf(confidence), 0.0, BURSTS, BURSTS])


def needed(expected: Floats, variance: Floats, spread: Floats) -> Floats:
    """What sums of tasks need of each resource."""
    need: Floats = np.maximum(variance, 0.0)
    np.sqrt(need, out=need)
    need *= spread
    need += expected
    return need


def sway(tasks: NDArray[np.integer[Any]], correlation: float) -> Floats:
    """How many times the sum of its tasks' variances a node strays by, when they stray together in part.

    Of n that are alike, each pair correlated so, the sum has 1 + (n - 1) * correlation times the variance
    that it would have if each went its own way.
    """
    times: Floats = 1.0 + np.maximum(tasks - 1, 0) * correlation
    return times[:, None]


def amounts(row: Floats) -> Quantities:
    """A row of a column in words."""
    cpu, memory, disk, network = (float(each) for each in row)
    return Quantities(cpu, round(memory), disk, network)


@dataclass(frozen=True, eq=False)
class Forecast:
    """The expected usage of each task, its variance, and its recent usage."""

    expected: Floats
    variance: Floats
    history: Floats
    """CPU, the newest last; without columns if no windows are stored."""


def guessed(tasks: Tasks) -> Flags:
    """The tasks of which only the request is known."""
    few: Flags = (tasks.observed_seconds < FEW_SECONDS) & (tasks.variance[:, CPU] == 0)
    return few


def known_sums(snapshot: Snapshot, unknown_ratio: Four) -> tuple[Floats, Floats]:
    """Expected usage and variance by node; an unknown task counts as a share of its request.

    Corrects the sums of the snapshot for these few tasks.
    """
    expected = snapshot.nodes.mean.copy(order="F")
    expected[:, MEMORY] = snapshot.nodes.envelope_sum[:, MEMORY]
    less, strays = snapshot.cached(("not known", unknown_ratio), lambda: _not_known(snapshot, unknown_ratio))
    expected -= less
    return np.maximum(expected, 0.0, out=expected), snapshot.nodes.variance + strays


def _not_known(snapshot: Snapshot, unknown_ratio: Four) -> tuple[Floats, Floats]:
    """How much less unknown tasks are expected to use than the sums contain, and their variance."""
    tasks, count = snapshot.tasks, len(snapshot.nodes.names)
    rows = np.flatnonzero(guessed(tasks) & (tasks.observed_seconds == 0))
    counted = tasks.mean[rows]
    counted[:, MEMORY] = tasks.envelope[rows, MEMORY]
    share = np.nan_to_num(tasks.requested[rows], nan=0.0) * np.array(unknown_ratio)
    where = tasks.node[rows]
    less, strays = sum_by_node(where, counted - share, count), sum_by_node(where, np.square(share), count)
    return np.asfortranarray(less), np.asfortranarray(strays)


def forecast(snapshot: Snapshot) -> Forecast:
    """The expected usage of each task: its recent usage, smoothed by that of the whole day.

    A new task is estimated by the share of their requests that others use, until it has samples of its own.
    """
    tasks = snapshot.tasks
    expected, variance = tasks.mean.copy(), tasks.variance.copy()
    expected[:, MEMORY] = np.fmax(tasks.envelope[:, MEMORY], np.nan_to_num(tasks.used[:, MEMORY], nan=0.0))
    history = tasks.windows[:, -LOOK_BACK:, CPU] if tasks.windows.shape[1] else np.empty((len(tasks.ids), 0))
    seen = np.count_nonzero(~np.isnan(history), axis=1)
    filled = np.nan_to_num(history, nan=0.0).astype(np.float64)
    some = np.maximum(seen, 1)
    recent = filled.sum(axis=1) / some
    strays = np.maximum(np.square(filled).sum(axis=1) / some - np.square(recent), 0.0)
    new = guessed(tasks) & ~np.isnan(tasks.used[:, CPU])
    if new.any():
        _estimate(tasks, new, expected, variance)
        weight = seen[new] / (seen[new] + _PRIOR_SAMPLES)
        variance[new, CPU] = (1 - weight) * variance[new, CPU] + weight * strays[new]
    weight = seen / (seen + _PRIOR_SAMPLES)
    weight = np.where(new, weight, np.minimum(weight, _NEWEST_WEIGHT))
    expected[:, CPU] = weight * recent + (1 - weight) * expected[:, CPU]
    return Forecast(expected, variance, filled)


def _estimate(tasks: Tasks, new: Flags, expected: Floats, variance: Floats) -> None:
    """Estimate the usage of new tasks by the share of their requests that all tasks use."""
    asked, used = np.nan_to_num(tasks.requested, nan=0.0), np.nan_to_num(tasks.used, nan=0.0)
    is_reported = ~np.isnan(tasks.used[:, CPU])
    for place in range(len(RESOURCES)):
        of = is_reported & (asked[:, place] > 0)
        if not of.any():
            continue
        shares = used[of, place] / asked[of, place]
        mean = used[of, place].sum() / asked[of, place].sum()
        if place == MEMORY:
            expected[new, place] = used[new, place]
        else:
            expected[new, place] = asked[new, place] * mean
            variance[new, place] = np.square(asked[new, place] * shares.std())
