"""A stream of short jobs as in GenPack's sample of Google's Borg trace.

The paper took a hundredth of the jobs of 12 hours: 49,202 jobs, 68.3 a minute, at most 102 at once, of 39 s
(5th percentile) to 50 minutes, that reserve at most 42 cores and 40 GB together. The sample itself is not
published; these jobs are drawn to match its figures.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.snapshot.tables import TaskKind
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import Positive, Share, Table
from replay.setup.workload import Steady, Workload, build_workload, columns, numbered


class BorgSettings(Table, frozen=True, kw_only=True):
    """Settings of the generator."""

    hours: Positive = 12.0
    jobs_per_minute: Positive = 68.3
    shortest_seconds: Positive = 36.0
    usual_seconds: Positive = 8.0
    """Median time of usual jobs beyond the shortest."""
    long_ratio: Share = 0.018
    """Share of jobs in the long tail, from two minutes to the longest."""
    longest_seconds: Annotated[float, Meta(gt=120)] = 3000.0
    mean_cores: Positive = 0.38
    mean_memory_mb: Positive = 370.0
    """Mean reservation of jobs; a few reserve much more than the others."""
    used_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.8
    """Mean share of its reservation that a job uses."""


_SPREAD = 0.7
_LONG_SECONDS = 120.0
_STEP_SECONDS = 30.0
_MOST = 6.0
"""The largest reservation relative to the mean; it still fits a node."""


def generate(settings: BorgSettings, seed: int) -> Workload:
    """Generate the jobs."""
    rng = np.random.default_rng(seed)
    seconds = settings.hours * 3600
    count = round(settings.jobs_per_minute * seconds / 60)
    arrivals = np.sort(rng.uniform(0.0, seconds, count))
    usual = settings.shortest_seconds + rng.lognormal(np.log(settings.usual_seconds), _SPREAD, count)
    tail = np.exp(rng.uniform(np.log(_LONG_SECONDS), np.log(settings.longest_seconds), count))
    lifetimes = np.where(rng.uniform(size=count) < settings.long_ratio, tail, usual)
    mean_of_lognormal = np.exp(_SPREAD**2 / 2)
    drawn = np.minimum(rng.lognormal(0.0, _SPREAD, (count, 2)) / mean_of_lognormal, _MOST)
    cores, memory = settings.mean_cores * drawn[:, 0], settings.mean_memory_mb * MEBIBYTE * drawn[:, 1]
    requested = columns(cores, memory, rest=np.nan, count=count)
    ratio = np.clip(rng.normal(settings.used_ratio, 0.1, (count, 2)), 0.1, 1.0)
    level = columns(cores * ratio[:, 0], memory * ratio[:, 1], count=count)
    return build_workload(
        numbered(count),
        requested,
        Steady.around(level, rng, wave_ratio=0.1),
        arrival_seconds=arrivals,
        lifetime_seconds=np.minimum(lifetimes, settings.longest_seconds),
        kind=np.full(count, TaskKind.JOB, dtype=np.int8),
        duration_seconds=seconds,
        step_seconds=_STEP_SECONDS,
    )
