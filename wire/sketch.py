"""A histogram of all samples, small enough to send with each heartbeat.

The width of a bin grows with its value (Masson et al., "DDSketch", VLDB 2019): the relative error of every
value is at most one percent, for a hundredth of a core as for a terabyte. Sketches merge by adding their
bins, in any order: those of one container over hours, or those of all containers of a service.
"""

import math
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

RELATIVE_ERROR = 0.01
FLOORS = (1e-4, 1.0, 1.0, 1.0)
"""Values at or below this count as zero; in the order of `RESOURCES`, in their units."""
_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG_GAMMA = math.log(_GAMMA)

LOWEST_BIN, HIGHEST_BIN = -4000, 4000
Bin = Annotated[int, Meta(ge=LOWEST_BIN, le=HIGHEST_BIN)]
"""More bins than any quantity needs, and a bound on the size of a sketch that is received."""
Tally = Annotated[int, Meta(ge=0, le=1_000_000)]
"""More samples than an agent takes between two heartbeats: five a second for a day are 432,000."""


def bin_of(value: float) -> int:
    """The bin of a positive value."""
    return math.ceil(math.log(value) / _LOG_GAMMA)


def middle_of(index: int) -> float:
    """The value that represents a bin, within one percent of every value in it."""
    return 2 * math.exp(index * _LOG_GAMMA) / (_GAMMA + 1)


class Sketch(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A histogram of samples."""

    bins: dict[Bin, Tally] = {}
    """Number of samples per bin. Bin i holds the values up to (1.01 / 0.99)^i."""
    zeros: Tally = 0
    """Number of samples that are zero, or so small that they count as zero."""

    @property
    def count(self) -> int:
        return self.zeros + sum(self.bins.values())

    def add(self, value: float, floor: float = 0.0) -> None:
        """Count one sample; one that does not exceed `floor` counts as zero."""
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
        cumulative = self.zeros
        for index in sorted(self.bins):
            cumulative += self.bins[index]
            if cumulative >= rank:
                return middle_of(index)
        raise AssertionError("the ranks of all samples lie within the bins")


def merged(sketches: Iterable[Sketch]) -> Sketch:
    """Merge sketches into one; fastest if the largest is first."""
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
