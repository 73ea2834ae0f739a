"""Nodes in columns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Codes, Flags, Floats, Numbers
from collector.common.liveness import Liveness, LivenessRule
from collector.common.orchestrator import NodeView
from collector.config import CollectorConfig
from collector.observe.agent_run import NodeChanges
from collector.observe.entries import TrackedNode
from collector.observe.table import Table, column, resources
from collector.observe.traits import NodeTraits, node_traits
from collector.observe.windows import UsageWindows
from collector.snapshot.columns import selected
from collector.snapshot.power_curves import CURVE_WIDTH, curve_row
from collector.snapshot.tables import BUSY_CPU_RATIO, Generation
from wire.messages import Alert, NodePower, NodeState, PowerCurve
from wire.resources import RESOURCES, Resource, ratio

_BUSY_DISK_RATIO = 0.5
"""Below this ratio, tasks wait for a file server, not for the node."""


def busy_ratios(state: NodeState) -> tuple[float | None, float | None, float | None, None]:
    """The share of time in which each resource was busy, or tasks waited for it; None if unknown.

    Pressure and I/O wait have causes that are no shortage of the node, as the agent's indicators explain.
    They count only if the resource itself is in use, as far as that is known.
    """
    pressure, disk_busy = state.pressure, state.disk_busy_ratio
    cpu = ratio(state.used, state.capacity, Resource.CPU)
    waits = (pressure.disk_ratio, state.iowait_ratio)
    if disk_busy is not None and disk_busy < _BUSY_DISK_RATIO:
        waits = None, None
    return (
        pressure.cpu_ratio if cpu is None or cpu >= BUSY_CPU_RATIO else None,
        pressure.memory_ratio,
        max((each for each in (disk_busy, *waits) if each is not None), default=None),
        None,
    )


def _ratios(state: NodeState | None) -> list[float]:
    """The share of each resource that is used; NaN if it is unknown."""
    if state is None:
        return [nan] * len(RESOURCES)
    return [
        nan
        if used is None or whole is None or not (0 <= used < inf and 0 < whole < inf)
        else float(used) / float(whole)
        for used, whole in zip(state.used.values, state.capacity.values, strict=True)
    ]


@dataclass(slots=True)
class NodeColumns:
    """One row per node."""

    capacity: Floats = resources()
    learned: Flags = resources(blank=False, dtype=np.bool_)
    used: Floats = resources()
    reported_watts: Floats = column()
    idle_watts: Floats = column()
    system_watts: Floats = column()
    error_ratio: Floats = column()
    """Expected relative error of its power."""
    busy: Floats = resources()
    last_report_at: Floats = column(0.0)
    """By the collector's clock."""
    beacon_seconds: Floats = column(0.0)
    complete: Flags = column(blank=False, dtype=np.bool_)
    containers: Numbers = column(0, np.int64)
    """How many run."""
    on: Flags = column(blank=True, dtype=np.bool_)
    accepts: Flags = column(blank=True, dtype=np.bool_)
    generation: Codes = column(Generation.ANY, np.int8)
    failures: Floats = column(0.0)
    """Tasks that died, as weighted at `failed_at`."""
    failed_at: Floats = column(0.0)
    bottleneck: Flags = resources(blank=False, dtype=np.bool_)
    culprit: NDArray[Any] = resources("", np.object_)
    """Per resource: the id of the container that the open alert names; empty if there is none."""
    excess: Floats = resources()
    by_time: Flags = resources(blank=False, dtype=np.bool_)
    power: Floats = column(width=CURVE_WIDTH)
    """The rows of its `PowerCurves`."""


def _put_power(columns: NodeColumns, row: int, power: NodePower | None) -> None:
    columns.reported_watts[row] = np.nan if power is None else power.watts
    columns.idle_watts[row] = np.nan if power is None else power.idle_watts
    columns.system_watts[row] = np.nan if power is None else power.system_watts
    columns.error_ratio[row] = np.nan if power is None else power.error_ratio


@dataclass(frozen=True, slots=True)
class ListedNodes:
    """All nodes now, by name; a row of each column is a node."""

    names: tuple[str, ...]
    liveness: Codes
    search_texts: tuple[str, ...]
    """Name and labels of each node, in lower case."""
    columns: NodeColumns


@dataclass(slots=True)
class _Node:
    """The properties of a node that are not in columns."""

    row: int
    curve: PowerCurve | None = None
    search_text: str = ""
    """Name and labels, in lower case."""
    traits: NodeTraits = NodeTraits({}, Generation.ANY, accepts=True)  # noqa: RUF009 - never changed


class NodeTable:
    """Every node, by its name."""

    def __init__(self, config: CollectorConfig, own_host: str = "") -> None:
        self._rules = config.nodes
        self._own_host = own_host
        self._own_node: str | None = None
        """The node that runs the collector in a container."""
        self._liveness = LivenessRule(config.liveness.down_after_beacons)  # a restore does not change usage
        self._half_life_seconds = config.placement.failure_half_life_hours * 3600
        self._nodes: dict[str, _Node] = {}
        self._statuses: dict[str, NodeView] = {}
        self.table = Table(NodeColumns())
        self.windows = UsageWindows()
        self.version = 0
        """Incremented when a label changes."""
        self._search_texts: tuple[tuple[int, int], tuple[str, ...]] = ((-1, -1), ())

    def row(self, node: str) -> int | None:
        entry = self._nodes.get(node)
        return None if entry is None else entry.row

    def labels(self, node: str) -> Mapping[str, str]:
        return self._nodes[node].traits.labels

    def listed(self, now: float, rule: LivenessRule) -> ListedNodes:
        order = self.table.order()
        columns, names = selected(self.table.columns, order), self.table.names(order)
        version = self.table.version, self.version
        if self._search_texts[0] != version:
            self._search_texts = version, tuple(self._nodes[name].search_text for name in names)
        liveness = rule.column(now, columns.last_report_at, columns.beacon_seconds)
        return ListedNodes(names, liveness, self._search_texts[1], columns)

    def apply(self, name: str, tracked: TrackedNode, changes: NodeChanges, failures: int) -> int:
        """Apply the changes of a report with this many failed containers; returns the row of its node."""
        entry = self._nodes.get(name) or self._add(name)
        row, columns, at = entry.row, self.table.columns, tracked.last_report_at
        columns.last_report_at[row] = at
        columns.beacon_seconds[row] = tracked.beacon_seconds
        columns.complete[row] = tracked.run.is_complete
        columns.containers[row] = len(tracked.run.containers)
        state, is_new_run = changes.state, changes.is_new_run
        if is_new_run:
            columns.used[row] = columns.capacity[row] = columns.busy[row] = np.nan
            _put_power(columns, row, None)
            columns.learned[row] = False
            self._put_curve(entry, None)
        if state is not None:
            columns.used[row] = state.used.values
            columns.capacity[row] = state.capacity.values
            columns.learned[row] = [each in state.learned_capacities for each in RESOURCES]
            columns.busy[row] = busy_ratios(state)
            _put_power(columns, row, state.power)
        if state is not None or is_new_run:
            window_seconds = 0.0 if state is None else state.window_seconds
            self.windows.put((row,), np.array([_ratios(state)]), at, (window_seconds,))
        curve = tracked.run.power_curve
        if curve is not None and curve != entry.curve:
            self._put_curve(entry, curve)
        if failures:
            earlier = self.failures(columns.failures[row], columns.failed_at[row], at)
            columns.failures[row] = failures + earlier
            columns.failed_at[row] = at
        return row

    def put_alerts(self, node: str, alerts: Mapping[Resource, Alert]) -> None:
        entry, columns = self._nodes.get(node), self.table.columns
        if entry is None:
            return
        row = entry.row
        found = [alerts.get(resource) for resource in RESOURCES]
        columns.bottleneck[row] = [each is not None for each in found]
        columns.culprit[row] = ["" if each is None else each.container or "" for each in found]
        columns.excess[row] = [None if each is None else each.excess_ratio for each in found]
        # The alerts of disks always are; those of an older agent, or of a store, do not say so.
        columns.by_time[row] = [
            each is not None and (each.by_time or each.resource is Resource.DISK) for each in found
        ]

    def valid_until(self, now: float) -> Floats:
        """Until when the last state of each row holds: until its node is down."""
        columns = self.table.columns
        liveness = self._liveness.column(now, columns.last_report_at, columns.beacon_seconds)
        return np.where(liveness == Liveness.DOWN, columns.last_report_at, now)

    def apply_beacons(self, nodes: Iterable[str], at: float) -> None:
        rows = [entry.row for node in nodes if (entry := self._nodes.get(node)) is not None]
        column = self.table.columns.last_report_at
        column[rows] = np.maximum(column[rows], at)

    def put_status(self, status: NodeView) -> None:
        """Set the status of a node; for a node without reports, it applies from the first one on."""
        self._statuses[status.name] = status
        if entry := self._nodes.get(status.name):
            self._describe(status.name, entry)

    def put_own_node(self, node: str) -> None:
        """Note which node runs the collector, if its name does not show it."""
        self._own_node = node
        if entry := self._nodes.get(node):
            self._describe(node, entry)

    def _runs_collector(self, node: str) -> bool:
        """Whether a node has the collector's host name, with or without a domain."""
        if node == self._own_node:
            return True
        mine, theirs = self._own_host.split("."), node.split(".")
        return mine[0] == theirs[0] and (mine == theirs or 1 in {len(mine), len(theirs)})

    def drop(self, node: str) -> int | None:
        """Remove a node; returns the row that it had."""
        entry = self._nodes.pop(node, None)
        if entry is None:
            return None
        self.windows.clear(entry.row)
        self.table.remove(entry.row)
        return entry.row

    def failures(self, weighted: Floats, failed_at: Floats, now: float) -> Floats:
        """The failures of some rows now, as weighted at `failed_at`: older ones count less."""
        return weighted * np.exp2(-np.maximum(0.0, now - failed_at) / self._half_life_seconds)

    def _add(self, node: str) -> _Node:
        entry = self._nodes[node] = _Node(self.table.add(node))
        self._describe(node, entry)
        return entry

    def _describe(self, node: str, entry: _Node) -> None:
        status = self._statuses.get(node) or NodeView(name=node)
        entry.traits = node_traits(
            node, self._rules, status.labels, runs_collector=self._runs_collector(node)
        )
        labels = (f"{key}={value}" for key, value in entry.traits.labels.items())
        entry.search_text = "\n".join((node, *labels)).casefold()
        columns = self.table.columns
        columns.generation[entry.row] = entry.traits.generation
        columns.accepts[entry.row] = entry.traits.accepts and status.accepts
        columns.on[entry.row] = status.on
        self.version += 1

    def _put_curve(self, entry: _Node, curve: PowerCurve | None) -> None:
        entry.curve = curve
        self.table.columns.power[entry.row] = curve_row(curve)
