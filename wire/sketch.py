"""A histogram of every sample, small enough to be sent: what was said seldom is still known in full.

Bins grow with the value (Masson et al., "DDSketch", VLDB 2019): whatever lies in one is told within one
percent of itself, a hundredth of a core as well as a terabyte. Two sketches add up by adding their bins,
in any order, so an agent's can be merged over hours, and containers' over a service.
"""

import math
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

RELATIVE_ERROR = 0.01
FLOORS = (1e-4, 1.0, 1.0, 1.0)
"""In the order of `RESOURCES`: what is less, in cores, bytes and bytes per second, is as good as nothing."""
_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG_GAMMA = math.log(_GAMMA)

LOWEST_BIN, HIGHEST_BIN = -4000, 4000
Bin = Annotated[int, Meta(ge=LOWEST_BIN, le=HIGHEST_BIN)]
"""More than any quantity needs, and few enough that a stranger's sketch cannot grow without bound."""
Tally = Annotated[int, Meta(ge=0, le=2**63 - 1)]


def bin_of(value: float) -> int:
    """The bin that a positive value falls into."""
    return math.ceil(math.log(value) / _LOG_GAMMA)


def middle_of(index: int) -> float:
    """The value that stands for a bin: within one percent of all that fall into it."""
    return 2 * math.exp(index * _LOG_GAMMA) / (_GAMMA + 1)


class Sketch(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """How many samples fell into each bin; those that were nothing, or next to it, are counted as `zeros`."""

    bins: dict[Bin, Tally] = {}
    zeros: Tally = 0

    @property
    def count(self) -> int:
        return self.zeros + sum(self.bins.values())

    def add(self, value: float, floor: float = 0.0) -> None:
        """Count one sample; one that does not exceed `floor` counts as nothing."""
        if value <= floor:
            self.zeros += 1
        else:
            index = bin_of(value)
            self.bins[index] = self.bins.get(index, 0) + 1

    def quantile(self, q: float) -> float | None:
        """The value that a share `q` of the samples do not exceed (nearest rank); None without samples."""
        count = self.count
        if not count:
            return None
        rank = max(1, math.ceil(q * count))
        if rank <= self.zeros:
            return 0.0
        seen = self.zeros
        for index in sorted(self.bins):
            seen += self.bins[index]
            if seen >= rank:
                return middle_of(index)
        raise AssertionError("the ranks of all samples lie within the bins")


def merged(sketches: Iterable[Sketch]) -> Sketch:
    """All samples of several sketches in one. It is made fastest from the largest to the smallest."""
    total = Sketch()
    for sketch in sketches:
        total.zeros += sketch.zeros
        if not total.bins:
            total.bins = dict(sketch.bins)
            continue
        bins = total.bins
        for index, count in sketch.bins.items():
            bins[index] = bins.get(index, 0) + count
    return total
