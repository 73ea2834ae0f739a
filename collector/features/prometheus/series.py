"""Series from the store, for times before the SQLite file was created.

A store gives every sample the same weight; the file weights each by its duration. As the current values are
repeated every minute, steps of a few minutes differ little.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Final

from collector.features.prometheus.schema import INFO, INSTANCE, USAGE_METRICS
from collector.features.prometheus.writer import REPEAT_SECONDS
from collector.history.interface import ClusterPoint, ClusterSeries, Point, Series, SubjectKind
from collector.history.points import MAX_POINTS, point_of
from collector.history.promql import Client, quoted
from wire.resources import RESOURCES, Resource

_NODE_USAGE_METRICS: Final = {
    Resource.CPU: "wattpack_node_cpu_cores",
    Resource.MEMORY: "wattpack_node_memory_used_bytes",
    Resource.DISK: "wattpack_node_disk_bytes_per_second",
    Resource.NETWORK: "wattpack_node_network_bytes_per_second",
}
_CLUSTER_METRICS: Final = (
    "wattpack_node_power_watts",
    "wattpack_node_power_idle_watts",
    "wattpack_node_power_system_watts",
)
_MEAN, _MAX = "avg_over_time", "max_over_time"
_WATTS: Final = "watts"
_PRESSURE: Final = "pressure of "
_RESOURCE: Final = "resource"
"""The label of pressure, whose metric has a series for each resource."""


class StoreSeries:
    """Reads series from the store."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def series(
        self, kind: SubjectKind, name: str, start: float, end: float, step_seconds: float
    ) -> Series:
        """The series of one subject in `[start, end)`; raises `HistoryUnavailable`."""
        step = _step(start, end, step_seconds)
        queries = [
            (key, over, _promql(kind, name, metric, over, step))
            for key, metric in _metrics(kind).items()
            for over in (_MEAN, _MAX)
        ]
        answers = await asyncio.gather(
            *(self._client.query_range(promql, start + step, end, step) for _, _, promql in queries)
        )
        steps: defaultdict[float, dict[tuple[str, str], float]] = defaultdict(dict)
        for (key, over, _), found in zip(queries, answers, strict=True):
            for each in found:
                for at, value in each.values:
                    if math.isfinite(float(value)):
                        # A step is queried by its end, and labelled by its start.
                        steps[at - step][key + each.metric.get(_RESOURCE, ""), over] = float(value)
        points = (_point(at, values, kind) for at, values in sorted(steps.items()))
        return Series(step_seconds=float(step), points=tuple(points))

    async def cluster_series(
        self, start: float, end: float, step_seconds: float, error_ratios: Mapping[str, float]
    ) -> ClusterSeries:
        """The power of all nodes together; raises `HistoryUnavailable`."""
        step = _step(start, end, step_seconds)
        answers = await asyncio.gather(
            *(
                self._client.query_range(
                    f"sum by ({INSTANCE}) ({_MEAN}({metric}[{step}s]))", start + step, end, step
                )
                for metric in _CLUSTER_METRICS
            )
        )
        other_ratio = fsum(error_ratios.values()) / len(error_ratios) if error_ratios else 0.0
        steps: defaultdict[float, _ClusterSum] = defaultdict(_ClusterSum)
        for place, found in enumerate(answers):
            for each in found:
                ratio = error_ratios.get(each.metric.get(INSTANCE, ""), other_ratio)
                for at, value in each.values:
                    if math.isfinite(float(value)):
                        steps[at - step].add(place, float(value), ratio)
        points = (total.point(at) for at, total in sorted(steps.items()) if total.nodes)
        return ClusterSeries(step_seconds=float(step), points=tuple(points))


@dataclass(slots=True)
class _ClusterSum:
    """The sum over all nodes in one step."""

    watts: list[float] = field(default_factory=lambda: [0.0] * len(_CLUSTER_METRICS))
    error_watts: float = 0.0
    nodes: int = 0

    def add(self, place: int, watts: float, error_ratio: float) -> None:
        self.watts[place] += watts
        if place == 0:
            self.error_watts += watts * error_ratio
            self.nodes += 1

    def point(self, at: float) -> ClusterPoint:
        watts, idle, system = self.watts
        return ClusterPoint(
            at=at,
            watts=watts,
            idle_watts=idle,
            system_watts=system,
            containers_watts=max(0.0, watts - idle - system),
            error_watts=self.error_watts,
            nodes=self.nodes,
        )


def _step(start: float, end: float, step_seconds: float) -> int:
    return math.ceil(max(step_seconds, 2 * REPEAT_SECONDS, (end - start) / MAX_POINTS))


def _metrics(kind: SubjectKind) -> dict[str, str]:
    """The metrics to query, by resource, for watts, and for pressure, which of a service does not add up."""
    is_node = kind is SubjectKind.NODE
    metrics = _NODE_USAGE_METRICS if is_node else USAGE_METRICS
    found = {resource.value: metric for resource, metric in metrics.items()}
    found[_WATTS] = "wattpack_node_power_watts" if is_node else "wattpack_container_power_watts"
    if kind is not SubjectKind.SERVICE:
        found[_PRESSURE] = "wattpack_node_pressure_ratio" if is_node else "wattpack_container_pressure_ratio"
    return found


def _promql(kind: SubjectKind, name: str, metric: str, over: str, step: int) -> str:
    match kind:
        case SubjectKind.NODE:
            return f"sum by ({_RESOURCE}) ({over}({metric}{{{INSTANCE}={quoted(name)}}}[{step}s]))"
        case SubjectKind.CONTAINER:
            return f"sum by ({_RESOURCE}) ({over}({metric}{{id={quoted(name)}}}[{step}s]))"
        case SubjectKind.SERVICE:
            # Only the info series has the label `service`.
            members = f"max by ({INSTANCE}, id) (last_over_time({INFO}{{service={quoted(name)}}}[{step}s]))"
            return f"sum(sum by ({INSTANCE}, id) ({over}({metric}[{step}s])) * on ({INSTANCE}, id) {members})"


def _point(at: float, values: Mapping[tuple[str, str], float], kind: SubjectKind) -> Point:
    means, maxima = ([values.get((key, over)) for key in _KEYS] for over in (_MEAN, _MAX))
    return point_of(at, means, maxima, kind)


_KEYS: Final = (
    *(resource.value for resource in RESOURCES),
    _WATTS,
    *(_PRESSURE + resource for resource in (Resource.CPU, Resource.MEMORY, Resource.DISK)),
)
"""The keys of values, in the order of `Values`."""
