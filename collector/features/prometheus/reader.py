"""Turn the answers of a store back into parts of reports, by the table in `schema`. Pure.

The series in a store come from scrapes of an agent, or from a collector that the agent reports to. They
differ in one respect. A scrape adds one sample at a time. A collector gets all samples with the heartbeat, so
it writes them later, as separate series (`SAMPLED_METRICS`), and `COUNTED_UNTIL` says how far they go.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from collector.features.prometheus.schema import (
    ALERT,
    BUILD_INFO,
    CONTAINER_FIELDS,
    COUNTED_UNTIL,
    GAP,
    INFO,
    NODE_FIELDS,
    SAMPLED_AT,
    SAMPLED_METRICS,
    USAGE_METRICS,
    Labels,
    MetricField,
)
from collector.history.interface import PULLED
from collector.history.promql import Instant, Range
from wire.messages import Alert, ContainerState, ContainerUsage, Gap, Heartbeat, NodeState, Report
from wire.resources import RESOURCES, Quantities, Resource, ratio
from wire.sketch import FLOORS, Sketch

STORE_GAP: Final = Gap(
    "events, labels, start times, power curve",
    "this node is read from a time-series store, which does not have them",
)

NODE_METRICS: Final = (SAMPLED_AT, COUNTED_UNTIL)
STATE_METRICS: Final = (
    *(BUILD_INFO, GAP, ALERT, INFO),
    *dict.fromkeys(each.metric for each in NODE_FIELDS + CONTAINER_FIELDS),
)
_EVIDENCE: Final = "the agent's metrics report a bottleneck"
_EMPTY_STATE: Final = NodeState(used=Quantities(), capacity=Quantities())
_RESOURCE_OF: Final = {
    name: resource for names in (USAGE_METRICS, SAMPLED_METRICS) for resource, name in names.items()
}

Message = TypeVar("Message", NodeState, ContainerState)
_SeriesByMetric = dict[str, list[tuple[Labels, float]]]
"""The series of one node or container, by metric."""


class NodeTimestamps(NamedTuple):
    """The times of a node in the store."""

    sampled_at: float
    """Time of its last sample, by its own clock."""
    counted_until: float | None
    """Time up to which all its samples are there, if it reports to a collector; None if it is scraped."""


class NodeUsage(NamedTuple):
    """The usage of a node's containers in a period."""

    usage: tuple[ContainerUsage, ...]
    samples: int
    """Number of samples of the container that has most."""
    newest_at: float
    """Time of the last sample."""


def parse_nodes(found: Iterable[Instant], node_label: str) -> dict[str, NodeTimestamps]:
    """All nodes, by their `NODE_METRICS`."""
    times: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for each in found:
        node, value = each.metric.get(node_label), float(each.value[1])
        metric = each.metric.get("__name__", "")
        if node and math.isfinite(value):
            # If two collectors scrape it, the later time counts.
            times[node][metric] = max(value, times[node].get(metric, value))
    return {
        node: NodeTimestamps(values[SAMPLED_AT], values.get(COUNTED_UNTIL))
        for node, values in times.items()
        if SAMPLED_AT in values
    }


def parse_states(found: Iterable[Instant], node_label: str) -> dict[str, Report]:
    """The state of each node, by its `STATE_METRICS`, as a report without times."""
    node_series: defaultdict[str, _SeriesByMetric] = defaultdict(lambda: defaultdict(list))
    container_series: defaultdict[str, dict[str, _SeriesByMetric]] = defaultdict(dict)
    for each in found:
        labels, value = each.metric, float(each.value[1])
        node, container = labels.get(node_label), labels.get("id")
        if node is None or not math.isfinite(value):
            continue
        if container is None:
            series = node_series[node]
        else:
            series = container_series[node].setdefault(container, defaultdict(list))
        series[labels.get("__name__", "")].append((labels, value))
    return {node: _parse_state(node, series, container_series[node]) for node, series in node_series.items()}


def _parse_state(node: str, series: _SeriesByMetric, containers: Mapping[str, _SeriesByMetric]) -> Report:
    gaps = [Gap(labels.get("what", ""), labels.get("why", "")) for labels, _ in series.get(GAP, ())]
    state = _convert(NodeState, {"used": {}, "capacity": {}, **_values(NODE_FIELDS, series)})
    if state is None:
        state = _EMPTY_STATE
        gaps.append(Gap("node", "its series in the store are invalid"))
    parsed = {container: _parse_container(container, own) for container, own in sorted(containers.items())}
    gaps += (
        Gap(f"container {container}", "its series in the store are invalid")
        for container, state_of in parsed.items()
        if state_of is None and INFO in containers[container]
    )
    learned = tuple(
        resource
        for resource in (Resource.DISK, Resource.NETWORK)
        for labels, _ in series.get(f"wattpack_node_{resource}_capacity_bytes_per_second", ())
        if labels.get("source") == "learned"
    )
    versions = [labels["version"] for labels, _ in series.get(BUILD_INFO, ()) if "version" in labels]
    short_of = {labels.get("resource") for labels, value in series.get(ALERT, ()) if value > 0}
    return Report(
        node=node,
        boot=PULLED,
        sequence=0,
        at=0.0,
        state=msgspec.structs.replace(state, learned_capacities=learned, gaps=(*gaps, STORE_GAP)),
        containers=tuple(each for each in parsed.values() if each is not None),
        alerts=tuple(
            Alert(resource, 0.0, _EVIDENCE, ratio=ratio(state.used, state.capacity, resource))
            for resource in RESOURCES
            if resource in short_of
        ),
        heartbeat=Heartbeat(versions[0] if versions else "unknown", 0.0, 0.0),
    )


def _parse_container(container: str, series: _SeriesByMetric) -> ContainerState | None:
    """A container; None if it does not run, or its series are invalid."""
    infos = [labels for labels, _ in series.get(INFO, ())]
    if not infos:
        return None
    labels = infos[-1]
    fields = {
        "id": container,
        "name": labels.get("name") or container[:12],
        "runtime": labels.get("runtime") or "unknown",
        "used": {},
        **_values(CONTAINER_FIELDS, series),
    }
    fields |= {key: labels[key] for key in ("image", "service") if labels.get(key)}
    return _convert(ContainerState, fields)


def _values(fields: Iterable[MetricField], series: _SeriesByMetric) -> dict[str, Any]:
    """The values of a message, nested as it is."""
    values: dict[str, Any] = {}
    for each in fields:
        for labels, value in series.get(each.metric, ()):
            if any(labels.get(key) != wanted for key, wanted in each.labels.items()):
                continue
            *path, name = each.path
            within = values
            for step in path:
                within = within.setdefault(step, {})
            within[name] = round(value) if each.is_count else value
            if each.path == ("power", "watts"):
                within |= {key: labels[key] for key in ("source", "source_scope") if labels.get(key)}
    return values


def _convert(kind: type[Message], fields: dict[str, Any]) -> Message | None:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError:
        if "power" not in fields:
            return None
    # A scrape can miss a part of the power fields; then leave out power.
    return _convert(kind, {name: value for name, value in fields.items() if name != "power"})


def parse_usage(
    found: Iterable[Range], node_label: str, spans: Mapping[str, tuple[float, float]]
) -> dict[str, NodeUsage]:
    """The usage of the containers of each node, from the samples after the start of its span."""
    newest: defaultdict[str, float] = defaultdict(float)
    count_of: defaultdict[str, int] = defaultdict(int)
    sketches: defaultdict[tuple[str, str], dict[Resource, Sketch]] = defaultdict(dict)
    for each in found:
        node, container = each.metric.get(node_label, ""), each.metric.get("id")
        if container is None or node not in spans:
            continue
        resource = _RESOURCE_OF[each.metric["__name__"]]
        floor = FLOORS[RESOURCES.index(resource)]
        after, until = spans[node]
        samples = [(at, float(value)) for at, value in each.values if after < at <= until]
        samples = [(at, value) for at, value in samples if math.isfinite(value)]
        if samples:
            sketch = sketches[node, container].setdefault(resource, Sketch())
            for _, value in samples:
                sketch.add(value, floor)
            newest[node] = max(newest[node], samples[-1][0])
            count_of[node] = max(count_of[node], len(samples))
    usage: defaultdict[str, list[ContainerUsage]] = defaultdict(list)
    for (node, container), by_resource in sketches.items():
        usage[node].append(ContainerUsage(container, *(by_resource.get(resource) for resource in RESOURCES)))
    return {node: NodeUsage(tuple(each), count_of[node], newest[node]) for node, each in usage.items()}
