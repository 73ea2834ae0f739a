"""The table model: measured points of CPU usage and watts, with straight lines between them."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from powermodels.common.interface import Load, Terms
from powermodels.models.basis import cpu
from powermodels.models.fitted import FittedModel, Ratio, Watts


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Watts at one load."""

    cpu_ratio: Ratio
    watts: Watts


def check_rising(points: Sequence[Point]) -> None:
    """Raise a `ValueError` unless load rises and watts never fall from point to point."""
    for before, after in pairwise(points):
        if after.cpu_ratio <= before.cpu_ratio or after.watts < before.watts:
            raise ValueError("the points of a table must have increasing load and non-decreasing watts")


def interpolate(points: Sequence[Point], cpu_ratio: float) -> float:
    """Watts at a load; below the first and above the last point, that point's. No points are no watts."""
    if not points:
        return 0.0
    after = bisect_right(points, cpu_ratio, key=lambda point: point.cpu_ratio)
    if after == 0:
        return points[0].watts
    if after == len(points):
        return points[-1].watts
    low, high = points[after - 1], points[after]
    part = (cpu_ratio - low.cpu_ratio) / (high.cpu_ratio - low.cpu_ratio)
    return low.watts + part * (high.watts - low.watts)


def least_slope(points: Sequence[Point], low_ratio: float, high_ratio: float) -> float:
    """The smallest watts per unit of load on the lines between two loads."""
    if not points or low_ratio < points[0].cpu_ratio or high_ratio > points[-1].cpu_ratio:
        return 0.0
    return min(
        (after.watts - before.watts) / (after.cpu_ratio - before.cpu_ratio)
        for before, after in pairwise(points)
        if before.cpu_ratio < high_ratio and after.cpu_ratio > low_ratio
    )


class TableModel(FittedModel, frozen=True, kw_only=True, tag="table"):
    """Points with increasing load and non-decreasing watts; beyond them, the nearest point."""

    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("a table needs at least one point")
        check_rising(self.points)

    def terms(self, load: Load) -> Terms:
        idle_watts = self.points[0].watts
        return self.bounded(Terms(idle_watts, max(0.0, interpolate(self.points, cpu(load)) - idle_watts)))
