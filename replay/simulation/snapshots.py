"""The snapshot that a policy is given: the same tables as live, from what was observed."""

from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from collector.common.liveness import Liveness
from collector.policies.interface import Request
from collector.snapshot.columns import strictest_by_node, sum_by_node
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import NOWHERE, Codes, Nodes, Services, Snapshot, TaskKind, Tasks
from replay.setup.scenario import Simulation
from replay.simulation.cluster import Cluster, Phase
from replay.simulation.learner import Learnt
from replay.simulation.observer import Observer
from wire.resources import RESOURCES, Quantities

_BOTTLENECK_RATIO = 0.9


@dataclass(frozen=True, eq=False)
class _Facts:
    """What stays the same from one observation to the next while the same containers are there."""

    rows: Rows
    ids: tuple[str, ...]
    used: Floats
    learnt: Learnt
    """With no gaps."""
    requested: Floats
    service: Rows
    task_class: Codes
    kind: Codes
    services: Services


class Viewer:
    """Makes snapshots. What did not change since the last one is taken from there."""

    def __init__(self, cluster: Cluster, observer: Observer, simulation: Simulation) -> None:
        self._cluster, self._observer, self._simulation = cluster, observer, simulation
        self._facts: _Facts | None = None
        self._taught: tuple[int, Services] | None = None

    def observed(self) -> None:
        """Something new was told."""
        self._facts = None

    def snapshot(self, seconds: float, turn: int, *, with_history: bool = False) -> Snapshot:
        """The cluster, as far as it is known."""
        cluster = self._cluster
        rows = cluster.present
        facts = self._facts
        if facts is None or not np.array_equal(facts.rows, rows):
            facts = self._facts = self._gather(rows)
        tasks = Tasks(
            ids=facts.ids,
            names=facts.ids,
            node=cluster.node[rows],
            service=facts.service,
            used=facts.used,
            mean=facts.learnt.mean,
            variance=facts.learnt.variance,
            envelope=facts.learnt.envelope,
            samples=facts.learnt.samples,
            requested=facts.requested,
            allocated=cluster.allocated[rows],
            task_class=facts.task_class,
            kind=facts.kind,
            group=np.full(rows.size, NOWHERE, dtype=np.int8),
            age_seconds=seconds - cluster.since[rows],
            settled_seconds=seconds - cluster.settled[rows],
            came_from=cluster.came_from[rows],
            movable=(cluster.phase[rows] == Phase.RUNNING) & (cluster.target[rows] == NOWHERE),
            **({"history": self._observer.task_history(rows)} if with_history else {}),
        )
        return Snapshot(
            at=seconds,
            nodes=self._nodes(tasks, cluster.target[rows]),
            tasks=tasks,
            services=facts.services,
            turn=turn,
            seed=self._simulation.seed,
            domain_names=cluster.hosts.domain_names,
        )

    def _gather(self, rows: Rows) -> _Facts:
        cluster, observer = self._cluster, self._observer
        workload = cluster.workload
        learnt, requested, used = observer.knowledge(rows), workload.requested[rows], observer.used[rows]
        return _Facts(
            rows=rows,
            ids=_picked(workload.ids, rows),
            used=used,
            learnt=learnt,
            requested=requested,
            service=observer.service[rows],
            task_class=workload.task_class[rows],
            kind=workload.kind[rows],
            services=self._services(),
        )

    def _services(self) -> Services:
        observer = self._observer
        if self._taught is not None and self._taught[0] == observer.lessons:
            return self._taught[1]
        whole = np.nansum(self._cluster.hosts.capacity, axis=0)
        dominant, confidence = dominant_of(observer.service_mean, whole)
        services = Services(
            names=observer.service_names,
            profiled=observer.service_known.copy(),
            dominant=np.where(observer.service_known, dominant, NOWHERE).astype(np.int8),
            confidence=np.where(observer.service_known, confidence, 0.0),
            envelope=observer.service_envelope.copy(),
            mean=observer.service_mean.copy(),
            variance=observer.service_variance.copy(),
            images=("",) * len(observer.service_names),
        )
        self._taught = observer.lessons, services
        return services

    def _nodes(self, tasks: Tasks, target: Rows) -> Nodes:
        cluster, hosts = self._cluster, self._cluster.hosts
        count = hosts.size
        seen_on = cluster.on | cluster.booting
        used = self._observer.node_used
        with np.errstate(invalid="ignore", divide="ignore"):
            bottleneck = used / hosts.capacity >= _BOTTLENECK_RATIO

        def with_those_on_their_way(column: Floats) -> Floats:
            sums = sum_by_node(tasks.node, column, count)
            return sums + sum_by_node(target, column, count) if (target != NOWHERE).any() else sums

        return Nodes(
            names=hosts.names,
            capacity=hosts.capacity,
            used=used,
            liveness=np.where(seen_on, Liveness.UP, Liveness.DOWN).astype(np.int8),
            on=seen_on,
            accepts=np.ones(count, dtype=np.bool_),
            report_age_seconds=np.where(seen_on, self._simulation.delay_seconds, np.inf),
            generation=hosts.generation,
            failures=cluster.failures.copy(),
            bottleneck=bottleneck & cluster.on[:, None],
            domain=hosts.domain,
            history=self._observer.node_history,
            power=hosts.power,
            labels=hosts.labels,
            tasks=np.bincount(tasks.node[tasks.node != NOWHERE], minlength=count).astype(np.int32),
            allocated=with_those_on_their_way(tasks.allocated),
            envelope_sum=with_those_on_their_way(tasks.envelope),
            mean=with_those_on_their_way(tasks.mean),
            variance=with_those_on_their_way(tasks.variance),
            strictest_class=strictest_by_node(tasks.node, tasks.task_class, count),
        )

    def request(self, row: int) -> Request:
        """What a container that arrives asks for, with what is known of its service."""
        workload, observer = self._cluster.workload, self._observer
        one = np.array([row])
        learnt = observer.knowledge(one)
        service = int(observer.service[row])
        known = bool(observer.service_known[service])
        dominant = None
        if known:
            whole = np.nansum(self._cluster.hosts.capacity, axis=0)
            dominant = RESOURCES[int(dominant_of(observer.service_mean[[service]], whole)[0][0])]
        return Request(
            demand=quantities(learnt.envelope[0]),
            mean=quantities(learnt.mean[0]),
            variance=four(learnt.variance[0]),
            reserve=quantities(workload.requested[row]),
            known=known or bool(learnt.samples[0]),
            service=workload.services[row],
            dominant=dominant,
            task_class=int(workload.task_class[row]),
            kind=TaskKind(int(workload.kind[row])),
            constraints=workload.constraints[row] if workload.constraints else (),
        )


def dominant_of(mean: Floats, whole: Floats) -> tuple[Rows, Floats]:
    """The resource that each takes the largest share of, and how clearly."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(whole > 0, mean / whole, 0.0)
    total = shares.sum(axis=1)
    highest = shares.max(axis=1)
    return shares.argmax(axis=1), np.divide(highest, total, out=np.zeros_like(total), where=total > 0)


def four(row: Floats) -> tuple[float, float, float, float]:
    """A row of a column."""
    cpu, memory, disk, network = row.tolist()
    return cpu, memory, disk, network


def quantities(row: Floats) -> Quantities:
    """A row of a column in words; what is not known is absent."""
    cpu, memory, disk, network = (None if np.isnan(value) else float(value) for value in row)
    return Quantities(cpu, None if memory is None else round(memory), disk, network)


def _picked(names: tuple[str, ...], rows: Rows) -> tuple[str, ...]:
    if rows.size == len(names):
        return names
    if rows.size <= 1:
        return tuple(names[int(row)] for row in rows)
    picked: tuple[str, ...] = itemgetter(*rows.tolist())(names)
    return picked
