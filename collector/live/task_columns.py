"""Containers in columns."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.live.table import Table
from collector.live.traits import task_traits
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import NOWHERE, Codes, Flags, TaskKind
from wire.messages import ContainerState
from wire.resources import RESOURCES, Quantities

Amounts = tuple[float | None, int | None, float | None, float | None]
"""A row as it is told: numpy makes NaN of None."""
_MOST_BYTES = 2**63 - 1
"""Strangers may promise as much as they like; sums stop where the wire's own numbers do."""


def amounts(quantities: Quantities) -> Amounts:
    """Quantities in the order of `RESOURCES`."""
    return (
        quantities.cpu_cores,
        quantities.memory_bytes,
        quantities.disk_bytes_per_second,
        quantities.network_bytes_per_second,
    )


def promise(limit: Quantities, capacity: Sequence[float]) -> Amounts:
    """What limits promise; one that leaves a container all that its node has promises nothing.

    A container without limits of its own is told with those of its node. NaN is not known.
    """
    cpu, memory, disk, network = amounts(limit)
    cores, memory_bytes, disk_rate, network_rate = capacity
    return (
        None if cpu is None or cpu >= cores else cpu,
        None if memory is None or memory >= memory_bytes else memory,
        None if disk is None or disk >= disk_rate else disk,
        None if network is None or network >= network_rate else network,
    )


def quantities(row: Floats) -> Quantities:
    """A row as quantities."""
    cpu, memory, disk, network = (value if math.isfinite(value) else None for value in row.tolist())
    return Quantities(cpu, None if memory is None else min(round(memory), _MOST_BYTES), disk, network)


def _share(part: float, whole: float) -> float:
    """A part of a whole; nothing where either is not known."""
    ratio = part / whole if whole > 0 else 0.0
    return ratio if ratio > 0 else 0.0


def blank_resources(value: float = np.nan) -> Floats:
    """One row of a column of resources."""
    return np.full((1, len(RESOURCES)), value)


@dataclass(slots=True)
class TaskColumns:
    """One row per container; rows of other tables where something else is meant."""

    node: Rows
    service: Rows
    came_from: Rows
    used: Floats
    mean: Floats
    variance: Floats
    envelope: Floats
    samples: NDArray[np.int64]
    requested: Floats
    allocated: Floats
    is_promised: Flags
    """Whether an orchestrator said what it promised; else it is what the node sees as limits."""
    task_class: Codes
    kind: Codes
    group: Codes
    started_at: Floats
    """NaN where its node does not know."""
    seen_at: Floats
    """When it was first heard of, by the collector's clock."""
    movable: Flags
    label: NDArray[Any]
    """The name that its runtime gave it."""


def _blank() -> TaskColumns:
    return TaskColumns(
        node=np.full(1, NOWHERE, dtype=np.intp),
        service=np.full(1, NOWHERE, dtype=np.intp),
        came_from=np.full(1, NOWHERE, dtype=np.intp),
        used=blank_resources(),
        mean=blank_resources(),
        variance=blank_resources(0.0),
        envelope=blank_resources(),
        samples=np.zeros(1, dtype=np.int64),
        requested=blank_resources(),
        allocated=blank_resources(),
        is_promised=np.zeros(1, dtype=np.bool_),
        task_class=np.ones(1, dtype=np.int8),
        kind=np.full(1, TaskKind.SERVICE, dtype=np.int8),
        group=np.full(1, NOWHERE, dtype=np.int8),
        started_at=np.full(1, np.nan),
        seen_at=np.full(1, np.nan),
        movable=np.ones(1, dtype=np.bool_),
        label=np.full(1, "", dtype=np.object_),
    )


class _Named:
    """The services that containers name: a row for each while any of them does."""

    def __init__(self) -> None:
        self.table = Table(_Count(np.zeros(1, dtype=np.int64)))
        self._rows: dict[str, int] = {}

    def take(self, name: str | None) -> int:
        if name is None:
            return NOWHERE
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = self.table.enter(name)
        self.table.columns.tasks[row] += 1
        return row

    def rows(self, names: Iterable[str]) -> list[int]:
        return [row for name in names if (row := self._rows.get(name)) is not None]

    def give_back(self, name: str | None) -> None:
        if name is None:
            return
        row = self._rows[name]
        self.table.columns.tasks[row] -= 1
        if not self.table.columns.tasks[row]:
            del self._rows[name]
            self.table.leave(row)


@dataclass(slots=True)
class _Count:
    tasks: NDArray[np.int64]


@dataclass(slots=True)
class _Told:
    """Whose row it is, what was last told of it, and what its limits promise there."""

    node: str
    state: ContainerState
    promise: Amounts


class TaskTable:
    """Every container that runs, by its node and its id there."""

    def __init__(self, default_class: int) -> None:
        self._default_class = default_class
        self._rows: dict[str, dict[str, int]] = {}
        self._told: dict[int, _Told] = {}
        self._sole: dict[str, int] = {}
        self._disputed: dict[str, set[int]] = {}
        """Ids that more than one node claims, against all custom: there, both are called node/id."""
        self._named = _Named()
        self.table = Table(_blank())

    @property
    def services(self) -> Table[_Count]:
        return self._named.table

    def row(self, node: str, container: str) -> int | None:
        """Where a container stands."""
        return self._rows.get(node, {}).get(container)

    def find(
        self, services: Collection[str] | None, name: str | None, group: int | None
    ) -> dict[str, list[str]]:
        """Ids by node of those that are all of this; columns are looked through, and not containers."""
        columns = self.table.columns
        matching: Flags = columns.node != NOWHERE
        if services is not None:
            matching &= np.isin(columns.service, self._named.rows(services))
        if name is not None:
            matching &= columns.label == name
        if group is not None:
            matching &= columns.group == group
        found: dict[str, list[str]] = {}
        for row in np.flatnonzero(matching).tolist():
            told = self._told[row]
            found.setdefault(told.node, []).append(told.state.id)
        return found

    def put(
        self,
        node: str,
        node_row: int,
        capacity: Sequence[float],
        containers: Sequence[ContainerState],
        at: float,
    ) -> tuple[list[int], list[str]]:
        """Take in what a node said of containers; gives their rows, and the ids of those that are new."""
        of_node = self._rows.setdefault(node, {})
        rows, new = [], []
        for state in containers:
            row = of_node.get(state.id)
            if row is None:
                new.append(state.id)
                row = of_node[state.id] = self._enter(node, node_row, state.id, at)
            self._describe(row, node, state, promise(state.limit, capacity))
            rows.append(row)
        self.table.columns.used[rows] = np.array([amounts(state.used) for state in containers], dtype=float)
        return rows, new

    def drop(self, node: str, containers: Iterable[str]) -> list[int]:
        """Let containers go; gives the rows that were theirs."""
        of_node = self._rows.get(node, {})
        dropped = []
        for container in containers:
            row = of_node.pop(container, None)
            if row is not None:
                self._leave(row, container)
                dropped.append(row)
        return dropped

    def drop_node(self, node: str) -> list[int]:
        """Let all containers of a node go."""
        dropped = self.drop(node, list(self._rows.get(node, ())))
        self._rows.pop(node, None)
        return dropped

    def use_ratios(self, rows: Sequence[int]) -> list[float]:
        """How much of their promises tasks use, by the busier of CPU and memory; unknown is nothing."""
        columns = self.table.columns
        # A report tells of a few containers: plain Python is faster here than numpy.
        pairs = zip(columns.used[rows].tolist(), columns.allocated[rows].tolist(), strict=True)
        return [max(_share(used[0], promised[0]), _share(used[1], promised[1])) for used, promised in pairs]

    def allocated(self, node: str) -> Floats:
        """What the tasks of a node were promised in all; NaN where none was promised anything."""
        promised = self.table.columns.allocated[list(self._rows.get(node, {}).values())]
        return np.where(np.isnan(promised).all(axis=0), np.nan, np.nansum(promised, axis=0))

    def hold(self, row: int, *, stays: bool, everywhere: bool) -> None:
        """Say that a container must stay where it is, or is one of many alike, or that its labels decide."""
        traits = task_traits(self._told[row].state.labels, self._default_class)
        self.table.columns.movable[row] = not stays and traits.movable
        self.table.columns.kind[row] = TaskKind.DAEMON if everywhere else traits.kind

    def rivals(self, node: str) -> Counter[str]:
        """The nodes that claim the same containers as this one, and how many."""
        disputed = self._rows.get(node, {}).keys() & self._disputed.keys() if self._disputed else ()
        claims = (self._told[row].node for container in disputed for row in self._disputed[container])
        return Counter(other for other in claims if other != node)

    def _enter(self, node: str, node_row: int, container: str, at: float) -> int:
        sole = self._sole.get(container)
        if sole is None and container not in self._disputed:
            row = self.table.enter(container)
            self._sole[container] = row
        else:
            row = self.table.enter(f"{node}/{container}")
            self._disputed.setdefault(container, set()).add(row)
            if sole is not None:
                del self._sole[container]
                self._disputed[container].add(sole)
                self.table.rename(sole, f"{self._told[sole].node}/{container}")
        self.table.columns.node[row] = node_row
        self.table.columns.seen_at[row] = at
        return row

    def _leave(self, row: int, container: str) -> None:
        rivals = self._disputed.get(container)
        if rivals is None:
            del self._sole[container]
        else:
            rivals.remove(row)
            if len(rivals) == 1:
                del self._disputed[container]
                (self._sole[container],) = rivals
                self.table.rename(self._sole[container], container)
        self._named.give_back(self._told.pop(row).state.service)
        self.table.leave(row)

    def _describe(self, row: int, node: str, state: ContainerState, promised: Amounts) -> None:
        """Write what seldom changes, where it did."""
        columns, told = self.table.columns, self._told.get(row)
        before = None if told is None else told.state
        if (told is None or promised != told.promise) and not columns.is_promised[row]:
            columns.requested[row] = columns.allocated[row] = promised
        if before is None or state.labels != before.labels:
            traits = task_traits(state.labels, self._default_class)
            columns.task_class[row], columns.kind[row], columns.movable[row] = traits
        if before is None or state.started_at != before.started_at:
            columns.started_at[row] = np.nan if state.started_at is None else state.started_at
        if before is None or state.service != before.service:
            columns.service[row] = self._named.take(state.service)
            if before is not None:
                self._named.give_back(before.service)
        if before is None or state.name != before.name:
            columns.label[row] = state.name
        if told is None:
            self._told[row] = _Told(node, state, promised)
        else:
            told.state, told.promise = state, promised
