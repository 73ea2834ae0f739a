"""The table model: measured points of CPU usage and watts, with straight lines between them."""

from bisect import bisect_right
from itertools import pairwise

import msgspec

from powermodels.common.interface import Load, Terms
from powermodels.models.basis import cpu
from powermodels.models.fitted import FittedModel, Ratio, Watts


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Watts at one load."""

    cpu_ratio: Ratio
    watts: Watts


class TableModel(FittedModel, frozen=True, kw_only=True, tag="table"):
    """Points with increasing load and non-decreasing watts; beyond them, the nearest point."""

    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("a table needs at least one point")
        for before, after in pairwise(self.points):
            if after.cpu_ratio <= before.cpu_ratio or after.watts < before.watts:
                raise ValueError("the points of a table must have increasing load and non-decreasing watts")

    def terms(self, load: Load) -> Terms:
        idle_watts = self.points[0].watts
        return self.bounded(Terms(idle_watts, max(0.0, self._watts(cpu(load)) - idle_watts)))

    def _watts(self, cpu_ratio: float) -> float:
        after = bisect_right(self.points, cpu_ratio, key=lambda point: point.cpu_ratio)
        if after == 0:
            return self.points[0].watts
        if after == len(self.points):
            return self.points[-1].watts
        low, high = self.points[after - 1], self.points[after]
        part = (cpu_ratio - low.cpu_ratio) / (high.cpu_ratio - low.cpu_ratio)
        return low.watts + part * (high.watts - low.watts)
