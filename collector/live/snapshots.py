"""From the live columns to a snapshot: copied while writers wait, assembled while they go on."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.common.liveness import liveness_column
from collector.config import CollectorConfig
from collector.live.node_columns import NodeColumns, NodeTable
from collector.live.table import Table, gather, places
from collector.live.task_columns import TaskColumns, TaskTable
from collector.snapshot.claims import Claims, ServiceClaim
from collector.snapshot.columns import (
    coalesce,
    selected,
    strictest_by_node,
    sum_by_node,
    unknown_services,
    with_services,
)
from collector.snapshot.constraints import Constraint
from collector.snapshot.power_curves import PowerCurves
from collector.snapshot.tables import NOWHERE, Nodes, Services, Snapshot, Tasks
from collector.snapshot.windows import TaskWindows

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _NodeNames:
    """Names, labels and domains: unchanged until a node is added, removed or relabelled."""

    names: tuple[str, ...]
    labels: tuple[Mapping[str, str], ...]
    domain: np.ndarray[tuple[int], np.dtype[np.int32]]
    domain_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _RunningServices:
    """The services of the live tasks, and the live table of these."""

    version: int
    names: tuple[str, ...]
    order: Rows
    size: int


@dataclass(frozen=True, slots=True)
class _Copy:
    """The data of a snapshot, at one moment."""

    nodes: NodeColumns
    node_names: _NodeNames
    failures: Floats
    history: Floats
    tasks: TaskColumns
    task_windows: TaskWindows
    task_ids: tuple[str, ...]
    culprit: Rows
    """Per node and resource: the row in the snapshot of the task that an open alert names."""
    node_places: Rows
    """The row in the snapshot of each live row of nodes."""
    running: _RunningServices
    known_services: Services
    """The analysed services, by name."""
    constraints: Mapping[str, tuple[Constraint, ...]]
    claims: Mapping[str, ServiceClaim]
    """The services that belong to an application."""


@dataclass(frozen=True, slots=True)
class _ServiceTable:
    """The services of a snapshot, and the row there of each live row of services."""

    services: Services
    places: Rows
    known: Services
    """The analysed services, which are a part of these."""

    @classmethod
    def of(cls, running: _RunningServices, known: Services, last: "_ServiceTable | None") -> "_ServiceTable":
        """The table; the services of the last one, if they are the same: containers that move change none."""
        names = {*running.names, *known.names}
        if last is not None and last.known is known and last.services.index.keys() == names:
            services = last.services
        else:
            services = with_services(known, names)
            if services is not known:
                order = sorted(range(len(services.names)), key=services.names.__getitem__)
                services = selected(services, np.array(order, dtype=np.intp))
        places = np.full(running.size, NOWHERE, dtype=np.intp)
        places[running.order] = [services.index[name] for name in running.names]
        return cls(services, places, known)


class _Cached(Generic[Value]):
    """A value that is computed again only when its key changes."""

    def __init__(self) -> None:
        self._key: tuple[Hashable, ...] | None = None
        self._value: list[Value] = []

    def get(self, key: tuple[Hashable, ...], compute: Callable[[], Value]) -> Value:
        if self._key != key:
            self._value = [compute()]
            self._key = key
        return self._value[0]


class SnapshotBuilder:
    """Builds snapshots, and reuses the parts that did not change since the last one."""

    def __init__(self, config: CollectorConfig) -> None:
        self._liveness = config.liveness
        self._domain_label = config.placement.domain_label
        self._known_services = unknown_services(())
        self._constraints: Mapping[str, tuple[Constraint, ...]] = {}
        self._node_names: _Cached[_NodeNames] = _Cached()
        self._task_ids: _Cached[tuple[str, ...]] = _Cached()
        self._running: _Cached[_RunningServices] = _Cached()
        self._services: _Cached[_ServiceTable] = _Cached()
        self._claims: _Cached[Mapping[str, ServiceClaim]] = _Cached()
        self._spans_nodes = config.driver.spans_nodes
        self._history: _Cached[Floats] = _Cached()
        self._task_windows: _Cached[TaskWindows] = _Cached()
        self._last_nodes: Nodes | None = None
        self._last_services: _ServiceTable | None = None

    def put_services(self, services: Services) -> None:
        """Replace the analysed services."""
        self._known_services = services

    def put_constraints(self, constraints: Mapping[str, tuple[Constraint, ...]]) -> None:
        """Replace the constraints of all services, by name."""
        self._constraints = constraints

    def copy(self, nodes: NodeTable, tasks: TaskTable, now: float) -> _Copy:
        """Copy everything that writers may change a moment later."""
        node_order, task_order = nodes.table.order(), tasks.table.order()
        node_columns = gather(nodes.table.columns, node_order)
        node_names = self._node_names.get(
            (nodes.table.version, nodes.version), lambda: self._names(nodes, node_order)
        )
        return _Copy(
            nodes=node_columns,
            node_names=node_names,
            failures=nodes.failures_column(node_columns, now),
            history=self._history.get(
                (nodes.table.version, nodes.windows.version),
                lambda: nodes.windows.windows(node_order).amounts.astype(np.float64),
            ),
            tasks=gather(tasks.table.columns, task_order),
            task_windows=self._task_windows.get(
                (tasks.table.version, tasks.windows.version), lambda: tasks.windows.windows(task_order)
            ),
            task_ids=self._task_ids.get((tasks.table.version,), lambda: tasks.table.names(task_order)),
            culprit=_culprits(node_columns, node_names.names, tasks, task_order),
            node_places=places(node_order, nodes.table.size),
            running=self._running.get((tasks.services.version,), lambda: _running_services(tasks.services)),
            known_services=self._known_services,
            constraints=self._constraints,
            claims=self._claims.get((tasks.claims.version,), tasks.claims.copy),
        )

    def snapshot(self, copy: _Copy, now: float) -> Snapshot:
        """Assemble the tables, with the sums over the tasks of each node."""
        running, known = copy.running, copy.known_services
        services = self._services.get(
            (running.version, id(known)), lambda: _ServiceTable.of(running, known, self._last_services)
        )
        self._last_services = services
        tasks = self._tasks(copy, services, now)
        nodes = self._nodes(copy, tasks, now)
        # Names and labels seldom change: what was derived from them is reused.
        self._last_nodes = nodes if self._last_nodes is None else nodes.reuse_cached(self._last_nodes)
        return Snapshot(
            at=now,
            nodes=nodes,
            tasks=tasks,
            services=services.services,
            domain_names=copy.node_names.domain_names,
            constraints={
                row: each
                for name, each in copy.constraints.items()
                if (row := services.services.index.get(name)) is not None
            },
            claims=Claims(
                copy.claims,
                copy.tasks.is_orchestrated if self._spans_nodes else copy.tasks.came_from != NOWHERE,
            ),
        )

    def _names(self, nodes: NodeTable, order: Rows) -> _NodeNames:
        names = nodes.table.names(order)
        labels = tuple(nodes.labels(name) for name in names)
        domains = [each.get(self._domain_label) for each in labels]
        domain_names = tuple(sorted({domain for domain in domains if domain is not None}))
        number = {domain: place for place, domain in enumerate(domain_names)}
        codes = [NOWHERE if domain is None else number[domain] for domain in domains]
        return _NodeNames(names, labels, np.array(codes, dtype=np.int32), domain_names)

    def _tasks(self, copy: _Copy, table: _ServiceTable, now: float) -> Tasks:
        columns = copy.tasks
        reported_seconds = np.maximum(0.0, now - columns.first_report_at)
        # A container whose start is unknown counts from its first report.
        run_seconds = np.where(
            np.isnan(columns.started_at), reported_seconds, np.maximum(0.0, now - columns.started_at)
        )
        services, service = table.services, _row(columns.service, table.places)
        # A container without samples gets the profile of its service.
        profiled = (service != NOWHERE) & (columns.observed_seconds == 0)
        profiled[profiled] = services.profiled[service[profiled]]
        for column, profile in (
            (columns.envelope, services.envelope),
            (columns.mean, services.mean),
            (columns.variance, services.variance),
        ):
            column[profiled] = profile[service[profiled]]
        return Tasks(
            ids=copy.task_ids,
            names=tuple(columns.name.tolist()),
            node=_row(columns.node, copy.node_places),
            service=service,
            used=columns.used,
            mean=coalesce(columns.mean, columns.used, columns.requested),
            variance=columns.variance,
            envelope=coalesce(columns.envelope, columns.used, columns.requested),
            observed_seconds=columns.observed_seconds,
            requested=columns.requested,
            allocated=columns.allocated,
            task_class=columns.task_class,
            kind=columns.kind,
            group=columns.group,
            age_seconds=np.fmax(run_seconds, now - columns.first_started_at),
            settled_seconds=np.maximum(run_seconds, reported_seconds),
            came_from=_row(columns.came_from, copy.node_places),
            movable=columns.movable,
            windows=copy.task_windows,
        )

    def _nodes(self, copy: _Copy, tasks: Tasks, now: float) -> Nodes:
        columns, names = copy.nodes, copy.node_names
        count = len(names.names)
        report_age_seconds = np.maximum(0.0, now - columns.last_report_at)
        return Nodes(
            names=names.names,
            capacity=columns.capacity,
            used=columns.used,
            reported_watts=columns.reported_watts,
            busy=columns.busy,
            liveness=liveness_column(self._liveness, report_age_seconds, columns.beacon_seconds),
            on=columns.on,
            accepts=columns.accepts,
            report_age_seconds=report_age_seconds,
            generation=columns.generation,
            failures=np.rint(copy.failures).astype(np.int32),
            bottleneck=columns.bottleneck,
            culprit=copy.culprit,
            domain=names.domain,
            history=copy.history,
            power=PowerCurves(columns.idle_watts, columns.cpu_watts, columns.full_watts, columns.error_ratio),
            labels=names.labels,
            tasks=np.bincount(tasks.node, minlength=count).astype(np.int32),
            allocated=sum_by_node(tasks.node, tasks.allocated, count),
            envelope_sum=sum_by_node(tasks.node, tasks.envelope, count),
            mean=sum_by_node(tasks.node, tasks.mean, count),
            variance=sum_by_node(tasks.node, tasks.variance, count),
            strictest_class=strictest_by_node(tasks.node, tasks.task_class, count),
        )


def _culprits(columns: NodeColumns, names: Sequence[str], tasks: TaskTable, task_order: Rows) -> Rows:
    """The tasks that open alerts name; few nodes have any."""
    culprit = np.full(columns.bottleneck.shape, NOWHERE, dtype=np.intp)
    alerts = np.argwhere(columns.bottleneck).tolist()
    if alerts:
        place = places(task_order, tasks.table.size)
        for node, resource in alerts:
            row = tasks.row(names[node], columns.culprit[node, resource])
            if row is not None:
                culprit[node, resource] = place[row]
    return culprit


def _running_services(table: Table[Any]) -> _RunningServices:
    order = table.order()
    return _RunningServices(table.version, table.names(order), order, table.size)


def _row(rows: Rows, found: Rows) -> Rows:
    """Rows of a live table as rows of the snapshot; `NOWHERE` stays."""
    return np.where(rows == NOWHERE, NOWHERE, found[rows])
