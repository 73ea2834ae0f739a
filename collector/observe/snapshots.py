"""From the live columns to a snapshot: copied while writers wait, assembled while they go on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Floats, Rows
from collector.common.liveness import LivenessRule
from collector.config import CollectorConfig
from collector.observe.node_columns import NodeColumns, NodeTable
from collector.observe.table import Table, places
from collector.observe.task_columns import TaskColumns, TaskTable
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
from collector.snapshot.experience import Experience
from collector.snapshot.power_curves import PowerCurves
from collector.snapshot.tables import NOWHERE, Nodes, Services, Snapshot, Tasks
from collector.snapshot.windows import TaskWindows

Value = TypeVar("Value")


class _Names(NamedTuple):
    """The names and labels of nodes: unchanged until a node is added, removed or relabelled."""

    nodes: tuple[str, ...]
    labels: tuple[Mapping[str, str], ...]
    domain: NDArray[np.int32]
    domains: tuple[str, ...]


class _Copy(NamedTuple):
    """The data of a snapshot, at one moment."""

    node_columns: NodeColumns
    names: _Names
    failures: Floats
    history: Floats
    task_columns: TaskColumns
    windows: TaskWindows
    task_ids: tuple[str, ...]
    culprit: Rows
    """Per node and resource: the row in the snapshot of the task that an open alert names."""
    node_places: Rows
    """The row in the snapshot of each live row of nodes."""
    services: Services
    service_places: Rows
    """The row in the snapshot of each live row of services."""
    claims: Mapping[str, ServiceClaim]
    """The services that belong to an application."""


class SnapshotBuilder:
    """Builds snapshots, and reuses the parts that did not change since the last one."""

    def __init__(self, config: CollectorConfig, liveness: LivenessRule) -> None:
        self._liveness = liveness
        self._domain_label = config.placement.domain_label
        self._spans_nodes = config.driver.spans_nodes
        self.analysed = unknown_services(())
        """The analysed services, by name."""
        self.constraints: Mapping[str, tuple[Constraint, ...]] = {}
        """The constraints of all services, by name."""
        power_seconds = config.driver.power_seconds
        # Until a node was switched, the longest time that this may take counts.
        self.experience = Experience(boot_seconds=power_seconds, shutdown_seconds=power_seconds)
        self._cache: dict[str, tuple[object, Any]] = {}
        self._last_nodes: Nodes | None = None
        self._last_services = (self.analysed, self.analysed)
        """Those analysed, and all."""

    def _reused(self, name: str, key: object, compute: Callable[[], Value]) -> Value:
        """The value that was last computed under a name, or a new one if its key has changed."""
        if name not in self._cache or self._cache[name][0] != key:
            self._cache[name] = key, compute()
        value: Value = self._cache[name][1]
        return value

    def _same(self, name: str, value: Value) -> Value:
        """The last value under a name if it is equal: what stays the same object is not sent again."""
        return self._reused(name, value, lambda: value)

    def copy(self, nodes: NodeTable, tasks: TaskTable, now: float) -> _Copy:
        """Copy everything that writers may change a moment later."""
        node_order, task_order = nodes.table.order(), tasks.table.order()
        node_version, task_version = nodes.table.version, tasks.table.version
        columns = selected(nodes.table.columns, node_order)
        names = self._reused("names", (node_version, nodes.version), lambda: self._names(nodes, node_order))
        services, service_places = self._reused(
            "services",
            (tasks.services.version, id(self.analysed)),
            lambda: self._service_rows(tasks.services),
        )
        return _Copy(
            node_columns=columns,
            names=names,
            failures=nodes.failures(columns.failures, columns.failed_at, now),
            history=self._reused(
                "history",
                (node_version, nodes.windows.version),
                lambda: nodes.windows.windows(node_order).amounts.astype(np.float64),
            ),
            task_columns=selected(tasks.table.columns, task_order),
            windows=self._reused(
                "windows", (task_version, tasks.windows.version), lambda: tasks.windows.windows(task_order)
            ),
            task_ids=self._reused("task ids", task_version, lambda: tasks.table.names(task_order)),
            culprit=_culprits(columns, names.nodes, tasks, task_order),
            node_places=places(node_order, nodes.table.size),
            services=services,
            service_places=service_places,
            claims=self._reused("claims", tasks.claims.version, tasks.claims.copy),
        )

    def snapshot(self, copy: _Copy, now: float) -> Snapshot:
        """Assemble the tables, with the sums over the tasks of each node."""
        tasks = self._tasks(copy, now)
        nodes = self._nodes(copy, tasks, now)
        # Names and labels seldom change: what was derived from them is reused.
        self._last_nodes = nodes if self._last_nodes is None else nodes.reuse_cached(self._last_nodes)
        rows = copy.services.index
        return Snapshot(
            at=now,
            nodes=nodes,
            tasks=tasks,
            services=copy.services,
            domain_names=copy.names.domains,
            experience=self._same("experience", self.experience),
            constraints=self._same(
                "constraints", {rows[name]: each for name, each in self.constraints.items() if name in rows}
            ),
            claims=Claims(
                copy.claims,
                copy.task_columns.is_orchestrated
                if self._spans_nodes
                else copy.task_columns.came_from != NOWHERE,
            ),
        )

    def _names(self, nodes: NodeTable, order: Rows) -> _Names:
        names = nodes.table.names(order)
        labels = tuple(nodes.labels(name) for name in names)
        of_nodes = [each.get(self._domain_label) for each in labels]
        domains = tuple(sorted({domain for domain in of_nodes if domain is not None}))
        number = {domain: place for place, domain in enumerate(domains)}
        codes = [NOWHERE if domain is None else number[domain] for domain in of_nodes]
        return _Names(names, labels, np.array(codes, dtype=np.int32), domains)

    def _service_rows(self, table: Table[Any]) -> tuple[Services, Rows]:
        """The services that run or are analysed, and the row there of each row of the live table."""
        order = table.order()
        running = table.names(order)
        names = {*running, *self.analysed.names}
        analysed, services = self._last_services
        # Containers that move change no service.
        if analysed is not self.analysed or services.index.keys() != names:
            services = with_services(self.analysed, names)
            if services is not self.analysed:
                by_name = sorted(range(len(services.names)), key=services.names.__getitem__)
                services = selected(services, np.array(by_name, dtype=np.intp))
            self._last_services = self.analysed, services
        found = np.full(table.size, NOWHERE, dtype=np.intp)
        found[order] = [services.index[name] for name in running]
        return services, found

    def _tasks(self, copy: _Copy, now: float) -> Tasks:
        columns, services = copy.task_columns, copy.services
        reported_seconds = np.maximum(0.0, now - columns.first_report_at)
        # A container whose start is unknown counts from its first report.
        run_seconds = np.where(
            np.isnan(columns.started_at), reported_seconds, np.maximum(0.0, now - columns.started_at)
        )
        service = _row(columns.service, copy.service_places)
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
            names=self._same("task names", tuple(columns.name.tolist())),
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
            cuttable=columns.cuttable,
            windows=copy.windows,
        )

    def _nodes(self, copy: _Copy, tasks: Tasks, now: float) -> Nodes:
        columns, names = copy.node_columns, copy.names
        count = len(names.nodes)
        return Nodes(
            names=names.nodes,
            capacity=columns.capacity,
            learned=columns.learned,
            used=columns.used,
            reported_watts=columns.reported_watts,
            busy=columns.busy,
            liveness=self._liveness.column(now, columns.last_report_at, columns.beacon_seconds),
            on=columns.on,
            accepts=columns.accepts,
            report_age_seconds=np.maximum(0.0, now - columns.last_report_at),
            generation=columns.generation,
            failures=np.rint(copy.failures).astype(np.int32),
            bottleneck=columns.bottleneck,
            culprit=copy.culprit,
            excess=columns.excess,
            by_time=columns.by_time,
            domain=names.domain,
            history=copy.history,
            power=PowerCurves(columns.power),
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


def _row(rows: Rows, found: Rows) -> Rows:
    """Rows of a live table as rows of the snapshot; `NOWHERE` stays."""
    return np.where(rows == NOWHERE, NOWHERE, found[rows])
