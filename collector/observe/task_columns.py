"""Tasks (containers) in columns."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from collector.common.applications import application_traits
from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.observe.table import Table, column, resources
from collector.observe.task_lists import TaskOrder
from collector.observe.task_texts import ORDER_TEXTS, TaskCount, TaskTexts, TextRows
from collector.observe.traits import ServiceClaims, TaskTraits, task_traits
from collector.observe.updates import Allocation, Succession
from collector.observe.windows import BUCKETS, KeptRow, UsageWindows
from collector.snapshot.tables import NOWHERE, TaskKind
from wire.messages import ContainerState
from wire.resources import RESOURCES, Resource

_POD_RUNTIMES = ("containerd", "cri-o")
_POD_LABEL = "io.kubernetes.pod.name"
KEPT_ENDED = 4096
"""Containers that ended and whose windows and usage are kept, for those that replace them."""


def promised_limits(state: ContainerState, capacity: Sequence[float]) -> list[float | None]:
    """The limits that stand for a reservation: those below the capacity of the node; None for the others.

    Agents report the capacity of the node as the limit of a container without limits. In Kubernetes, limits
    are no reservations: those are the requests of pods, which nodes do not report.
    """
    if state.runtime in _POD_RUNTIMES or _POD_LABEL in state.labels:
        return [None] * len(RESOURCES)
    return [
        None if limit is None or limit >= whole else limit
        for limit, whole in zip(state.limit.values, capacity, strict=True)
    ]


@dataclass(slots=True)
class TaskColumns:
    """One row per task; `node`, `service` and `came_from` are rows of other tables."""

    node: Rows = column(NOWHERE, np.intp)
    service: Rows = column(NOWHERE, np.intp)
    came_from: Rows = column(NOWHERE, np.intp)
    used: Floats = resources()
    watts: Floats = column()
    """NaN if its node does not report it."""
    mean: Floats = resources()
    variance: Floats = resources(0.0)
    envelope: Floats = resources()
    observed_seconds: Floats = column(0.0)
    requested: Floats = resources()
    allocated: Floats = resources()
    is_orchestrated: Flags = column(blank=False, dtype=np.bool_)
    """Whether `allocated` comes from an orchestrator; otherwise from the limits that its node reports."""
    task_class: Codes = column(1, np.int8)
    kind: Codes = column(TaskKind.SERVICE, np.int8)
    group: Codes = column(NOWHERE, np.int8)
    started_at: Floats = column()
    """NaN if its node does not report it."""
    first_started_at: Floats = column()
    """The start of the first container that it replaces on another node; NaN if it replaces none."""
    first_report_at: Floats = column()
    """By the collector's clock."""
    movable: Flags = column(blank=True, dtype=np.bool_)
    cuttable: Flags = column(blank=True, dtype=np.bool_)
    name: NDArray[Any] = column("", np.object_)
    """Name that the runtime reports."""


class ReportedTask(msgspec.Struct, gc=False):
    """The node of a row, and its last reported state.

    There are very many, and none has a reference cycle: the garbage collector skips them.
    """

    node: str
    state: ContainerState
    service_labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    namespace: str = ""
    """The namespace of its service in Kubernetes; empty elsewhere."""


def _is_described(before: ContainerState, now: ContainerState) -> bool:
    """Whether the columns that seldom change are the same for both states, on a node of the same capacity."""
    return (
        before.labels == now.labels
        and before.limit == now.limit
        and before.service == now.service
        and before.started_at == now.started_at
        and before.name == now.name
        and before.runtime == now.runtime
        and before.image == now.image
    )


class TaskTable:
    """Every running task, by its node and its id there."""

    def __init__(self, default_class: int, *, spans_nodes: bool = False) -> None:
        """`spans_nodes` is set if an orchestrator lists services, and not the engine of each node its own."""
        self._default_class = default_class
        self._spans_nodes = spans_nodes
        self._rows: dict[str, dict[str, int]] = {}
        self._reported: dict[int, ReportedTask] = {}
        self._capacity: dict[str, bytes] = {}
        """Capacity of each node, at its last report with containers."""
        self._unique: dict[str, int] = {}
        self._shared: dict[str, set[int]] = {}
        """Ids that several nodes report, which is unusual: these rows are named node/id."""
        self._services = TextRows()
        self.texts = TaskTexts()
        self.claims = ServiceClaims()
        self._ended: dict[str, KeptRow] = {}
        """Windows of containers that ended recently, by id, oldest first: others may replace them."""
        self.table = Table(TaskColumns())
        self.windows = UsageWindows()

    @property
    def services(self) -> Table[TaskCount]:
        return self._services.table

    def row(self, node: str, container: str) -> int | None:
        return self._rows.get(node, {}).get(container)

    def is_running(self, container: str) -> bool:
        return container in self._unique or container in self._shared

    def last_row(self, node: str, container: str, successors: Mapping[str, str]) -> int | None:
        """The row of a container, or of the one that replaced it; successors lead back to no container."""
        row = self.row(node, container)
        while row is None and (row := self._unique.get(container)) is None and container in successors:
            container = successors[container]
        return row

    def inherit(self, succession: Succession) -> None:
        row = self.row(succession.node, succession.container)
        assert row is not None
        before = self.row(succession.from_node, succession.predecessor)
        kept = self._ended.get(succession.predecessor) if before is None else self.windows.keep(before)
        if kept is not None:
            self.windows.inherit(row, kept)

    def find_rows(self, services: Collection[str] | None, name: str | None, group: int | None) -> Rows:
        """The rows that match all of these; None is any."""
        columns = self.table.columns
        matching: Flags = columns.node != NOWHERE
        if services is not None:
            # The last flag is for tasks without a service.
            is_wanted = np.zeros(self.services.size + 1, dtype=np.bool_)
            is_wanted[self._services.rows(services)] = True
            matching &= is_wanted[columns.service]
        if name is not None:
            matching &= columns.name == name
        if group is not None:
            matching &= columns.group == group
        return np.flatnonzero(matching)

    def reported(self, rows: Rows, changes: int) -> list[ReportedTask]:
        """The tasks in these rows, without those that ended or whose texts changed after a change."""
        return [self._reported[row] for row in rows[self.texts.unchanged(rows, changes)].tolist()]

    def order_values(self, order: TaskOrder | None, rows: Rows) -> Floats | None:
        """What some rows are sorted by; NaN is unknown."""
        if order is None:
            return None
        if order in ORDER_TEXTS:
            ranks = self.texts.ranks(order, rows)
            return np.where(ranks == NOWHERE, np.nan, ranks)
        if order == "watts":
            return self.table.columns.watts[rows]
        return self.table.columns.used[:, RESOURCES.index(Resource(order))][rows]

    def put(
        self,
        node: str,
        node_row: int,
        capacity: Floats,
        containers: Sequence[ContainerState],
        at: float,
    ) -> list[str]:
        """Store the reported states of containers; returns the ids of new ones."""
        of_node, reported = self._rows.setdefault(node, {}), self._reported
        whole, key = capacity.tolist(), capacity.tobytes()
        is_same_node = self._capacity.get(node) == key
        self._capacity[node] = key
        rows, new = [], []
        for state in containers:
            row = of_node.get(state.id)
            if row is None:
                new.append(state.id)
                row = of_node[state.id] = self._add(node, node_row, state.id, at)
            rows.append(row)
            task = reported.get(row)
            if task is not None and is_same_node and _is_described(task.state, state):
                task.state = state
            else:
                self._describe(row, node, state, whole)
        used = np.array([state.used.values for state in containers], dtype=float)
        self.table.columns.used[rows] = used
        self.table.columns.watts[rows] = [
            np.nan if state.power is None else state.power.watts for state in containers
        ]
        window_seconds = [state.window_seconds for state in containers]
        self.windows.put(rows, np.where(np.isfinite(used), used, np.nan), at, window_seconds)
        return new

    def advance(self, now: float, valid_until: Floats) -> None:
        """Close the buckets that ended; the states of the tasks of each node hold until `valid_until`."""
        self.windows.advance(now, valid_until[self.table.columns.node])
        oldest = self.windows.closed - BUCKETS
        self._ended = {name: kept for name, kept in self._ended.items() if kept.closed > oldest}

    def drop(self, node: str, containers: Iterable[str], at: float = -math.inf) -> None:
        """Remove containers of a node, which ended `at` this time."""
        of_node = self._rows.get(node, {})
        for container in containers:
            row = of_node.pop(container, None)
            if row is not None:
                self._remove(row, container, at)

    def drop_node(self, node: str) -> None:
        self.drop(node, list(self._rows.get(node, ())))
        self._rows.pop(node, None)
        self._capacity.pop(node, None)
        if freed := self.claims.drop_node(node):
            for row, task in self._reported.items():
                if task.state.service in freed:
                    self._claim(row, task)

    def strictest_class(self, node: str) -> int | None:
        """The lowest SLA class among the tasks of a node; None without tasks."""
        rows = list(self._rows.get(node, {}).values())
        return int(self.table.columns.task_class[rows].min()) if rows else None

    def allocated(self, node: str) -> Floats:
        """The sum of what the tasks of a node were promised; NaN where none was promised anything."""
        promised = self.table.columns.allocated[list(self._rows.get(node, {}).values())]
        return np.where(np.isnan(promised).all(axis=0), np.nan, np.nansum(promised, axis=0))

    def confirm(self, row: int, allocation: Allocation) -> None:
        """An orchestrator lists a container on this node: the claim of another node does not take its id.

        Its service decides whether it may be moved, and how long it runs; else labels do.
        """
        task, columns = self._reported[row], self.table.columns
        if allocation.container in self._shared and not columns.is_orchestrated[row]:
            self.table.rename(row, allocation.container)
        columns.is_orchestrated[row] = True
        task.service_labels, task.namespace = allocation.labels, allocation.namespace
        self._claim(row, task)
        traits = self._traits(task.state, allocation.labels)
        columns.task_class[row] = traits.task_class
        columns.movable[row] = not allocation.stays and traits.movable
        columns.cuttable[row] = allocation.cuttable
        columns.kind[row] = TaskKind.DAEMON if allocation.everywhere else traits.kind

    def _traits(self, state: ContainerState, service_labels: Mapping[str, str]) -> TaskTraits:
        return task_traits({**state.labels, **service_labels}, self._default_class)

    def unconfirmed(self, node: str) -> set[str]:
        rows = self._rows.get(node, {})
        claimed = self.are_unconfirmed(np.fromiter(rows.values(), np.intp, len(rows)))
        return {name for name, is_claimed in zip(rows, claimed.tolist(), strict=True) if is_claimed}

    def are_unconfirmed(self, rows: Rows) -> Flags:
        """Which of these name a service of an orchestrator, which does not list them."""
        columns = self.table.columns
        claimed = ~columns.is_orchestrated[rows]
        if claimed.any() and columns.is_orchestrated.any():
            # The last flag is for tasks without a service.
            is_managed = np.zeros(self.services.size + 1, dtype=np.bool_)
            is_managed[columns.service[columns.is_orchestrated]] = True
            is_managed[NOWHERE] = False
            return claimed & is_managed[columns.service[rows]]
        return np.zeros(rows.size, dtype=np.bool_)

    def nodes_sharing_containers(self, node: str) -> Counter[str]:
        shared = self._rows.get(node, {}).keys() & self._shared.keys() if self._shared else ()
        nodes = (self._reported[row].node for container in shared for row in self._shared[container])
        return Counter(other for other in nodes if other != node)

    def _add(self, node: str, node_row: int, container: str, at: float) -> int:
        unique = self._unique.get(container)
        if unique is None and container not in self._shared:
            row = self.table.add(container)
            self._unique[container] = row
        else:
            row = self.table.add(f"{node}/{container}")
            self._shared.setdefault(container, set()).add(row)
            if unique is not None:
                del self._unique[container]
                self._shared[container].add(unique)
                if not self.table.columns.is_orchestrated[unique]:
                    self.table.rename(unique, f"{self._reported[unique].node}/{container}")
        self.table.columns.node[row] = node_row
        self.table.columns.first_report_at[row] = at
        # Ids are unique: the same one on another node is the same container, which was moved.
        kept = self._ended.pop(container, None) if unique is None else self.windows.keep(unique)
        if kept is not None:
            self.windows.put_back(row, kept)
        return row

    def _remove(self, row: int, container: str, at: float) -> None:
        sharing = self._shared.get(container)
        if sharing is None:
            del self._unique[container]
        else:
            sharing.remove(row)
            if len(sharing) == 1:
                del self._shared[container]
                (self._unique[container],) = sharing
                self.table.rename(self._unique[container], container)
        self._release(self._reported.pop(row).state.service)
        self.texts.drop(row)
        self._ended.pop(container, None)
        self._ended[container] = self.windows.keep(row, until=at)
        if len(self._ended) > KEPT_ENDED:
            del self._ended[next(iter(self._ended))]
        self.windows.clear(row)
        self.table.remove(row)

    def _describe(self, row: int, node: str, state: ContainerState, capacity: Sequence[float]) -> None:
        """Write the columns that seldom change."""
        columns, before = self.table.columns, self._reported.get(row)
        if not columns.is_orchestrated[row]:
            columns.requested[row] = columns.allocated[row] = promised_limits(state, capacity)
        columns.started_at[row] = np.nan if state.started_at is None else state.started_at
        columns.name[row] = state.name
        columns.service[row] = self._services.acquire(state.service)
        self.texts.put(row, node, state)
        task = self._reported[row] = ReportedTask(node, state)
        if before is not None:
            self._release(before.state.service)
            task.service_labels, task.namespace = before.service_labels, before.namespace
        if before is None or state.labels != before.state.labels:
            # An orchestrator may have set others: they hold until the labels change.
            traits = self._traits(state, task.service_labels)
            columns.task_class[row], columns.kind[row], columns.movable[row] = traits
        self._claim(row, task)

    def _claim(self, row: int, task: ReportedTask) -> None:
        """Set the application of the service of a task, by its labels."""
        service = task.state.service
        if service is None:
            return
        if self._spans_nodes and self.table.columns.is_orchestrated[row]:
            self.claims.put(service, application_traits(task.service_labels, task.namespace, service), None)
        else:
            self.claims.put(service, application_traits(task.state.labels, service=service), task.node)

    def _release(self, service: str | None) -> None:
        if service is not None and self._services.release(service):
            self.claims.drop(service)
