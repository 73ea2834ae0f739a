"""The snapshots of a simulated queue have the promises that a collector has after the same starts and stops.

The events of a simulation are reported by agents and an orchestrator; the ledger of the registry must then
stand as the one that the simulation fed itself.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from collector.common.orchestrator import OrchestratorState, ServiceView, TaskView
from collector.config import CollectorConfig
from collector.decide.policies.interface import Plan
from collector.decide.policies.resolve import PolicyChoice
from collector.features.promises.labels import SLO_MODE_LABEL
from collector.features.promises.ledger.events import Ending, LifecycleEvent, LifecycleKind
from collector.features.promises.ledger.ledger import Ledger
from collector.features.promises.ledger.promises import Promise, ServiceMode
from collector.features.promises.live import PromiseTracker
from collector.features.promises.qos.policy import QOS_DRIVEN
from collector.features.promises.settings import SLO_LABEL, promise_classes
from collector.features.promises.snapshot import TaskPromises
from collector.observe.registry import Registry
from collector.snapshot.tables import Snapshot
from replay.setup.hosts import build_hosts
from replay.setup.scenario import Host, Simulation, Startup
from replay.setup.workload import PromisedContainers
from replay.simulation.policy_runs import PolicyRun
from replay.simulation.queue import lifecycle
from replay.simulation.queue.run import run_queue
from tests.collector.builders import container
from tests.collector.features.promises.tracking.builders import Node, config, node
from tests.replay import setups

SWARM = {"com.docker.swarm.service.id": "s"}
COLUMNS = (
    "promise",
    "slack_seconds",
    "preemption_ratio",
    "startup_seconds",
    "admitted_seconds",
    "is_spare",
)


@dataclass
class Mirror:
    """A registry that hears of every event from agents and an orchestrator."""

    labels: dict[str, dict[str, str]]
    registry: Registry = field(default_factory=lambda: Registry(config(driver="swarm")))
    nodes: dict[str, Node] = field(default_factory=dict)
    tasks: dict[str, dict[str, TaskView]] = field(default_factory=dict)

    def apply(self, event: LifecycleEvent) -> None:
        tasks = self.tasks.setdefault(event.service, {})
        match event.kind:
            case LifecycleKind.WAITING:
                tasks[event.incarnation] = TaskView(
                    id=event.incarnation, service=event.service, slot=event.slot, created_at=event.at
                )
            case LifecycleKind.STARTED:
                assert event.node is not None
                if event.node not in self.nodes:
                    self.nodes[event.node] = node(self.registry, event.node, event.at)
                name = f"id-of-{event.incarnation}"
                listed = tasks[event.incarnation]
                self.view(event.at)
                self.nodes[event.node].start(
                    event.at,
                    container(event.incarnation, service=event.service, labels=SWARM),
                    startup_seconds=event.startup_seconds,
                )
                tasks[event.incarnation] = replace(listed, container=name, node=event.node)
                self.view(event.at)
            case LifecycleKind.ENDED:
                listed = tasks.pop(event.incarnation)
                if listed.container:
                    if event.ending is Ending.PREEMPTED:
                        self.registry.part(PromiseTracker).expect_stop(listed.container)
                    self.nodes[listed.node].stop(event.at, event.incarnation)
            case LifecycleKind.WITHDRAWN:
                self.view(event.at)

    def view(self, now: float) -> None:
        self.registry.part(PromiseTracker).put_services(
            OrchestratorState(
                services=tuple(
                    ServiceView(name=name, labels=self.labels[name], replicas=len(tasks))
                    for name, tasks in self.tasks.items()
                ),
                tasks=tuple(task for tasks in self.tasks.values() for task in tasks.values()),
            ),
            now,
        )

    def columns(self, snapshot: Snapshot) -> dict[str, list[Any]]:
        """The promises of the tasks of a snapshot, in its order."""
        self.view(snapshot.at)
        promises = self.registry.part(PromiseTracker)
        running = [f"id-of-{each}" for each in snapshot.tasks.ids]
        placed = promises.columns(running, snapshot.at)
        assert placed is not None
        waiting = placed.with_waiting(snapshot.tasks.ids).rows(np.arange(len(running), 2 * len(running)))
        return {
            name: np.where(placed.promise >= 0, getattr(placed, name), getattr(waiting, name)).tolist()
            for name in COLUMNS
        }


def contents(slo: TaskPromises) -> dict[str, list[Any]]:
    return {name: getattr(slo, name).tolist() for name in COLUMNS}


@pytest.mark.slow
@pytest.mark.parametrize("mode", [ServiceMode.INDEPENDENT, ServiceMode.CONCURRENT, ServiceMode.AGGREGATED])
@pytest.mark.parametrize("seed", range(3))
def test_promises_are_those_of_a_registry_with_the_same_starts_and_stops(
    mode: ServiceMode, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(seed)
    classes = promise_classes(CollectorConfig())
    promises = tuple(
        Promise(name=name, availability=each.availability, importance=each.importance)
        for name, each in classes.items()
    )
    count = 8
    of_service = random.integers(len(promises), size=count // 2).astype(np.int8)
    lifetimes = np.where(random.random(count) < 0.3, random.integers(60, 400, size=count), np.inf)
    workload = replace(
        setups.workload(
            *[(1.0, 1e6)] * count,
            seconds=900.0,
            arrivals=np.sort(random.integers(0, 120, size=count)).astype(float).tolist(),
            lifetimes=lifetimes.tolist() if mode is ServiceMode.INDEPENDENT else None,
        ),
        services=tuple(f"s{row // 2}" for row in range(count)),
        promised=PromisedContainers(
            promises=promises,
            promise=np.repeat(of_service, 2),
            spread=np.zeros(count, dtype=np.bool_),
            mode=mode,
        ),
    )
    mirror = Mirror(
        {
            f"s{row}": {SLO_LABEL: promises[code].name, SLO_MODE_LABEL: mode.value}
            for row, code in enumerate(of_service.tolist())
        }
    )

    class Heard(Ledger):
        def apply(self, event: LifecycleEvent) -> bool:
            mirror.apply(event)
            return super().apply(event)

    compared = 0

    def compare(snapshot: Snapshot, settings: Any) -> Plan:
        nonlocal compared
        compared += 1
        ours = snapshot.part(TaskPromises)
        assert ours is not None
        theirs = mirror.columns(snapshot)
        for name, values in contents(ours).items():
            assert values == pytest.approx(theirs[name], abs=1e-3), (name, snapshot.at)
        assert QOS_DRIVEN.rebalance is not None
        return QOS_DRIVEN.rebalance(snapshot, settings)

    monkeypatch.setattr(lifecycle, "Ledger", Heard)
    policy = replace(QOS_DRIVEN, rebalance=compare)
    policy_run = PolicyRun(
        name="compared",
        chosen=PolicyChoice(policy, policy.settings(exact=True)),
        collector=CollectorConfig(),
        simulation=Simulation(decide_seconds=30.0, seed=seed),
    )
    hosts = build_hosts([Host(name="node", count=5, cpu_cores=1, memory_mb=1024, watts=(100, 200))])
    startup = Startup(same_host_seconds=(2.0, 3.0), other_host_seconds=(4.0, 9.0))
    outcome = run_queue(policy_run, hosts, workload, startup, lambda _: None)
    assert compared > 10
    assert outcome.account.counts["kills"] > 0
