"""From the board's columns to a snapshot: copied while writers wait, put together while they go on."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from collector.common.liveness import liveness_column
from collector.config import CollectorConfig
from collector.live.node_columns import NodeColumns, NodeTable
from collector.live.table import Table, gather, places
from collector.live.task_columns import TaskColumns, TaskTable
from collector.snapshot.assembly import (
    ServiceFacts,
    best_guess,
    service_table,
    strictest_by_node,
    sum_by_node,
)
from collector.snapshot.power_curves import Floats, PowerCurves, Rows
from collector.snapshot.tables import NOWHERE, Nodes, Services, Snapshot, Tasks

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class _NodeWords:
    """What of the nodes is not a number: the same until a node comes, goes or is labelled anew."""

    names: tuple[str, ...]
    labels: tuple[Mapping[str, str], ...]
    domain: np.ndarray[tuple[int], np.dtype[np.int32]]
    domain_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Named:
    """The services that tasks name, as the board has them."""

    version: int
    names: tuple[str, ...]
    order: Rows
    size: int


@dataclass(frozen=True, slots=True)
class _Facts:
    """All that was learnt of services."""

    version: int
    by_name: Mapping[str, ServiceFacts]


@dataclass(frozen=True, slots=True)
class _Copied:
    """All that a snapshot is made of, at one moment."""

    nodes: NodeColumns
    node_words: _NodeWords
    failures: Floats
    history: Floats
    tasks: TaskColumns
    task_ids: tuple[str, ...]
    node_places: Rows
    """Where each row of the board's nodes stands in the snapshot."""
    named: _Named
    facts: _Facts


@dataclass(frozen=True, slots=True)
class _ServiceTable:
    """The services, and where each row of those that the board's tasks name stands among them."""

    services: Services
    places: Rows

    @classmethod
    def of(cls, named: _Named, facts: Mapping[str, ServiceFacts]) -> "_ServiceTable":
        names = sorted({*named.names, *facts})
        place = {name: place for place, name in enumerate(names)}
        places = np.full(named.size, NOWHERE, dtype=np.intp)
        places[named.order] = [place[name] for name in named.names]
        table = service_table([facts.get(name) or ServiceFacts(name=name) for name in names])
        return cls(table, places)


class _Kept(Generic[Made]):
    """Something that is made anew only when what it is made from has changed."""

    def __init__(self) -> None:
        self._of: tuple[Hashable, ...] | None = None
        self._made: list[Made] = []

    def get(self, of: tuple[Hashable, ...], make: Callable[[], Made]) -> Made:
        if self._of != of:
            self._made = [make()]
            self._of = of
        return self._made[0]


class SnapshotBuilder:
    """Makes snapshots, and keeps what does not change from one to the next."""

    def __init__(self, config: CollectorConfig) -> None:
        self._liveness = config.liveness
        self._domain_label = config.placement.domain_label
        self._facts = _Facts(0, {})
        self._node_words: _Kept[_NodeWords] = _Kept()
        self._task_ids: _Kept[tuple[str, ...]] = _Kept()
        self._named: _Kept[_Named] = _Kept()
        self._services: _Kept[_ServiceTable] = _Kept()
        self._history: _Kept[Floats] = _Kept()
        self._last_nodes: Nodes | None = None

    def put_services(self, services: Sequence[ServiceFacts]) -> None:
        """All that is known of services, in place of what was."""
        self._facts = _Facts(self._facts.version + 1, {each.name: each for each in services})

    def copy(self, nodes: NodeTable, tasks: TaskTable, now: float) -> _Copied:
        """Everything that writers may change the moment after."""
        nodes.advance(now)
        node_order, task_order = nodes.table.order(), tasks.table.order()
        node_columns = gather(nodes.table.columns, node_order)
        return _Copied(
            nodes=node_columns,
            node_words=self._node_words.get(
                (nodes.table.version, nodes.version), lambda: self._words(nodes, node_order)
            ),
            failures=nodes.failures(node_columns, now),
            history=self._history.get(
                (nodes.table.version, nodes.trend.closed), lambda: nodes.trend.ratios(node_order)
            ),
            tasks=gather(tasks.table.columns, task_order),
            task_ids=self._task_ids.get((tasks.table.version,), lambda: tasks.table.names(task_order)),
            node_places=places(node_order, nodes.table.size),
            named=self._named.get((tasks.services.version,), lambda: _named(tasks.services)),
            facts=self._facts,
        )

    def snapshot(self, copied: _Copied, now: float) -> Snapshot:
        """The tables, and what the tasks come to on each node."""
        named, facts = copied.named, copied.facts
        services = self._services.get(
            (named.version, facts.version), lambda: _ServiceTable.of(named, facts.by_name)
        )
        tasks = self._tasks(copied, services, now)
        nodes = self._nodes(copied, tasks, now)
        # Nodes seldom come, go or change their labels: what was made of those goes on.
        self._last_nodes = nodes if self._last_nodes is None else nodes.knowing(self._last_nodes)
        return Snapshot(
            at=now,
            nodes=nodes,
            tasks=tasks,
            services=services.services,
            domain_names=copied.node_words.domain_names,
        )

    def _words(self, nodes: NodeTable, order: Rows) -> _NodeWords:
        names = nodes.table.names(order)
        labels = tuple(nodes.labels(name) for name in names)
        domains = [each.get(self._domain_label) for each in labels]
        domain_names = tuple(sorted({domain for domain in domains if domain is not None}))
        number = {domain: place for place, domain in enumerate(domain_names)}
        told = [NOWHERE if domain is None else number[domain] for domain in domains]
        return _NodeWords(names, labels, np.array(told, dtype=np.int32), domain_names)

    def _tasks(self, copied: _Copied, named: _ServiceTable, now: float) -> Tasks:
        told = copied.tasks
        seen_seconds = np.maximum(0.0, now - told.seen_at)
        # A container that nobody knows the start of is as old as our knowing it.
        age_seconds = np.where(
            np.isnan(told.started_at), seen_seconds, np.maximum(0.0, now - told.started_at)
        )
        services, service = named.services, _row(told.service, named.places)
        # Until a container has samples of its own, what is known of its service stands in for them.
        starts_known = (service != NOWHERE) & (told.samples == 0)
        starts_known[starts_known] = services.known[service[starts_known]]
        for column, known in (
            (told.envelope, services.envelope),
            (told.mean, services.mean),
            (told.variance, services.variance),
        ):
            column[starts_known] = known[service[starts_known]]
        return Tasks(
            ids=copied.task_ids,
            names=tuple(told.label.tolist()),
            node=_row(told.node, copied.node_places),
            service=service,
            used=told.used,
            mean=best_guess(told.mean, told.used, told.requested),
            variance=told.variance,
            envelope=best_guess(told.envelope, told.used, told.requested),
            samples=told.samples,
            requested=told.requested,
            allocated=told.allocated,
            task_class=told.task_class,
            kind=told.kind,
            group=told.group,
            age_seconds=age_seconds,
            settled_seconds=np.maximum(age_seconds, seen_seconds),
            came_from=_row(told.came_from, copied.node_places),
            movable=told.movable,
        )

    def _nodes(self, copied: _Copied, tasks: Tasks, now: float) -> Nodes:
        told, words = copied.nodes, copied.node_words
        count = len(words.names)
        heard_seconds_ago = np.maximum(0.0, now - told.heard_at)
        return Nodes(
            names=words.names,
            capacity=told.capacity,
            used=told.used,
            liveness=liveness_column(self._liveness, heard_seconds_ago, told.beacon_seconds),
            on=told.on,
            accepts=told.accepts,
            heard_seconds_ago=heard_seconds_ago,
            generation=told.generation,
            failures=np.rint(copied.failures).astype(np.int32),
            bottleneck=told.bottleneck,
            domain=words.domain,
            history=copied.history,
            power=PowerCurves(told.idle_watts, told.cpu_watts, told.full_watts, told.error_ratio),
            labels=words.labels,
            tasks=np.bincount(tasks.node, minlength=count).astype(np.int32),
            allocated=sum_by_node(tasks.node, tasks.allocated, count),
            reserved=sum_by_node(tasks.node, tasks.envelope, count),
            mean=sum_by_node(tasks.node, tasks.mean, count),
            variance=sum_by_node(tasks.node, tasks.variance, count),
            strictest_class=strictest_by_node(tasks, count),
        )


def _named(table: Table[Any]) -> _Named:
    order = table.order()
    return _Named(table.version, table.names(order), order, table.size)


def _row(rows: Rows, found: Rows) -> Rows:
    """Rows of a table as rows of the snapshot; what is nowhere stays so."""
    return np.where(rows == NOWHERE, NOWHERE, found[rows])
