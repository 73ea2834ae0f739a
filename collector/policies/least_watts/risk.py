"""How often nodes will be overloaded, and what the cluster has been through of late.

On real machines, what exceeds the expected for five minutes says nothing of the next five: a node is
overloaded again because it is nearly full by what is expected, and as often as its tasks wanted too much
together of late. So both are asked, and the present excess is not. What was overloaded and moved of late
decides how much of it is borne.
"""

from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np

from collector.policies.least_watts.cost import LeastWattsSettings
from collector.policies.outlook import CPU
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import NOWHERE, Snapshot

DAY_SECONDS = 86_400.0
_LATELY_SECONDS = 9_000.0
"""Moves are counted for as long."""
_GUESS_WINDOWS = 15.0
"""What is expected by means and variances counts as much as so many windows that were seen."""
_BORNE, _STRAINED = 1 / 3, 2 / 3
"""Parts of what the confidence leaves: borne by a node for good and before it is relieved; and by one that is
given something in need while too much is overloaded."""
_STRAINED_TIMES = 1.5
_FEWEST_SPENT_RATIO = 0.5
_LEAST_EASE, _MOST_EASE = 0.3, 2.0
_erfc = np.frompyfunc(erfc, 1, 1)


def overload_risk(
    expected: Floats, variance: Floats, limit: Floats, windows: Floats, *, without_newest: bool = False
) -> Floats:
    """The part of the time in which nodes will want more of their CPU than `limit`.

    `windows` is what their tasks used together of late: a row per node, the newest last. Without the newest,
    it is told of nodes that are overloaded now how often they will be again.
    """
    deviation = np.sqrt(np.maximum(variance, 0.0)) + 1e-9
    guess = np.asarray(_erfc((limit - expected) / deviation / sqrt(2)), dtype=np.float64) / 2
    seen = np.count_nonzero(windows > limit[:, None], axis=1)
    if without_newest:
        seen = np.maximum(seen - 1, 0)
    risk: Floats = (seen + _GUESS_WINDOWS * guess) / (windows.shape[1] + _GUESS_WINDOWS)
    return risk


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much risk is borne, by what happened of late."""

    for_good: float
    """By a node that is given something to save energy."""
    in_need: float
    """By a node that is given something to relieve another; else one is woken."""
    relieved_above: float
    """By an overloaded node, before something is taken from it."""
    may_empty: bool


def bounds(snapshot: Snapshot, settings: LeastWattsSettings) -> Bounds:
    """Feedback on overload and moves.

    The more was moved of late, by what the day has, the worse it must be before a node is relieved; the more
    was overloaded, by what is aimed at, the sooner. While there is too much of it, no node is emptied; and
    while there is far too much, nodes are woken.
    """
    left = 1.0 - settings.confidence
    overloaded = overloaded_ratio(snapshot, settings.relieve_ratio)
    spent = max(_spent_ratio(snapshot, settings.moves_per_day), _FEWEST_SPENT_RATIO)
    aim = settings.overload_ratio
    ease = min(max((aim / max(overloaded, 1e-9)) ** 0.5, _LEAST_EASE), _MOST_EASE)
    strained = overloaded > _STRAINED_TIMES * aim
    return Bounds(
        for_good=_BORNE * left,
        in_need=_STRAINED * left if strained else 1.0,
        relieved_above=_BORNE * left * spent**2 * ease,
        may_empty=overloaded <= aim,
    )


def overloaded_ratio(snapshot: Snapshot, limit: float) -> float:
    """The part of the windows of late in which nodes in use were overloaded."""
    cpu = snapshot.nodes.history[:, :, CPU]
    in_use = np.count_nonzero(cpu > 0)
    return np.count_nonzero(cpu > limit) / in_use if in_use else 0.0


def _spent_ratio(snapshot: Snapshot, moves_per_day: float) -> float:
    """How many tasks were moved of late, of those that may be in such a time."""
    tasks = snapshot.tasks
    moved = np.count_nonzero((tasks.came_from != NOWHERE) & (tasks.settled_seconds < _LATELY_SECONDS))
    allowed = moves_per_day * len(tasks.ids) * _LATELY_SECONDS / DAY_SECONDS
    return moved / max(allowed, 1.0)
