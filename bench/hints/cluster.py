"""A large cluster for the benchmark of hints, made directly as columns, because a registry fills slowly."""

from dataclasses import replace

import numpy as np

from collector.common.arrays import Floats
from collector.common.liveness import Liveness
from collector.snapshot.columns import strictest_by_node, sum_by_node
from collector.snapshot.power_curves import GRID, PowerCurves
from collector.snapshot.tables import NOWHERE, Generation, Nodes, Services, Snapshot, TaskKind, Tasks
from wire.resources import RESOURCES

BEGIN_SECONDS = 1_800_000_000.0
_CAPACITY = np.array([32.0, 128 * 2.0**30, 1e9, 1.25e9])
_SERVICES = 500
_SLOTS = 36
_ZONES = 8
_PART_OFF, _PART_SUSPECT, _PART_CLOSED = 0.03, 0.01, 0.02
_PART_NEW, _PART_JOBS, _PART_UNMOVABLE = 0.05, 0.2, 0.1
_BOTTLENECK_RATIO = 0.95
_SHARE = 0.6
"""Average share of a node that its containers use together."""


def cluster(nodes: int, containers_per_node: int, seed: int = 7) -> Snapshot:
    """Make nodes of three sizes, most half full, with containers of known services and all classes."""
    generator = np.random.default_rng(seed)
    tasks = _tasks(generator, nodes, nodes * containers_per_node)
    return Snapshot(
        at=BEGIN_SECONDS,
        nodes=_nodes(generator, tasks, nodes),
        tasks=tasks,
        services=_services(generator),
        domain_names=tuple(f"zone-{number}" for number in range(_ZONES)),
    )


def as_new(snapshot: Snapshot) -> Snapshot:
    """Copy a snapshot as if it was just taken: values derived from usage are not cached yet."""
    return replace(
        snapshot,
        nodes=replace(snapshot.nodes).reuse_cached(snapshot.nodes),
        tasks=replace(snapshot.tasks),
        services=replace(snapshot.services),
    )


def service_name(number: int) -> str:
    """Name a service of the cluster; higher numbers start again at the first service."""
    return f"service-{number % _SERVICES:04}"


def _services(generator: np.random.Generator) -> Services:
    share = generator.uniform(0.2, 1.0, size=(_SERVICES, 1))
    numbers = range(_SERVICES)
    return Services(
        names=tuple(map(service_name, numbers)),
        profiled=np.arange(_SERVICES) % 5 != 0,
        dominant=generator.integers(len(RESOURCES), size=_SERVICES).astype(np.int8),
        confidence=np.full(_SERVICES, 0.9),
        envelope=share * [1.5, 2.0**32, 4e6, 6e6],
        mean=share * [1.0, 2.0**31, 1e6, 2e6],
        variance=np.tile([0.05, 1e16, 1e11, 1e11], (_SERVICES, 1)),
        images=tuple(f"registry/app-{number}" for number in numbers),
    )


def _tasks(generator: np.random.Generator, nodes: int, count: int) -> Tasks:
    shares = generator.uniform(0.1, 1.9, size=(count, len(RESOURCES)))
    mean = shares * _CAPACITY * _SHARE * nodes / count
    requested = mean * generator.uniform(1.0, 1.6, size=(count, 1))
    requested[:, 2:] = np.nan
    return Tasks(
        ids=tuple(f"{number:064x}" for number in range(count)),
        names=tuple(f"task-{number}" for number in range(count)),
        node=generator.integers(0, nodes, count).astype(np.intp),
        service=generator.integers(0, _SERVICES, count).astype(np.intp),
        used=mean,
        mean=mean,
        variance=np.square(mean * 0.2),
        envelope=mean * 1.2,
        observed_seconds=np.where(generator.random(count) < _PART_NEW, 0.0, 86_400.0),
        requested=requested,
        allocated=requested,
        task_class=generator.integers(1, 5, count).astype(np.int8),
        kind=np.where(generator.random(count) < _PART_JOBS, TaskKind.JOB, TaskKind.SERVICE).astype(np.int8),
        group=generator.integers(0, 4, count).astype(np.int8),
        age_seconds=generator.uniform(0, 1e5, count),
        settled_seconds=generator.uniform(0, 1e5, count),
        came_from=np.full(count, NOWHERE, dtype=np.intp),
        movable=generator.random(count) >= _PART_UNMOVABLE,
        cuttable=np.ones(count, dtype=np.bool_),
    )


def _nodes(generator: np.random.Generator, tasks: Tasks, count: int) -> Nodes:
    capacity = _CAPACITY * generator.choice([0.75, 1.0, 1.5], size=(count, 1))
    mean = sum_by_node(tasks.node, tasks.mean, count)
    used = np.minimum(mean * generator.uniform(0.9, 1.1, size=mean.shape), capacity)
    ratio = used / capacity
    wobble = generator.normal(0.0, 0.03, size=(count, _SLOTS, len(RESOURCES)))
    zones = generator.integers(0, _ZONES, count).astype(np.int32)
    on = generator.random(count) >= _PART_OFF
    return Nodes(
        names=tuple(f"node-{number:05}" for number in range(count)),
        capacity=capacity,
        learned=np.zeros(ratio.shape, dtype=np.bool_),
        used=used,
        reported_watts=np.full(count, np.nan),
        busy=np.full(ratio.shape, np.nan),
        liveness=np.where(generator.random(count) < _PART_SUSPECT, Liveness.SUSPECT, Liveness.UP).astype(
            np.int8
        ),
        on=on,
        accepts=generator.random(count) >= _PART_CLOSED,
        report_age_seconds=generator.uniform(0, 30, count),
        generation=np.full(count, Generation.ANY, dtype=np.int8),
        failures=generator.poisson(0.2, count).astype(np.int32),
        bottleneck=ratio > _BOTTLENECK_RATIO,
        culprit=np.full(ratio.shape, NOWHERE, dtype=np.intp),
        excess=np.full(ratio.shape, np.nan),
        by_time=np.zeros(ratio.shape, dtype=np.bool_),
        domain=zones,
        history=np.clip(ratio[:, None, :] + wobble, 0.0, 1.0),
        power=_power(generator, count),
        labels=tuple(
            {"zone": f"zone-{zone}", "disk": "ssd" if zone % 2 else "hdd"} for zone in zones.tolist()
        ),
        tasks=np.bincount(tasks.node, minlength=count).astype(np.int32),
        allocated=sum_by_node(tasks.node, tasks.allocated, count),
        envelope_sum=sum_by_node(tasks.node, tasks.envelope, count),
        mean=mean,
        variance=sum_by_node(tasks.node, tasks.variance, count),
        strictest_class=strictest_by_node(tasks.node, tasks.task_class, count),
    )


def _power(generator: np.random.Generator, count: int) -> PowerCurves:
    full: Floats = generator.uniform(80.0, 200.0, size=(count, 1))
    idle = generator.uniform(40.0, 120.0, (count, 1))
    others = generator.uniform(2.0, 20.0, size=(count, len(RESOURCES) - 1))
    return PowerCurves(np.hstack([idle, full * np.sqrt(GRID), others, np.full((count, 1), 0.1)]))
