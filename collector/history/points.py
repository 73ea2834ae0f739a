"""Points of series: how far apart they are, and their values from sums per bucket. Pure."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from collector.analysis.usage import to_quantities
from collector.history.interface import Point, SubjectKind
from collector.history.rollups import STEPS
from collector.history.timeline import PRESSURE, WATTS, BucketSums, add_known
from wire.messages import Pressure

MAX_POINTS = 2000
RAW = 0
"""The resolution of samples, among the steps of rollups."""


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
        Point(
            at=bucket * step_seconds,
            mean=to_quantities(mean[:WATTS]),
            max=to_quantities(highest[:WATTS]),
            mean_watts=None if math.isnan(mean[WATTS]) else mean[WATTS],
            max_watts=None if math.isnan(highest[WATTS]) else highest[WATTS],
            mean_pressure=_pressure(mean, kind),
            max_pressure=_pressure(highest, kind),
        )
        for bucket, mean, highest in zip(buckets.tolist(), means.tolist(), maxima.tolist(), strict=True)
        if start < (bucket + 1) * step_seconds
    )


def _pressure(values: Sequence[float], kind: SubjectKind) -> Pressure:
    if kind is SubjectKind.SERVICE:
        return Pressure()  # shares of time do not add up
    return Pressure(*(None if math.isnan(each) else min(1.0, each) for each in values[PRESSURE]))
