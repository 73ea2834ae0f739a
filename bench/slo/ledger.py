"""Cost of the ledger of promises for a running collector: one pass over all instances, and memory.

Two clusters run the same containers. With an orchestrator, a service has ten instances, and a restart is a
new task. Without one, a service is a name on one node, so each has one instance, and a restart is one of the
same container. Two processes apply the same reports. In one of them, containers have no promise; the
difference is the cost of the promises.
"""

import gc
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import psutil

from bench.common.progress import Progress
from bench.common.results import Figure
from bench.common.simulated_node import container_id
from collector.common.orchestrator import OrchestratorState, ServiceView, TaskView
from collector.config import CollectorConfig, DriverConfig, PlacementConfig
from collector.features.promises.live import PromiseTracker
from collector.features.promises.settings import SLO_LABEL
from collector.observe.registry import Registry
from wire.messages import ContainerState, Event, EventKind, Heartbeat, NodeState, Report
from wire.resources import Quantities

_NODES, _CONTAINERS, _SERVICES = 1000, 50, 5000
_RESTARTS = 4
"""Earlier runs of the containers that restart."""
_RESTARTED_OF = 5
"""One in this many containers restarts."""
_SWARM_LABEL = "com.docker.swarm.service.id"
_TASK_ID = 25
"""Characters of the id of a Swarm task."""
_STORED_NODES = 20
"""Changes are stored after the reports of this many nodes, as a collector does every few seconds."""
_BEGIN = 1_800_000_000.0
_HEARTBEAT = Heartbeat(agent_version="0", sample_seconds=3.0, beacon_seconds=30.0)
_PASSES = 5
_MOST_PASS_MILLISECONDS, _MOST_MEGABYTES = 500.0, 120.0
_CLASSES = ("gold", "silver", "bronze")


@dataclass(frozen=True, slots=True)
class _Cost:
    pass_seconds: float
    """CPU time of the standings of all instances and of their columns in a snapshot."""
    snapshot_seconds: float
    """CPU time of a whole snapshot."""
    held_bytes: int
    """Resident memory before the first pass."""
    resident_bytes: int
    """Resident memory after some passes, with their temporary memory, which the allocator keeps."""
    services: int
    instances: int


def figures(progress: Progress) -> Iterator[Figure]:
    """Measure one pass over 50,000 instances, and their memory, with an orchestrator and without."""
    for is_orchestrated, suffix in ((False, ""), (True, "_orchestrated")):
        kind = "with" if is_orchestrated else "without"
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as processes:
            progress.say(f"{_NODES * _CONTAINERS:,} containers {kind} an orchestrator, and without a promise")
            without = processes.submit(_measure, "other.label", is_orchestrated).result()
            progress.say(f"{_NODES * _CONTAINERS:,} containers {kind} an orchestrator, and with a promise")
            cost = processes.submit(_measure, SLO_LABEL, is_orchestrated).result()
        yield Figure(name=f"ledger{suffix}_services", value=cost.services, unit="services")
        yield Figure(name=f"ledger{suffix}_instances", value=cost.instances, unit="instances")
        yield Figure(
            name=f"ledger{suffix}_pass",
            value=1e3 * cost.pass_seconds,
            unit="ms of CPU",
            at_most=_MOST_PASS_MILLISECONDS,
        )
        yield Figure(
            name=f"ledger{suffix}_snapshot_more",
            value=1e3 * (cost.snapshot_seconds - without.snapshot_seconds),
            unit="ms of CPU",
        )
        yield Figure(
            name=f"ledger{suffix}_memory_held",
            value=(cost.held_bytes - without.held_bytes) / 1e6,
            unit="MB",
        )
        yield Figure(
            name=f"ledger{suffix}_memory",
            value=(cost.resident_bytes - without.resident_bytes) / 1e6,
            unit="MB",
            at_most=_MOST_MEGABYTES,
        )


def _pack_changes(promises: PromiseTracker) -> None:
    """As when they are stored."""
    promises.book.pack(promises.book.changed)
    promises.book.changed.clear()


def _measure(label: str, is_orchestrated: bool) -> _Cost:  # noqa: FBT001 - passed to another process
    registry = Registry(
        CollectorConfig(
            placement=PlacementConfig(snapshot_seconds=0.0),
            driver=DriverConfig(name="swarm" if is_orchestrated else "none"),
        )
    )
    promises = registry.part(PromiseTracker)
    for number in range(_RESTARTS + 1):
        for node in range(_NODES):
            for report in _reports(node, number, label, is_orchestrated=is_orchestrated):
                registry.apply(report, report.at)
            if node % _STORED_NODES == 0:
                _pack_changes(promises)
        if is_orchestrated:
            promises.put_services(_state(number, label), _BEGIN + 100 * number + 65)
            _pack_changes(promises)
    # A collector does this every few minutes.
    promises.forget(_BEGIN)
    gc.collect()
    held_bytes = psutil.Process().memory_info().rss
    now = _BEGIN + 3600
    ids = registry.tables.snapshot(now).tasks.ids
    promises.columns(ids, now)
    passes, snapshots = [], []
    for number in range(1, _PASSES + 1):
        began = time.process_time()
        promises.columns(ids, now + number)
        passes.append(time.process_time() - began)
        began = time.process_time()
        registry.tables.snapshot(now + number)
        snapshots.append(time.process_time() - began)
    gc.collect()
    resident_bytes = psutil.Process().memory_info().rss
    standings = promises.standings(now)
    return _Cost(
        sorted(passes)[_PASSES // 2],
        sorted(snapshots)[_PASSES // 2],
        held_bytes,
        resident_bytes,
        len(standings.names),
        len(standings.instances.slots),
    )


def _reports(node: int, number: int, label: str, *, is_orchestrated: bool) -> Iterator[Report]:
    """Yield a heartbeat of a node, or reports of another run of some of its containers."""
    runs = number if is_orchestrated else 0
    if number == 0:
        containers = tuple(
            _container(node, each, 0, label, is_orchestrated=is_orchestrated) for each in range(_CONTAINERS)
        )
        yield _report(node, 1, 0.0, containers=containers, heartbeat=_HEARTBEAT)
        return
    at, restarted = 100.0 * (number - 1), range(0, _CONTAINERS, _RESTARTED_OF)
    before = [
        _container(node, each, max(runs - 1, 0), label, is_orchestrated=is_orchestrated).id
        for each in restarted
    ]
    again = tuple(_container(node, each, runs, label, is_orchestrated=is_orchestrated) for each in restarted)
    ended = tuple(Event(EventKind.DIED, _BEGIN + at + 50, each) for each in before)
    yield _report(node, 2 * number, at + 50, gone=tuple(before), events=ended)
    started = tuple(
        Event(EventKind.STARTED, _BEGIN + at + 60, each.id, startup_seconds=2.0) for each in again
    )
    yield _report(node, 2 * number + 1, at + 60, containers=again, events=started)


def _report(node: int, sequence: int, seconds: float, **parts: Any) -> Report:  # noqa: ANN401 - parts of a report
    return Report(
        node=_node_name(node),
        boot="bench",
        sequence=sequence,
        at=_BEGIN + seconds,
        state=NodeState(used=Quantities(4.0, 1 << 34), capacity=Quantities(32.0, 1 << 36)),
        **parts,
    )


def _container(node: int, place: int, run: int, label: str, *, is_orchestrated: bool) -> ContainerState:
    service = (node * _CONTAINERS + place) % _SERVICES
    return ContainerState(
        id=container_id(f"{node}.{place}.{run}"),
        name=f"task-{place}",
        runtime="docker",
        cpu_seconds_total=1.0,
        used=Quantities(0.1, 1 << 28),
        limit=Quantities(1.0, 1 << 30),
        service=f"service-{service}",
        labels={label: _class_of(service), **({_SWARM_LABEL: f"{service:025}"} if is_orchestrated else {})},
        started_at=_BEGIN + 100.0 * (run - 1) + 60 if run else _BEGIN,
    )


def _state(number: int, label: str) -> OrchestratorState:
    """Return the services that an orchestrator lists after some restarts."""
    services: list[ServiceView] = []
    tasks: list[TaskView] = []
    for service in range(_SERVICES):
        first = len(tasks)
        for slot, container in enumerate(range(service, _NODES * _CONTAINERS, _SERVICES), 1):
            node, place = divmod(container, _CONTAINERS)
            run = 0 if place % _RESTARTED_OF else number
            tasks.append(
                TaskView(
                    service=f"service-{service}",
                    id=container_id(f"task {node}.{place}.{run}")[:_TASK_ID],
                    slot=str(slot),
                    container=container_id(f"{node}.{place}.{run}"),
                    node=_node_name(node),
                    created_at=_BEGIN + 100.0 * (run - 1) + 55 if run else _BEGIN,
                )
            )
        labels = {label: _class_of(service)}
        replicas = len(tasks) - first
        services.append(ServiceView(name=f"service-{service}", labels=labels, replicas=replicas))
    return OrchestratorState(services=tuple(services), tasks=tuple(tasks))


def _class_of(service: int) -> str:
    return _CLASSES[service % len(_CLASSES)]


def _node_name(node: int) -> str:
    return f"node-{node:04}"
