"""Hosts in columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from collector.common.liveness import Liveness, liveness_column
from collector.config import CollectorConfig
from collector.live.changes import Change, Host
from collector.live.table import Table
from collector.live.task_columns import amounts, blank_resources
from collector.live.traits import NodeTraits, node_traits
from collector.live.trend import Trend
from collector.snapshot.power_curves import GRID, Floats, PowerCurves
from collector.snapshot.tables import Codes, Flags, Generation
from wire.messages import PowerCurve
from wire.resources import RESOURCES


@dataclass(slots=True)
class NodeColumns:
    """One row per host."""

    capacity: Floats
    used: Floats
    heard_at: Floats
    """By the collector's clock."""
    beacon_seconds: Floats
    on: Flags
    accepts: Flags
    generation: Codes
    failures: Floats
    """Tasks that died, as many as they counted for at `failed_at`."""
    failed_at: Floats
    bottleneck: Flags
    idle_watts: Floats
    cpu_watts: Floats
    full_watts: Floats
    error_ratio: Floats


def _blank() -> NodeColumns:
    no_curve = PowerCurves.of([None])
    return NodeColumns(
        capacity=blank_resources(),
        used=blank_resources(),
        heard_at=np.zeros(1),
        beacon_seconds=np.zeros(1),
        on=np.ones(1, dtype=np.bool_),
        accepts=np.ones(1, dtype=np.bool_),
        generation=np.full(1, Generation.ANY, dtype=np.int8),
        failures=np.zeros(1),
        failed_at=np.zeros(1),
        bottleneck=np.zeros((1, len(RESOURCES)), dtype=np.bool_),
        idle_watts=no_curve.idle_watts,
        cpu_watts=no_curve.cpu_watts.reshape(1, GRID.size),
        full_watts=no_curve.full_watts,
        error_ratio=no_curve.error_ratio,
    )


@dataclass(slots=True)
class _Known:
    """What of a host is not a number."""

    row: int
    curve: PowerCurve | None = None
    traits: NodeTraits = NodeTraits({}, Generation.ANY, accepts=True)  # noqa: RUF009 - never changed


class NodeTable:
    """Every host, by its name."""

    def __init__(self, config: CollectorConfig) -> None:
        self._rules = config.nodes
        self._patience = config.liveness
        self._half_life_seconds = config.placement.failure_half_life_hours * 3600
        self._known: dict[str, _Known] = {}
        self._hosts: dict[str, Host] = {}
        self.table = Table(_blank())
        self.trend = Trend()
        self.version = 0
        """Grows when a label changes."""

    def row(self, node: str) -> int | None:
        """Where a host stands."""
        known = self._known.get(node)
        return None if known is None else known.row

    def labels(self, node: str) -> Mapping[str, str]:
        """Those of a host that is there."""
        return self._known[node].traits.labels

    def take(self, change: Change) -> int:
        """Take in what a report says of its host; gives its row."""
        self.advance(change.heard_at)
        known = self._known.get(change.node) or self._enter(change.node)
        row, columns = known.row, self.table.columns
        columns.heard_at[row] = change.heard_at
        columns.beacon_seconds[row] = change.beacon_seconds
        if change.is_new_run:
            columns.used[row] = columns.capacity[row] = np.nan
            self._put_curve(known, None)
        if change.state is not None:
            columns.used[row] = amounts(change.state.used)
            columns.capacity[row] = amounts(change.state.capacity)
        if change.tells_use:
            self.trend.put(row, self._ratios(row), change.heard_at)
        if change.curve is not None and change.curve is not known.curve:
            if change.curve != known.curve:
                self._put_curve(known, change.curve)
            # The same one comes with every report until the next heartbeat: it is not compared again.
            known.curve = change.curve
        if change.bottleneck is not None:
            columns.bottleneck[row] = change.bottleneck
        if change.failures:
            columns.failures[row] = change.failures + self.left_failures(row, change.heard_at)
            columns.failed_at[row] = change.heard_at
        return row

    def use_ratio(self, row: int) -> float:
        """How busy a host is, by the busier of its CPU and memory; what is not known counts as nothing."""
        return max(ratio or 0.0 for ratio in self._ratios(row)[:2])

    def overbooking(self, row: int, allocated: Floats) -> float:
        """The most promised of CPU and memory, by what there is; unknown is nothing."""
        capacity = self.table.columns.capacity[row, :2].tolist()
        pairs = zip(allocated[:2].tolist(), capacity, strict=True)
        return max(
            (part / whole for part, whole in pairs if 0 <= part < inf and 0 < whole < inf), default=0.0
        )

    def advance(self, now: float) -> None:
        """Close the slots of the trend that are over; what a node said holds until it counts as down."""
        if self.trend.is_over(now):
            columns = self.table.columns
            liveness = liveness_column(self._patience, now - columns.heard_at, columns.beacon_seconds)
            self.trend.advance(now, np.where(liveness == Liveness.DOWN, columns.heard_at, now))

    def put_host(self, host: Host) -> None:
        """Believe what an orchestrator knows of a host, now and when it is heard of."""
        self._hosts[host.node] = host
        if known := self._known.get(host.node):
            self._describe(host.node, known)

    def drop(self, node: str) -> int | None:
        """Let a host go; gives the row that was its."""
        known = self._known.pop(node, None)
        if known is None:
            return None
        self.trend.forget(known.row)
        self.table.leave(known.row)
        return known.row

    def failures(self, columns: NodeColumns, now: float) -> Floats:
        """How many deaths each host stands for now."""
        age_seconds = np.maximum(0.0, now - columns.failed_at)
        return columns.failures * np.exp2(-age_seconds / self._half_life_seconds)

    def left_failures(self, row: int, now: float) -> float:
        """How many deaths one host stands for now."""
        columns = self.table.columns
        age_seconds = max(0.0, now - float(columns.failed_at[row]))
        return float(columns.failures[row] * 2.0 ** (-age_seconds / self._half_life_seconds))

    def _ratios(self, row: int) -> list[float | None]:
        # Four numbers: plain Python is faster here than numpy.
        columns = self.table.columns
        pairs = zip(columns.used[row].tolist(), columns.capacity[row].tolist(), strict=True)
        return [
            used / capacity if 0 <= used < inf and 0 < capacity < inf else None for used, capacity in pairs
        ]

    def _enter(self, node: str) -> _Known:
        known = self._known[node] = _Known(self.table.enter(node))
        self._describe(node, known)
        return known

    def _describe(self, node: str, known: _Known) -> None:
        host = self._hosts.get(node)
        told = dict(host.labels or ()) if host is not None else {}
        known.traits = node_traits(node, self._rules, told)
        columns = self.table.columns
        columns.generation[known.row] = known.traits.generation
        columns.accepts[known.row] = known.traits.accepts and (host is None or host.accepts is not False)
        columns.on[known.row] = host is None or host.on is not False
        self.version += 1

    def _put_curve(self, known: _Known, curve: PowerCurve | None) -> None:
        known.curve = curve
        made, columns, row = PowerCurves.of([curve]), self.table.columns, known.row
        columns.idle_watts[row] = made.idle_watts[0]
        columns.cpu_watts[row] = made.cpu_watts[0]
        columns.full_watts[row] = made.full_watts[0]
        columns.error_ratio[row] = made.error_ratio[0]
