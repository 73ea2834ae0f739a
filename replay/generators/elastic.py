"""A service whose number of instances follows its load, as an autoscaler does it.

The load is a wave with noise, and every instance serves an equal part of it. The newest instance ends first,
as in Kubernetes.
"""

from math import ceil, inf
from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.common.arrays import Floats, Rows
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import Positive, Table
from replay.setup.workload import Recorded, Workload, build_workload, columns, numbered

_STEP_SECONDS = 60.0


class ElasticSettings(Table, frozen=True, kw_only=True):
    """Settings of the generator."""

    service: Annotated[str, Meta(min_length=1)] = "web"
    cpu_cores: Positive = 1.0
    """Reserved CPU of an instance; the next key is its memory."""
    memory_mb: Positive = 512.0
    low_cores: Positive = 1.0
    """CPU demand of all instances at the lowest point of the wave; the next key is that at the highest."""
    high_cores: Positive = 4.0
    wave_seconds: Positive = 7200.0
    noise_ratio: Annotated[float, Meta(ge=0, lt=1)] = 0.2
    """Maximum difference between the load and the wave, each minute."""
    target_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """Share of its reservation that an instance is to use."""
    most: Annotated[int, Meta(ge=1)] = 10
    """Maximum number of instances."""
    decide_minutes: Annotated[int, Meta(ge=1)] = 3
    """Time between two changes of the number of instances."""
    seconds: Positive = 21_000.0


def generate(settings: ElasticSettings, seed: int) -> Workload:
    """Generate the instances, in the order of their start."""
    steps = int(settings.seconds / _STEP_SECONDS) + 1
    load = _load(settings, steps, np.random.default_rng(seed))
    instances = _instances(settings, load)
    first, last = _lifetimes(instances)
    values = [
        columns(
            load[begin : end + 1] / instances[begin : end + 1],
            settings.memory_mb * MEBIBYTE,
            count=end + 1 - begin,
        )
        for begin, end in zip(first.tolist(), last.tolist(), strict=True)
    ]
    count = first.size
    kept = last - first + 1
    use = Recorded(
        _STEP_SECONDS,
        np.concatenate(values).astype(np.float32),
        np.concatenate([[0], np.cumsum(kept)[:-1]]),
        first,
        kept,
    )
    ends = last == steps - 1
    return build_workload(
        numbered(count),
        columns(settings.cpu_cores, settings.memory_mb * MEBIBYTE, rest=np.nan, count=count),
        use,
        services=(settings.service,) * count,
        duration_seconds=(steps - 1) * _STEP_SECONDS,
        step_seconds=_STEP_SECONDS,
        arrival_seconds=use.first_seconds,
        lifetime_seconds=np.where(ends, inf, use.lifetime_seconds),
    )


def _load(settings: ElasticSettings, steps: int, rng: np.random.Generator) -> Floats:
    seconds = _STEP_SECONDS * np.arange(steps)
    wave = (1 - np.cos(2 * np.pi * seconds / settings.wave_seconds)) / 2
    cores = settings.low_cores + (settings.high_cores - settings.low_cores) * wave
    load: Floats = cores * (1 + settings.noise_ratio * rng.uniform(-1, 1, steps))
    return load


def _instances(settings: ElasticSettings, load: Floats) -> Rows:
    """The number of instances at every step, by the mean load since the last decision."""
    every, each = settings.decide_minutes, settings.target_ratio * settings.cpu_cores
    found = np.empty(load.size, dtype=np.intp)
    for begin in range(0, load.size, every):
        observed = load[max(0, begin - every) : max(1, begin)].mean()
        found[begin : begin + every] = min(settings.most, max(1, ceil(observed / each)))
    return found


def _lifetimes(instances: Rows) -> tuple[Rows, Rows]:
    """The first and the last step of each instance, in the order of their start."""
    lifetimes = []
    for number in range(int(instances.max())):
        runs = np.concatenate([[False], instances > number, [False]])
        changes = np.flatnonzero(runs[1:] != runs[:-1])
        lifetimes += [
            (begin, end - 1) for begin, end in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True)
        ]
    first, last = np.array(sorted(lifetimes), dtype=np.intp).T
    return first, last
