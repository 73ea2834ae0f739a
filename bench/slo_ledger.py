"""What the ledger of promises costs a running collector: one pass over all instances, and memory.

The same reports are applied by two processes of their own. In one of them, the label of the containers is one
that promises nothing: the difference is the cost of the promises.
"""

import gc
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import psutil

from bench.frame import Figure, Progress
from bench.simulated import container_id
from collector.common.labels import SLO_LABEL
from collector.config import CollectorConfig, PlacementConfig
from collector.live.registry import Registry
from wire.messages import ContainerState, Event, EventKind, Heartbeat, NodeState, Report
from wire.resources import Quantities

_NODES, _CONTAINERS, _SERVICES = 1000, 50, 5000
_RESTARTS = 4
"""Runs of every fifth container that ended before."""
_STORED_NODES = 20
"""Nodes after which changes are stored, as a collector does every few seconds."""
_BEGIN = 1_800_000_000.0
_HEARTBEAT = Heartbeat(agent_version="0", sample_seconds=3.0, beacon_seconds=30.0)
_PASSES = 5
_MOST_PASS_MILLISECONDS, _MOST_MEGABYTES = 500.0, 40.0
_CLASSES = ("gold", "silver", "bronze")


@dataclass(frozen=True, slots=True)
class _Cost:
    pass_seconds: float
    """CPU time of the standings of all instances, and of their columns in a snapshot."""
    snapshot_seconds: float
    """CPU time of a whole snapshot."""
    held_bytes: int
    """Resident memory before the first pass."""
    resident_bytes: int
    """After some passes: the temporary memory of a pass is included, as the allocator keeps it."""
    instances: int


def figures(progress: Progress) -> Iterator[Figure]:
    """Measure one pass over 50,000 instances, and their memory."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as processes:
        progress.say(f"{_NODES * _CONTAINERS:,} containers without a promise")
        without = processes.submit(_measure, "other.label").result()
        progress.say(f"{_NODES * _CONTAINERS:,} containers with a promise")
        cost = processes.submit(_measure, SLO_LABEL).result()
    yield Figure(name="ledger_instances", value=cost.instances, unit="instances")
    yield Figure(
        name="ledger_pass",
        value=1e3 * cost.pass_seconds,
        unit="ms of CPU",
        at_most=_MOST_PASS_MILLISECONDS,
    )
    yield Figure(
        name="ledger_snapshot_more",
        value=1e3 * (cost.snapshot_seconds - without.snapshot_seconds),
        unit="ms of CPU",
    )
    yield Figure(
        name="ledger_memory_held",
        value=(cost.held_bytes - without.held_bytes) / 1e6,
        unit="MB",
    )
    yield Figure(
        name="ledger_memory",
        value=(cost.resident_bytes - without.resident_bytes) / 1e6,
        unit="MB",
        at_most=_MOST_MEGABYTES,
    )


def _measure(label: str) -> _Cost:
    registry = Registry(CollectorConfig(placement=PlacementConfig(snapshot_seconds=0.0)))
    for node in range(_NODES):
        for report in _reports(node, label):
            registry.apply(report, report.at)
        if node % _STORED_NODES == 0:
            registry.promises.pack_changes()
    gc.collect()
    held_bytes = psutil.Process().memory_info().rss
    now = _BEGIN + 3600
    ids = registry.tables.snapshot(now).tasks.ids
    registry.promises.columns(ids, now)
    passes, snapshots = [], []
    for number in range(1, _PASSES + 1):
        began = time.process_time()
        registry.promises.columns(ids, now + number)
        passes.append(time.process_time() - began)
        began = time.process_time()
        registry.tables.snapshot(now + number)
        snapshots.append(time.process_time() - began)
    gc.collect()
    return _Cost(
        sorted(passes)[_PASSES // 2],
        sorted(snapshots)[_PASSES // 2],
        held_bytes,
        psutil.Process().memory_info().rss,
        len(registry.promises.standings(now).instances.slots),
    )


def _reports(node: int, label: str) -> Iterator[Report]:
    """A heartbeat of a node, and a few runs of some of its containers."""
    containers = tuple(_container(node, each, label) for each in range(_CONTAINERS))
    yield _report(node, 1, 0.0, containers=containers, heartbeat=_HEARTBEAT)
    for number in range(_RESTARTS):
        again = containers[::5]
        ended = tuple(Event(EventKind.DIED, _BEGIN + 100 * number + 50, each.id) for each in again)
        yield _report(
            node, 2 * number + 2, 100.0 * number + 50, gone=tuple(each.id for each in again), events=ended
        )
        started = tuple(
            Event(EventKind.STARTED, _BEGIN + 100 * number + 60, each.id, startup_seconds=2.0)
            for each in again
        )
        yield _report(node, 2 * number + 3, 100.0 * number + 60, containers=again, events=started)


def _report(node: int, sequence: int, seconds: float, **parts: Any) -> Report:  # noqa: ANN401 - parts of a report
    return Report(
        node=f"node-{node:04}",
        boot="bench",
        sequence=sequence,
        at=_BEGIN + seconds,
        state=NodeState(used=Quantities(4.0, 1 << 34), capacity=Quantities(32.0, 1 << 36)),
        **parts,
    )


def _container(node: int, number: int, label: str) -> ContainerState:
    service = (node * _CONTAINERS + number) % _SERVICES
    return ContainerState(
        id=container_id(f"{node}.{number}"),
        name=f"task-{number}",
        runtime="docker",
        cpu_seconds_total=1.0,
        used=Quantities(0.1, 1 << 28),
        limit=Quantities(1.0, 1 << 30),
        service=f"service-{service}",
        labels={label: _CLASSES[service % len(_CLASSES)]},
        started_at=_BEGIN,
    )
