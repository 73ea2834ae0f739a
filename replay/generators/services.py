"""Services that stay: with promises, with instances that follow their load, very many, or listed."""

from math import ceil, inf
from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.common.arrays import Floats, Rows
from collector.features.promises.ledger.promises import Promise, ServiceMode
from replay.setup.hosts import MEBIBYTE, MEGABYTE
from replay.setup.scenario import NotNegative, Positive, Table
from replay.setup.workload import (
    PromisedContainers,
    Recorded,
    Reserved,
    Steady,
    Workload,
    build_workload,
    columns,
    numbered,
)

_MINUTE_SECONDS = 60.0


class DeploymentClass(Table, frozen=True, kw_only=True):
    """Services with the same promise."""

    name: Annotated[str, Meta(min_length=1)]
    availability: Annotated[float, Meta(gt=0, le=1)]
    deployments: Annotated[int, Meta(ge=1)]


class DeploymentsSettings(Table, frozen=True, kw_only=True):
    """Services of several instances with promises of availability, all submitted at once.

    As in the test of controllers in the study of QoS-driven scheduling.
    """

    classes: Annotated[tuple[DeploymentClass, ...], Meta(min_length=1)]
    """The most important class first."""
    cpu_cores: Positive
    memory_mb: Positive
    pods: Annotated[int, Meta(ge=1)] = 2
    mode: ServiceMode = ServiceMode.INDEPENDENT
    late: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    """Number of pods that come after all others: of the last deployment, the one before it, and so on."""
    seconds: Positive = 3600.0


def generate_deployments(settings: DeploymentsSettings, seed: int) -> Workload:
    """Generate the pods in the order in which they are submitted, all at the start."""
    del seed  # nothing is drawn
    of_class = [place for place, each in enumerate(settings.classes) for _ in range(each.deployments)]
    late = dict(enumerate(settings.late, start=1))
    pods = [
        (pod >= settings.pods - late.get(len(of_class) - deployment, 0), deployment, pod)
        for deployment in range(len(of_class))
        for pod in range(settings.pods)
    ]
    order = [deployment for _, deployment, _ in sorted(pods)]
    count = len(order)
    names = [f"{settings.classes[of_class[each]].name}-{each + 1:02}" for each in order]
    requested = columns(settings.cpu_cores, settings.memory_mb * MEBIBYTE, rest=np.nan, count=count)
    return build_workload(
        numbered(count, names),
        requested,
        Reserved(requested),
        services=tuple(names),
        duration_seconds=settings.seconds,
        step_seconds=_MINUTE_SECONDS,
        promised=PromisedContainers(
            promises=tuple(
                Promise(name=each.name, availability=each.availability, importance=place)
                for place, each in enumerate(settings.classes, start=1)
            ),
            promise=np.array([of_class[each] for each in order], dtype=np.int8),
            spread=np.zeros(count, dtype=np.bool_),
            mode=settings.mode,
            by_service=True,
        ),
    )


class ElasticSettings(Table, frozen=True, kw_only=True):
    """A service whose number of instances follows its load, as an autoscaler does it.

    The load is a wave with noise, and every instance serves an equal part of it. The newest instance ends
    first, as in Kubernetes.
    """

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


def generate_elastic(settings: ElasticSettings, seed: int) -> Workload:
    """Generate the instances, in the order of their start."""
    steps = int(settings.seconds / _MINUTE_SECONDS) + 1
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
        _MINUTE_SECONDS,
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
        duration_seconds=(steps - 1) * _MINUTE_SECONDS,
        step_seconds=_MINUTE_SECONDS,
        arrival_seconds=use.first_seconds,
        lifetime_seconds=np.where(ends, inf, use.lifetime_seconds),
    )


def _load(settings: ElasticSettings, steps: int, rng: np.random.Generator) -> Floats:
    seconds = _MINUTE_SECONDS * np.arange(steps)
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


_DAY_SECONDS = 86_400.0
_RESERVED_RATIO = 2.5
"""Reservation relative to usage: people reserve more than they need."""


class FleetSettings(Table, frozen=True, kw_only=True):
    """A large cluster of long-running services with daily load curves, to measure how replay scales."""

    containers: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    days: Positive = 7.0
    mean_cores: Positive = 0.8
    mean_memory_mb: Positive = 1200.0
    arrive_seconds: NotNegative = 0.0
    """Time over which the containers arrive; 0 means all at once."""


def generate_fleet(settings: FleetSettings, seed: int) -> Workload:
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
        step_seconds=5 * _MINUTE_SECONDS,
    )


class Kind(Table, frozen=True, kw_only=True):
    """Reservation and usage of containers of a kind."""

    cpu_cores: NotNegative
    memory_mb: NotNegative


class ListedSettings(Table, frozen=True, kw_only=True):
    """Containers that a scenario lists one by one, for small examples that can be checked by hand."""

    kinds: dict[str, Kind]
    order: tuple[str, ...]
    """The kind of each container, in order of arrival."""
    every_seconds: NotNegative = 1.0
    seconds: Positive = 600.0

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.order) - set(self.kinds)):
            raise ValueError(f"order contains unknown kinds: {', '.join(unknown)}")


def generate_listed(settings: ListedSettings, seed: int) -> Workload:
    """Generate the containers. Each is a service of its own, and uses all of its reservation."""
    count = len(settings.order)
    kinds = [settings.kinds[name] for name in settings.order]
    cores = np.array([kind.cpu_cores for kind in kinds])
    memory = np.array([kind.memory_mb for kind in kinds]) * MEBIBYTE
    return build_workload(
        numbered(count, settings.order),
        columns(cores, memory, rest=np.nan, count=count),
        Steady.around(columns(cores, memory, count=count), np.random.default_rng(seed)),
        arrival_seconds=settings.every_seconds * np.arange(count, dtype=np.float64),
        duration_seconds=settings.seconds,
        step_seconds=_MINUTE_SECONDS,
    )
