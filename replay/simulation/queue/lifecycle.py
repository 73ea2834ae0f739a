"""The lifecycles of simulated containers, as events for the collector's own ledger, and snapshots of them.

Snapshots have the columns of the collector's live tables, built directly. Usage is unknown: containers use
what they reserve. Policies for promises read reservations, the ledger and placement rules; these are the same
as through agents and registry, and a test compares both.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from collector.common.arrays import Codes, Floats, Rows
from collector.common.liveness import Liveness
from collector.features.promises.ledger.events import Ending, LifecycleEvent, LifecycleKind
from collector.features.promises.ledger.ledger import Ledger
from collector.features.promises.ledger.penalties import gini, is_broken, penalty
from collector.features.promises.snapshot import TaskPromises
from collector.snapshot.columns import strictest_by_node, sum_by_node, unknown_services
from collector.snapshot.constraints import PlacementRules
from collector.snapshot.tables import NOWHERE, Generation, Nodes, Snapshot, Tasks
from replay.setup.hosts import Hosts
from replay.setup.workload import PromisedContainers, Workload
from replay.simulation.cluster import Cluster, ContainerPhase, unix
from replay.simulation.results import ClassResult, PromisesKept
from wire.resources import RESOURCES

_COMPLETED_TO_FORGET = 1000
_WIDTH = len(RESOURCES)


class Lifecycles:
    """Applies events to the ledger, and names incarnations: `ID~1`, `ID~2` and so on after the first stop."""

    def __init__(self, workload: Workload, promised: PromisedContainers, hosts: Sequence[str]) -> None:
        self._workload, self._promised, self._hosts = workload, promised, hosts
        self.ledger = Ledger({each.name: each for each in promised.promises})
        self._ids = list(workload.ids)
        self._incarnations = [0] * workload.size
        self.row_of: dict[str, int] = {}
        """The row of each incarnation that runs or waits."""
        self._availability: Floats = np.ones(workload.size)
        """The availability of containers that have ended."""
        self._seconds: Floats = np.zeros(workload.size)
        self._completed = 0
        self._ended: set[int] = set()
        """The rows that have ended since the last interval."""

    def ids_of(self, rows: Rows) -> tuple[str, ...]:
        return tuple(map(self._ids.__getitem__, rows.tolist()))

    def admit(self, row: int, now: float) -> None:
        """Let a container wait for the first time."""
        promise = self._promised.promises[int(self._promised.promise[row])]
        self.ledger.set_service(self._workload.services[row], promise.name, self._promised.mode)
        self._wait(row, now)

    def start(self, row: int, host: int, now: float, startup_seconds: float | None) -> None:
        self._apply(row, now, LifecycleKind.STARTED, node=self._hosts[host], startup_seconds=startup_seconds)

    def preempt(self, row: int, now: float) -> None:
        """Stop a container; its next incarnation waits."""
        self._apply(row, now, LifecycleKind.ENDED, ending=Ending.PREEMPTED)
        del self.row_of[self._ids[row]]
        self._incarnations[row] += 1
        self._ids[row] = f"{self._workload.ids[row]}~{self._incarnations[row]}"
        self._wait(row, now)

    def complete(self, rows: Rows, now: float) -> None:
        """End containers for good."""
        self._observe(now, set(rows.tolist()))
        self._ended.update(rows.tolist())
        for row in rows.tolist():
            self._apply(row, now, LifecycleKind.ENDED, ending=Ending.COMPLETED)
            self._apply(row, now, LifecycleKind.WITHDRAWN)
            del self.row_of[self._ids[row]]
        self._completed += rows.size
        if self._completed > len(self.row_of) + _COMPLETED_TO_FORGET:
            self.ledger.forget(unix(now) + 1.0)
            self._completed = 0

    def interval(self, now: float) -> dict[str, Floats]:
        """The availability of each request that was active since the last interval, by class."""
        active = {*self.row_of.values(), *self._ended}
        self._observe(now, active)
        self._ended.clear()
        rows = np.array([row for row in sorted(active) if self._seconds[row] > 0], dtype=np.intp)
        codes = self._promised.promise[rows]
        return {
            each.name: self._availability[rows[codes == code]]
            for code, each in enumerate(self._promised.promises)
        }

    def figures(self, now: float, *, preemptions: int, operations: int) -> PromisesKept:
        """How the run kept its promises. A request that arrived at its very end is left out."""
        promise, availability, seconds, cores = self._requests(now)
        counted = seconds > 0
        target = np.array([each.availability for each in self._promised.promises])[promise]
        broken = is_broken(target, availability)
        classes = {}
        for code, each in enumerate(self._promised.promises):
            chosen = counted & (promise == code)
            if chosen.any():
                classes[each.name] = ClassResult(
                    requests=int(chosen.sum()),
                    met_ratio=1.0 - float(broken[chosen].mean()),
                    mean_availability=float(availability[chosen].mean()),
                    min_availability=float(availability[chosen].min()),
                    gini=gini(availability[chosen]),
                )
        cost = penalty(target, availability, seconds, cores)
        return PromisesKept(
            slo=classes,
            mean_availability=float(availability[counted].mean()),
            penalty=float(cost[counted].sum()),
            preemptions=preemptions,
            operations=operations,
        )

    def _requests(self, now: float) -> tuple[Codes, Floats, Floats, Floats]:
        """The promise, availability, time and cores of each container or service at the end of the run."""
        cores = np.nan_to_num(self._workload.requested[:, 0], nan=0.0)
        if not self._promised.by_service:
            self._observe(now, set(self.row_of.values()))
            return self._promised.promise, self._availability, self._seconds, cores
        services = self.ledger.standings(unix(now)).services
        cores_of = dict(zip(self._workload.services, cores.tolist(), strict=True))
        code = {each.name: place for place, each in enumerate(self._promised.promises)}
        return (
            np.array([code[each.slo_class] for each in services]),
            np.array([each.availability_ratio for each in services]),
            np.array([each.total_seconds for each in services]),
            np.array([cores_of[each.service] for each in services]),
        )

    def _wait(self, row: int, now: float) -> None:
        self.row_of[self._ids[row]] = row
        self._apply(row, now, LifecycleKind.WAITING)

    def _observe(self, now: float, rows: Collection[int]) -> None:
        """Store the availability of these containers."""
        instances = self.ledger.standings(unix(now)).instances
        total = instances.running_seconds + instances.discarded_seconds + instances.waiting_seconds
        for place, incarnation in enumerate(instances.incarnations):
            if (row := self.row_of.get(incarnation)) in rows:
                self._availability[row] = instances.availability[place]
                self._seconds[row] = total[place]

    def task_promises(self, rows: Rows, now: float) -> TaskPromises:
        """The columns of these containers in a snapshot."""
        instances = self.ledger.standings(unix(now)).instances
        place = {each: place for place, each in enumerate(instances.incarnations)}
        return instances.columns.rows([place[each] for each in self.ids_of(rows)])

    def _apply(self, row: int, now: float, kind: LifecycleKind, **others: Any) -> None:  # noqa: ANN401 - fields of an event
        self.ledger.apply(
            LifecycleEvent(
                at=unix(now),
                kind=kind,
                service=self._workload.services[row],
                incarnation=self._ids[row],
                slot=self._workload.ids[row],
                **others,
            )
        )


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
            cuttable=is_placed,
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
        learned=np.zeros((size, _WIDTH), dtype=np.bool_),
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
        excess=np.full((size, _WIDTH), np.nan),
        by_time=np.zeros((size, _WIDTH), dtype=np.bool_),
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
