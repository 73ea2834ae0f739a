"""Shared by all generators: columns of containers, and a workload from them."""

from collections.abc import Sequence
from math import inf

import numpy as np

from collector.common.arrays import Codes, Floats
from replay.setup.workload import Steady, Workload
from wire.resources import RESOURCES

_WIDTH = len(RESOURCES)


def numbered(count: int, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """Ids that sort as their numbers."""
    width = len(str(count))
    return tuple(
        f"{number:0{width}}" if names is None else f"{number:0{width}}-{names[number]}"
        for number in range(count)
    )


def steady(
    level: Floats, rng: np.random.Generator, wave_ratio: float = 0.0, ramp_seconds: float = 0.0
) -> Steady:
    """Usage around a level, with waves whose length and phase differ between containers."""
    count = len(level)
    waves = np.full((count, _WIDTH), wave_ratio)
    waves[:, 1] /= 2  # memory varies less than the others
    return Steady(
        level=level,
        ramp_seconds=np.full(count, ramp_seconds),
        wave_ratio=waves,
        wave_seconds=rng.uniform(120.0, 3600.0, count),
        phase=rng.uniform(0.0, 1.0, count),
    )


def columns(*resources: Floats | float, count: int) -> Floats:
    """Four columns; missing ones are zero."""
    found = np.zeros((count, _WIDTH))
    for place, resource in enumerate(resources):
        found[:, place] = resource
    return found


def workload(  # noqa: PLR0913 - the columns of a workload
    ids: tuple[str, ...],
    requested: Floats,
    use: Steady,
    *,
    arrival_seconds: Floats,
    duration_seconds: float,
    step_seconds: float,
    services: Sequence[str] | None = None,
    lifetime_seconds: Floats | None = None,
    task_class: Codes | None = None,
    kind: Codes | None = None,
    jobs_stretch: bool = True,
) -> Workload:
    """A `Workload` with defaults for most columns."""
    count = len(ids)
    return Workload(
        ids=ids,
        services=tuple(ids if services is None else services),
        requested=requested,
        use=use,
        duration_seconds=duration_seconds,
        step_seconds=step_seconds,
        arrival_seconds=arrival_seconds,
        lifetime_seconds=np.full(count, inf) if lifetime_seconds is None else lifetime_seconds,
        task_class=np.ones(count, dtype=np.int8) if task_class is None else task_class,
        kind=np.zeros(count, dtype=np.int8) if kind is None else kind,
        jobs_stretch=jobs_stretch,
    )


def truncated_exponential(rng: np.random.Generator, rate: float, count: int) -> Floats:
    """Numbers from 0 to 1 of an exponential distribution that is truncated at 1."""
    drawn: Floats = -np.log1p(-rng.uniform(size=count) * -np.expm1(-rate)) / rate
    return drawn
