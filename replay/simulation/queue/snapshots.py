"""Snapshots of a simulated queue: the columns that the collector's live tables have, built directly.

Usage is unknown: containers use what they reserve. Policies for promises read reservations, the ledger and
placement rules; these are the same as through agents and registry, and a test compares both.
"""

import numpy as np

from collector.common.arrays import Rows
from collector.common.liveness import Liveness
from collector.features.promises.snapshot import TaskPromises
from collector.snapshot.columns import strictest_by_node, sum_by_node, unknown_services
from collector.snapshot.constraints import PlacementRules
from collector.snapshot.tables import NOWHERE, Generation, Nodes, Snapshot, Tasks
from replay.setup.hosts import Hosts
from replay.setup.workload import PromisedContainers, Workload
from replay.simulation.cluster import Cluster, ContainerPhase, unix
from replay.simulation.queue.lifecycle import Lifecycles
from wire.resources import RESOURCES

_WIDTH = len(RESOURCES)


class QueueSnapshots:
    """Takes snapshots of a cluster."""

    def __init__(
        self, cluster: Cluster, promised: PromisedContainers, lifecycles: Lifecycles, *, seed: int
    ) -> None:
        self._cluster, self._lifecycles, self._seed = cluster, lifecycles, seed
        workload = cluster.workload
        names = sorted(set(workload.services))
        self._services = unknown_services(names)
        index = self._services.index
        self._service: Rows = np.array([index[name] for name in workload.services], dtype=np.intp)
        self._rules = _rules(workload, promised)
        self._nodes = _empty_nodes(cluster.hosts)

    def take(self, now: float) -> Snapshot:
        """A snapshot of the containers on hosts, followed by waiting ones, each in the order of their ids."""
        cluster, workload = self._cluster, self._cluster.workload
        placed = cluster.rows(ContainerPhase.STARTING, ContainerPhase.RUNNING)
        rows = np.concatenate((placed, cluster.rows(ContainerPhase.WAITING)))
        requested = workload.requested[rows]
        known = np.nan_to_num(requested, nan=0.0)
        nothing = np.zeros_like(known)
        is_placed = np.arange(rows.size) < placed.size
        since = now - cluster.since[rows]
        ids = self._lifecycles.ids_of(rows)
        tasks = Tasks(
            ids=ids,
            names=ids,
            node=cluster.node[rows],
            service=self._service[rows],
            used=np.where(is_placed[:, None], requested, np.nan),
            mean=known,
            variance=nothing,
            envelope=known,
            observed_seconds=np.zeros(rows.size),
            requested=requested,
            allocated=requested,
            task_class=workload.task_class[rows],
            kind=workload.kind[rows],
            group=np.full(rows.size, NOWHERE, dtype=np.int8),
            age_seconds=np.where(is_placed, since, 0.0),
            settled_seconds=np.where(is_placed, since, 0.0),
            came_from=cluster.came_from[rows],
            movable=is_placed,
        )
        return Snapshot(
            at=unix(now),
            nodes=self._nodes_with(tasks),
            tasks=tasks,
            services=self._services,
            seed=self._seed,
            parts={TaskPromises: self._lifecycles.task_promises(rows, now)},
            rules={
                place: rules
                for place, row in enumerate(rows[placed.size :].tolist(), placed.size)
                if (rules := self._rules[row]) is not None
            },
        )

    def _nodes_with(self, tasks: Tasks) -> Nodes:
        hosts = self._cluster.hosts
        size = hosts.size
        sums = sum_by_node(tasks.node, tasks.requested, size)
        on = tasks.node[tasks.node != NOWHERE]
        return self._nodes.with_columns(
            used=hosts.system + sums,
            tasks=np.bincount(on, minlength=size).astype(np.int32),
            allocated=sums,
            envelope_sum=sums,
            mean=sums,
            strictest_class=strictest_by_node(tasks.node, tasks.task_class, size),
        )


def _rules(workload: Workload, promised: PromisedContainers) -> list[PlacementRules | None]:
    constraints = workload.constraints or ((),) * workload.size
    return [
        PlacementRules(constraints=each, spread=spread) if each or spread else None
        for each, spread in zip(constraints, promised.spread.tolist(), strict=True)
    ]


def _empty_nodes(hosts: Hosts) -> Nodes:
    size = hosts.size
    return Nodes(
        names=hosts.names,
        capacity=hosts.capacity,
        used=hosts.system,
        reported_watts=np.full(size, np.nan),
        busy=np.full((size, _WIDTH), np.nan),
        liveness=np.full(size, Liveness.UP, dtype=np.int8),
        on=np.ones(size, dtype=np.bool_),
        accepts=np.ones(size, dtype=np.bool_),
        report_age_seconds=np.zeros(size),
        generation=np.full(size, Generation.ANY, dtype=np.int8),
        failures=np.zeros(size, dtype=np.int32),
        bottleneck=np.zeros((size, _WIDTH), dtype=np.bool_),
        culprit=np.full((size, _WIDTH), NOWHERE, dtype=np.intp),
        domain=np.full(size, NOWHERE, dtype=np.int32),
        history=np.empty((size, 0, _WIDTH)),
        power=hosts.power,
        labels=hosts.labels,
        tasks=np.zeros(size, dtype=np.int32),
        allocated=np.zeros((size, _WIDTH)),
        envelope_sum=np.zeros((size, _WIDTH)),
        mean=np.zeros((size, _WIDTH)),
        variance=np.zeros((size, _WIDTH)),
        strictest_class=np.zeros(size, dtype=np.int8),
    )
