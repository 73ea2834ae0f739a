"""Points of series: how far apart they are, and their values from sums per bucket. Pure."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from collector.common.arrays import Floats
from collector.history.interface import Point, SubjectKind
from collector.history.rollups import STEPS
from collector.history.timeline import PRESSURE, WATTS, BucketSums, add_known
from wire.messages import Pressure
from wire.resources import Quantities

MAX_POINTS = 2000
RAW = 0
"""The resolution of samples, among the steps of rollups."""
_LARGEST = 2**63 - 1


def resolution_for(step_seconds: float, start: float, oldest_at: Mapping[int, float]) -> int:
    """The step of the rollups to read, or 0 for samples.

    The coarsest that fits the requested step; or a coarser one if only that goes back to `start`.
    """
    resolutions = sorted({RAW, *STEPS} & {RAW, *oldest_at})
    resolution = max(each for each in resolutions if each <= max(step_seconds, RAW))
    for coarser in resolutions[resolutions.index(resolution) + 1 :]:
        available_from = oldest_at.get(resolution, math.inf)
        if available_from > start and oldest_at.get(coarser, math.inf) + coarser < available_from:
            resolution = coarser
    return resolution


def step_for(step_seconds: float, start: float, end: float, resolution: int) -> float:
    """The step of the series: no finer than its source, and at most `MAX_POINTS` points."""
    step = max(step_seconds, (end - start) / (MAX_POINTS - 1), 1.0)
    return resolution * math.ceil(step / resolution) if resolution else step


def points_of(sums: BucketSums, kind: SubjectKind, start: float, step_seconds: float) -> tuple[Point, ...]:
    """The points that end after `start`: sums over all subjects, over the time of the one with most."""
    order = np.argsort(sums.bucket, kind="stable")
    buckets, starts = np.unique(sums.bucket[order], return_index=True)
    if not buckets.size:
        return ()
    seconds = np.maximum.reduceat(sums.seconds[order], starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(seconds > 0, add_known(sums.totals[order], starts).T / seconds, np.nan).T
    maxima = add_known(sums.maxima[order], starts)
    return tuple(
        point_of(bucket * step_seconds, mean, highest, kind)
        for bucket, mean, highest in zip(buckets.tolist(), _known(means), _known(maxima), strict=True)
        if start < (bucket + 1) * step_seconds
    )


def _known(rows: Floats) -> list[list[float | None]]:
    return [[None if math.isnan(each) else each for each in row] for row in rows.tolist()]


def point_of(
    at: float, means: Sequence[float | None], maxima: Sequence[float | None], kind: SubjectKind
) -> Point:
    """A point with these values."""
    return Point(
        at=at,
        mean=_quantities(means),
        max=_quantities(maxima),
        mean_watts=means[WATTS],
        max_watts=maxima[WATTS],
        # Shares of time do not add up.
        mean_pressure=Pressure() if kind is SubjectKind.SERVICE else _pressure(means),
        max_pressure=Pressure() if kind is SubjectKind.SERVICE else _pressure(maxima),
    )


def _pressure(values: Sequence[float | None]) -> Pressure:
    return Pressure(*(None if each is None else min(1.0, each) for each in values[PRESSURE]))


def _quantities(values: Sequence[float | None]) -> Quantities:
    cpu, memory, disk, network = values[:WATTS]
    return Quantities(cpu, None if memory is None else min(round(memory), _LARGEST), disk, network)
