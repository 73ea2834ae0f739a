"""Measured start-up times."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil, isnan, nan
from statistics import median_high
from typing import NamedTuple

_PERCENTILE = 0.95


class Startup(NamedTuple):
    """A measured start-up time."""

    seconds: float
    is_same_node: bool
    """Whether the instance ran on the same node before."""
    node: str
    """Empty if unknown."""


class StartupTimes:
    """Counts of start-up times, rounded to two digits: memory stays small, and the order does not matter."""

    __slots__ = ("_counts", "other_node", "same_node")

    def __init__(self) -> None:
        self._counts: Counter[tuple[bool, float]] = Counter()
        self.other_node = self.same_node = nan
        """The 95th percentile on another node or at the first start, and on the node of the last run."""

    def update(self, removed: Iterable[Startup], added: Iterable[Startup]) -> None:
        """Add start-up times, and remove some that were added before."""
        for change, startups in ((-1, removed), (1, added)):
            for each in startups:
                self._counts[each.is_same_node, float(f"{each.seconds:.2g}")] += change
        self._counts = +self._counts
        self.other_node, self.same_node = (
            _percentile(
                {seconds: count for (is_same, seconds), count in self._counts.items() if is_same is kind}
            )
            for kind in (False, True)
        )


def _percentile(counts: Mapping[float, int]) -> float:
    rank = ceil(_PERCENTILE * sum(counts.values()))
    for seconds in sorted(counts):
        rank -= counts[seconds]
        if rank <= 0:
            return seconds
    return nan


def median_of(values: Iterable[float]) -> float:
    """The median of values that are known; 0 without any."""
    known = [each for each in values if not isnan(each)]
    return median_high(known) if known else 0.0
