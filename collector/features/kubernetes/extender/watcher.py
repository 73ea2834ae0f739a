"""Load in the format of load-watcher, which the Kubernetes plugins Trimaran and PEAKS read."""

from collections.abc import Iterator

import msgspec
import numpy as np

from collector.common.liveness import Liveness
from collector.observe.windows import BUCKET_SECONDS
from collector.snapshot.tables import Snapshot
from wire.resources import RESOURCES, Resource

_WINDOW, _WINDOW_SECONDS = "15m", 900.0
_BUCKETS = round(_WINDOW_SECONDS / BUCKET_SECONDS)
_TYPES = {
    Resource.CPU: "CPU",
    Resource.MEMORY: "Memory",
    Resource.DISK: "Storage",
    Resource.NETWORK: "Bandwidth",
}
_PERCENT = 100.0


class WatcherMetric(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a node."""

    name: str
    """Name of the metric."""
    type: str
    """`CPU`, `Memory`, `Storage`, `Bandwidth` or `Energy`."""
    operator: str
    rollup: str
    value: float
    """Percent of the node's capacity; watts for the type `Energy`."""


class NodeMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """All values of one node."""

    metrics: list[WatcherMetric]


class WatcherWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The averaging window."""

    duration: str
    """Length of the window, such as `15m`."""
    start: int
    end: int


class WatcherData(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes by name."""

    node_metrics_map: dict[str, NodeMetrics] = msgspec.field(name="NodeMetricsMap")


class WatcherMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The load of nodes in the format of load-watcher, without nodes that are down."""

    timestamp: int
    """Unix time of the values."""
    window: WatcherWindow
    """The window over which the values are averaged."""
    source: str
    """Always `wattpack`."""
    data: WatcherData
    """The values of all nodes."""


def watcher_metrics(snapshot: Snapshot, host: str | None = None) -> WatcherMetrics:
    """The load of all nodes, or of one."""
    nodes, end = snapshot.nodes, int(snapshot.at)
    rows = np.flatnonzero(nodes.on & (nodes.liveness != Liveness.DOWN)).tolist()
    if host is not None:
        rows = [row for row in rows if nodes.names[row] == host]
    return WatcherMetrics(
        timestamp=end,
        window=WatcherWindow(duration=_WINDOW, start=end - int(_WINDOW_SECONDS), end=end),
        source="wattpack",
        data=WatcherData(
            node_metrics_map={
                nodes.names[row]: NodeMetrics(metrics=list(_metrics(snapshot, row))) for row in rows
            }
        ),
    )


def _metrics(snapshot: Snapshot, row: int) -> Iterator[WatcherMetric]:
    nodes = snapshot.nodes
    past = nodes.history[row, -_BUCKETS:] if nodes.history.shape[1] else np.empty((0, len(RESOURCES)))
    for place, resource in enumerate(RESOURCES):
        latest = float(nodes.used_ratio[row, place])
        # The history does not contain the current bucket: the latest value stands in for it.
        values = [each for each in (*past[:, place].tolist(), latest) if not np.isnan(each)]
        if not values:
            continue
        for operator, ratio in (("AVG", float(np.mean(values))), ("STD", float(np.std(values)))):
            yield _metric(resource, _TYPES[resource], operator, ratio * _PERCENT)
        if not np.isnan(latest):
            yield _metric(resource, _TYPES[resource], "Latest", latest * _PERCENT)
    watts = float(nodes.watts[row])
    if not np.isnan(watts):
        yield _metric("power", "Energy", "Latest", watts)


def _metric(name: str, kind: str, operator: str, value: float) -> WatcherMetric:
    return WatcherMetric(name=f"wattpack_{name}", type=kind, operator=operator, rollup=_WINDOW, value=value)
