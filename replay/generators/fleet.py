"""A large cluster of long-running services with daily load curves, to measure how replay scales."""

from typing import Annotated

import numpy as np
from msgspec import Meta

from replay.setup.hosts import MEGABYTE
from replay.setup.scenario import NotNegative, Positive, Table
from replay.setup.workload import Steady, Workload, build_workload, columns, numbered

_DAY_SECONDS = 86_400.0
_STEP_SECONDS = 300.0
_RESERVED_RATIO = 2.5
"""Reservation relative to usage: people reserve more than they need."""


class FleetSettings(Table, frozen=True, kw_only=True):
    """Settings of the generator."""

    containers: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    days: Positive = 7.0
    mean_cores: Positive = 0.8
    mean_memory_mb: Positive = 1200.0
    arrive_seconds: NotNegative = 0.0
    """Time over which the containers arrive; 0 means all at once."""


def generate(settings: FleetSettings, seed: int) -> Workload:
    """Generate the containers."""
    rng = np.random.default_rng(seed)
    count = settings.containers
    drawn = rng.lognormal(-0.5, 1.0, (count, 4))
    scale = np.array([settings.mean_cores, settings.mean_memory_mb * MEGABYTE, MEGABYTE, MEGABYTE])
    level = np.minimum(drawn, 8.0) * scale
    waves = np.tile([0.6, 0.1, 0.8, 0.8], (count, 1))
    requested = columns(*(_RESERVED_RATIO * level[:, :2]).T, rest=np.nan, count=count)
    return build_workload(
        numbered(count),
        requested,
        Steady(
            level=level,
            ramp_seconds=np.zeros(count),
            wave_ratio=waves,
            wave_seconds=np.where(
                rng.integers(0, 2, count) == 0, _DAY_SECONDS, rng.uniform(1200, 7200, count)
            ),
            phase=rng.uniform(0.0, 0.3, count),
        ),
        arrival_seconds=np.sort(rng.uniform(0.0, 1.0, count)) * settings.arrive_seconds,
        duration_seconds=settings.days * _DAY_SECONDS,
        step_seconds=_STEP_SECONDS,
    )
