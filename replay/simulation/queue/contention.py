"""How promises were kept under little and much contention, by intervals.

As in the study of QoS-driven scheduling, the run with `priority` tells the level of an interval: `high` if a
class other than the least important one has a request below its promise, `medium` if only the least important
one has, `low` if none has but some waited, `none` if all ran all the time.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from collector.common.arrays import Flags, Floats
from collector.features.promises.ledger.penalties import gini, is_broken
from collector.features.promises.ledger.promises import Promise
from replay.simulation.results import ContentionResult

Interval = Mapping[str, Floats]
"""The availability of each active request, by class."""


def level_of(interval: Interval, promises: Sequence[Promise]) -> str:
    """The level of contention of an interval, from the run with `priority`."""
    *important, last = sorted(promises, key=lambda each: each.importance)
    if any(_broken(interval, each).any() for each in important):
        return "high"
    if _broken(interval, last).any():
        return "medium"
    everything = np.concatenate(list(interval.values()))
    return "low" if is_broken(np.ones(everything.size), everything).any() else "none"


def by_level(
    levels: Sequence[str], intervals: Sequence[Interval], promises: Sequence[Promise]
) -> dict[str, dict[str, ContentionResult]]:
    """The results of each class in the intervals of each level."""
    found: dict[str, dict[str, ContentionResult]] = {}
    for level in dict.fromkeys(levels):
        for promise in promises:
            chosen = [
                each
                for of_interval, each in zip(levels, intervals, strict=True)
                if of_interval == level and each[promise.name].size
            ]
            if chosen:
                values = [each[promise.name] for each in chosen]
                found.setdefault(level, {})[promise.name] = ContentionResult(
                    intervals=len(chosen),
                    met_ratio=float(np.mean([1 - _broken(each, promise).mean() for each in chosen])),
                    min_availability=float(np.mean([each.min() for each in values])),
                    gini=float(np.mean([gini(each) for each in values])),
                )
    return found


def _broken(interval: Interval, promise: Promise) -> Flags:
    availability = interval[promise.name]
    return is_broken(np.full(availability.size, promise.availability), availability)
