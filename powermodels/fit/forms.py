"""The forms that a curve can take, and how each is fitted: least squares, a rising table, or their mean.

Least squares on `a*u + b*sqrt(u)` has three numbers, so it needs little data and extrapolates, but it cannot
follow a machine that bends another way. A table that never falls (isotonic regression) follows any machine,
but between workloads it also follows their differences. Both err, in different ways; the mean of two
estimates never errs more than the mean of their errors, and less where the errors have opposite signs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from scipy.optimize import isotonic_regression, nnls  # type: ignore[import-untyped]  # has no stubs

from powermodels.fit.arrays import Floats, Workload
from powermodels.models.fitted import Range, Training
from powermodels.models.regression import Point

Shape = Literal["mean", "formula", "table"]
SHAPES: tuple[Shape, ...] = ("mean", "formula", "table")

# The watts of a resource that was never used more than this are unknown.
_MIN_USAGE = 1e-6
_MAX_WATTS = 1e7
"""Maximum of a coefficient in a stored model."""
# Closer together at low load, where power changes most.
_GRID = np.linspace(0.0, 1.0, 21) ** 2


@dataclass(frozen=True, slots=True)
class Form:
    """The parts of a curve."""

    shape: Shape = "mean"
    cpu: Literal["cpu", "cycles"] = "cpu"
    """CPU time in use, or cycles."""
    extra: tuple[str, ...] = ()
    """Functions of memory, disk and network usage."""

    @property
    def features(self) -> tuple[str, ...]:
        return (self.cpu, f"{self.cpu}_sqrt", *self.extra)


@dataclass(frozen=True, slots=True)
class Fit:
    """A form with its coefficients, none of them negative."""

    features: tuple[str, ...]
    idle_watts: float
    coefficients_watts: tuple[float, ...]
    points: tuple[Point, ...]
    """Watts above idle power by CPU usage, in addition to those of the coefficients."""
    bounds: Training

    def predict(self, workload: Workload) -> Floats:
        watts = workload.design(self.features) @ np.array((self.idle_watts, *self.coefficients_watts))
        if self.points:
            ratios, above = np.array([(point.cpu_ratio, point.watts) for point in self.points]).T
            watts = watts + np.interp(workload.column(self.features[0]), ratios, above)
        lowest_watts = min(max(self.idle_watts, self.bounds.floor_watts), self.bounds.ceiling_watts)
        bounded: Floats = np.clip(watts, lowest_watts, self.bounds.ceiling_watts)
        return bounded


def fit_form(workloads: Sequence[Workload], form: Form) -> Fit:
    """Fit one form to all workloads."""
    return fit_shapes(workloads, form, (form.shape,))[form.shape]


def fit_shapes(workloads: Sequence[Workload], form: Form, shapes: Sequence[Shape]) -> dict[Shape, Fit]:
    """Fit a form in several shapes, which share their parts."""
    idle_watts, *coefficients = least_squares(workloads, form.features)
    cpu_watts, extra_watts = coefficients[:2], coefficients[2:]
    table: tuple[Point, ...] = ()
    if set(shapes) != {"formula"}:
        table = _extended(rising_table(workloads, form.cpu, form.extra, extra_watts), *cpu_watts)
    bounds = bounds_of(workloads)

    def make(shape: Shape) -> Fit:
        share = {"formula": 0.0, "mean": 0.5, "table": 1.0}[shape]
        lowest_watts = table[0].watts if table else 0.0
        return Fit(
            features=form.features,
            idle_watts=(1 - share) * idle_watts + share * lowest_watts,
            coefficients_watts=(*((1 - share) * watts for watts in cpu_watts), *extra_watts),
            points=()
            if shape == "formula"
            else tuple(Point(point.cpu_ratio, share * (point.watts - lowest_watts)) for point in table),
            bounds=bounds,
        )

    return {shape: make(shape) for shape in shapes}


def least_squares(workloads: Sequence[Workload], features: Sequence[str]) -> list[float]:
    """Idle watts and each feature's watts, none negative, with the least squares of relative errors."""
    design = np.concatenate([workload.design(features) for workload in workloads])
    watts = np.concatenate([workload.watts for workload in workloads])
    roots = np.sqrt(np.concatenate([workload.sample_weights for workload in workloads]))
    # Columns of the same size, since rates may be a thousandth of the capacity they are divided by.
    sizes = design.max(axis=0)
    unused = sizes < _MIN_USAGE
    design[:, unused], sizes[unused] = 0.0, 1.0
    scaled = design / sizes * roots[:, np.newaxis]
    # Columns that are nearly the same keep the solver from ending; a small ridge separates them.
    ridge = sqrt(np.finfo(float).eps) * float(np.linalg.norm(scaled)) * np.eye(scaled.shape[1])
    coefficients, _ = nnls(
        np.concatenate([scaled, ridge]), np.concatenate([watts * roots, np.zeros(len(ridge))])
    )
    return [min(_MAX_WATTS, float(value)) for value in coefficients / sizes]


def rising_table(
    workloads: Sequence[Workload], cpu: str, extra: Sequence[str] = (), extra_watts: Sequence[float] = ()
) -> tuple[Point, ...]:
    """Watts by CPU usage that never decrease, without those of the extra terms."""
    ratios = np.concatenate([workload.column(cpu) for workload in workloads])
    others = np.concatenate([_sum(workload, extra, extra_watts) for workload in workloads])
    watts = np.maximum(0.0, np.concatenate([workload.watts for workload in workloads]) - others)
    weights = np.concatenate([workload.sample_weights for workload in workloads])
    at, means = _rising_means(ratios, watts, weights)
    places = np.unique(np.concatenate([at[:1], _GRID[(at[0] <= _GRID) & (at[-1] >= _GRID)], at[-1:]]))
    # Rounding can make an interpolated value lower than the one before it.
    heights = np.maximum.accumulate(np.interp(places, at, means))
    return tuple(Point(float(ratio), float(height)) for ratio, height in zip(places, heights, strict=True))


def _extended(table: Sequence[Point], linear_watts: float, root_watts: float) -> tuple[Point, ...]:
    """The table from no load to full load: beyond its own loads, it follows the formula."""

    def formula(ratio: float) -> float:
        return linear_watts * ratio + root_watts * sqrt(ratio)

    def follow(ratio: float, end: Point) -> Point:
        # The difference first: rounding of a large sum could put a lower load above a higher one.
        return Point(ratio, max(0.0, end.watts + (formula(ratio) - formula(end.cpu_ratio))))

    first, last = table[0], table[-1]
    below = (follow(float(ratio), first) for ratio in _GRID if ratio < first.cpu_ratio)
    above = (follow(float(ratio), last) for ratio in _GRID if ratio > last.cpu_ratio)
    return (*below, *table, *above)


def _rising_means(ratios: Floats, watts: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Isotonic regression: the loads in order, once each, and watts that never fall."""
    at, index = np.unique(ratios, return_inverse=True)
    sums = np.bincount(index, weights)
    means = np.bincount(index, weights * watts) / sums
    return at, isotonic_regression(means, weights=sums).x


def bounds_of(workloads: Sequence[Workload]) -> Training:
    """The range of the samples, which limits the predictions of a model."""
    watts = np.concatenate([workload.watts for workload in workloads])
    return Training(samples=len(watts), watts=Range(float(watts.min()), float(watts.max())), features={})


def _sum(workload: Workload, features: Sequence[str], watts: Sequence[float]) -> Floats:
    total = np.zeros(len(workload.watts))
    for name, feature_watts in zip(features, watts, strict=True):
        total += feature_watts * workload.column(name)
    return total
