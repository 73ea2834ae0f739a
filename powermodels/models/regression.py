"""Models with idle power plus watts per function of load, `linear` and `curve`, and those of points, `table`.

- linear: the linear model of the literature: one term each for CPU, memory, disk and network.
- curve: the CPU's watts from `a*u + b*sqrt(u)`, from a table of points, or from the mean of both, and terms
  for other resources where they help on this machine (`powermodels.fit.fitting`). u is CPU time or, if it is
  more accurate, CPU cycles.
- table: measured points of CPU usage and watts, with straight lines between them.

No coefficient is negative, so power never decreases with load; the total stays in the range of the training.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import sqrt

import msgspec

from powermodels.common.interface import Load, Terms
from powermodels.models.basis import BASES, cpu, cycles, weighted_terms
from powermodels.models.fitted import FittedModel, Ratio, Watts

LINEAR_FEATURES = ("cpu", "memory", "disk", "network")


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


class Regression(FittedModel, frozen=True, kw_only=True):
    """Idle power and the watts of each feature at full usage."""

    idle_watts: Watts
    coefficients_watts: dict[str, Watts]

    def __post_init__(self) -> None:
        if unknown := self.coefficients_watts.keys() - BASES.keys():
            raise ValueError(f"no such feature: {', '.join(sorted(unknown))}")

    def free_terms(self, load: Load) -> Terms:
        """The terms without limits."""
        return weighted_terms(self.idle_watts, self.coefficients_watts, load)

    def terms(self, load: Load) -> Terms:
        return self.origin.training.bounded(self.free_terms(load))


class LinearModel(Regression, frozen=True, kw_only=True, tag="linear"):
    """Watts proportional to the usage of each resource."""


class CurveModel(Regression, frozen=True, kw_only=True, tag="curve"):
    """Watts that rise with load, along a formula, a table of points, or both added up."""

    points: tuple[Point, ...] = ()
    """Watts above idle power by CPU usage, in addition to the coefficients'."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rising(self.points)

    @property
    def by_cycles(self) -> bool:
        """Whether the model uses the CPU frequency."""
        return "cycles" in self.coefficients_watts or "cycles_sqrt" in self.coefficients_watts

    def free_terms(self, load: Load) -> Terms:
        terms = super().free_terms(load)
        if not self.points:
            return terms
        return replace(terms, cpu_watts=terms.cpu_watts + interpolate(self.points, self.root(load) ** 2))

    def root(self, load: Load) -> float:
        """Square root of CPU usage, in time or cycles."""
        return sqrt(cycles(load) if self.by_cycles else cpu(load))

    @property
    def full_cpu_watts(self) -> float:
        """CPU watts above idle power at full usage."""
        return self.free_terms(Load(1.0)).cpu_watts

    def least_rise_watts(self, low_root: float, high_root: float) -> float:
        """Lower bound of the rise of CPU watts between two roots: the smallest slope times the distance.

        A straight line that falls by no more than this keeps the sum increasing.
        """
        name = "cycles" if self.by_cycles else "cpu"
        linear_watts, root_watts = (self.coefficients_watts.get(key, 0.0) for key in (name, f"{name}_sqrt"))
        steepness = linear_watts + least_slope(self.points, low_root**2, high_root**2)
        return (2 * low_root * steepness + root_watts) * (high_root - low_root)


class TableModel(FittedModel, frozen=True, kw_only=True, tag="table"):
    """Points with increasing load and non-decreasing watts; beyond them, the nearest point."""

    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("a table needs at least one point")
        check_rising(self.points)

    def terms(self, load: Load) -> Terms:
        idle_watts = self.points[0].watts
        cpu_watts = max(0.0, interpolate(self.points, cpu(load)) - idle_watts)
        return self.origin.training.bounded(Terms(idle_watts, cpu_watts))
