"""Reports made of what a store answers: the way back, by the same table as the way in.

Pure. What stands in a store may come from a scrape of an agent, or from a collector that the agent reports
to; both look alike, but for one thing. A scrape gives one sample at a time, each in its place. A collector
learns of all samples with the heartbeat, so it writes them late, under names of their own, and says up to
when they are there. That is why `usage_query` asks for either.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from collector.history.prometheus.client import Instant, Range, regex_of
from collector.history.prometheus.schema import (
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
    metric_names,
)
from wire.messages import ContainerState, ContainerUsage, Gap, NodeState, Report
from wire.resources import RESOURCES, Quantities, Resource
from wire.sketch import FLOORS, Sketch

PULLED: Final = "pulled"
"""The boot of reports that were made here: a store does not tell one run of an agent from the next."""
STORE_GAP: Final = Gap(
    "events, labels, start times, power curve",
    "this node is read from a store of time series, which does not hold them",
)

_STATE_METRICS: Final = (
    *(BUILD_INFO, GAP, ALERT, INFO),
    *metric_names(NODE_FIELDS),
    *metric_names(CONTAINER_FIELDS),
)
_NOTHING_TOLD: Final = NodeState(used=Quantities(), capacity=Quantities())
_RESOURCE_OF: Final = {
    name: resource for names in (USAGE_METRICS, SAMPLED_METRICS) for resource, name in names.items()
}

Message = TypeVar("Message", NodeState, ContainerState)
_Readings = dict[str, list[tuple[Labels, float]]]
"""The series of one subject, by metric."""


def is_pulled(report: Report) -> bool:
    """Whether a report was made from what a store holds."""
    return report.boot == PULLED


def nodes_query() -> str:
    """The question for who is there, and when each was last heard of."""
    return f"{{__name__=~{regex_of((SAMPLED_AT, COUNTED_UNTIL))}}}"


def state_query(nodes: Sequence[str], node_label: str) -> str:
    """The question for all that there is to know of some nodes."""
    return f"{{__name__=~{regex_of(_STATE_METRICS)},{node_label}=~{regex_of(nodes)}}}"


def usage_query(nodes: Sequence[str], node_label: str, *, sampled: bool) -> str:
    """The series whose samples tell what the containers of some nodes used."""
    names = (SAMPLED_METRICS if sampled else USAGE_METRICS).values()
    return f"{{__name__=~{regex_of(tuple(names))},{node_label}=~{regex_of(nodes)}}}"


@dataclass(frozen=True, slots=True)
class NodeTimestamps:
    """A node in the store."""

    sampled_at: float
    """When it was last heard of, by its own clock."""
    counted_until: float | None
    """Up to when its samples are there, where it reports to a collector; None where it is scraped."""


@dataclass(frozen=True, slots=True)
class StoredNodeState:
    """What the store tells of a node now."""

    state: NodeState
    containers: tuple[ContainerState, ...]
    agent_version: str
    short_of: dict[Resource, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """What the containers of a node used in a span of time."""

    usage: tuple[ContainerUsage, ...]
    samples: int
    """How many there are of the container that has most."""
    newest_at: float
    """The time of the last of them."""


def parse_nodes(found: Iterable[Instant], node_label: str) -> dict[str, NodeTimestamps]:
    """Who is there, from the answer to `nodes_query`."""
    times: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for each in found:
        node, metric, value = (
            each.metric.get(node_label),
            each.metric.get("__name__", ""),
            float(each.value[1]),
        )
        if node and math.isfinite(value):
            # Scraped by two, it is as fresh as the fresher one says.
            times[node][metric] = max(value, times[node].get(metric, value))
    return {
        node: NodeTimestamps(known[SAMPLED_AT], known.get(COUNTED_UNTIL))
        for node, known in times.items()
        if SAMPLED_AT in known
    }


def parse_states(found: Iterable[Instant], node_label: str) -> dict[str, StoredNodeState]:
    """What is told of each node, from the answer to `state_query`."""
    about_node: defaultdict[str, _Readings] = defaultdict(lambda: defaultdict(list))
    about_container: defaultdict[str, dict[str, _Readings]] = defaultdict(dict)
    for each in found:
        labels, value = each.metric, float(each.value[1])
        node, container = labels.get(node_label), labels.get("id")
        if node is None or not math.isfinite(value):
            continue
        if container is None:
            readings = about_node[node]
        else:
            readings = about_container[node].setdefault(container, defaultdict(list))
        readings[labels.get("__name__", "")].append((labels, value))
    return {node: _told(readings, about_container[node]) for node, readings in about_node.items()}


def _told(readings: _Readings, containers: Mapping[str, _Readings]) -> StoredNodeState:
    gaps = [Gap(labels.get("what", ""), labels.get("why", "")) for labels, _ in readings.get(GAP, ())]
    state = _made(NodeState, {"used": {}, "capacity": {}, **_fields(NODE_FIELDS, readings)})
    if state is None:
        state = _NOTHING_TOLD
        gaps.append(Gap("the node", "what the store says of it makes no sense"))
    listed = {container: _container(container, known) for container, known in sorted(containers.items())}
    gaps += (
        Gap(f"container {container}", "what the store says of it makes no sense")
        for container, made in listed.items()
        if made is None and INFO in containers[container]
    )
    learned = tuple(
        resource
        for resource in (Resource.DISK, Resource.NETWORK)
        for labels, _ in readings.get(f"wattpack_node_{resource}_capacity_bytes_per_second", ())
        if labels.get("source") == "learned"
    )
    return StoredNodeState(
        msgspec.structs.replace(state, learned_capacities=learned, gaps=(*gaps, STORE_GAP)),
        tuple(made for made in listed.values() if made is not None),
        next(
            (labels["version"] for labels, _ in readings.get(BUILD_INFO, ()) if "version" in labels),
            "unknown",
        ),
        {
            resource: value > 0
            for labels, value in readings.get(ALERT, ())
            for resource in RESOURCES
            if labels.get("resource") == resource
        },
    )


def _container(container: str, readings: _Readings) -> ContainerState | None:
    """A container; None where the store does not say that it runs, or says what cannot be."""
    known = [labels for labels, _ in readings.get(INFO, ())]
    if not known:
        return None
    labels = known[-1]
    fields = {
        "id": container,
        "name": labels.get("name") or container[:12],
        "runtime": labels.get("runtime") or "unknown",
        "used": {},
        **_fields(CONTAINER_FIELDS, readings),
    }
    fields |= {key: labels[key] for key in ("image", "service") if labels.get(key)}
    return _made(ContainerState, fields)


def _fields(levels: Iterable[MetricField], readings: _Readings) -> dict[str, Any]:
    """The fields of a message, nested as it is."""
    fields: dict[str, Any] = {}
    for level in levels:
        for labels, value in readings.get(level.metric, ()):
            if any(labels.get(key) != wanted for key, wanted in level.labels.items()):
                continue
            *path, name = level.place
            within = fields
            for step in path:
                within = within.setdefault(step, {})
            within[name] = round(value) if level.is_count else value
            if level.place == ("power", "watts"):
                within["source"] = labels.get("source")
    return fields


def _made(kind: type[Message], fields: dict[str, Any]) -> Message | None:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError:
        if "power" not in fields:
            return None
    # Power is all or nothing; a scrape may have caught an agent between the two.
    return _made(kind, {name: value for name, value in fields.items() if name != "power"})


def parse_usage(
    found: Iterable[Range], node_label: str, spans: Mapping[str, tuple[float, float]]
) -> dict[str, NodeUsage]:
    """What the containers of each node used, of the samples after its span's start and up to its end."""
    newest: defaultdict[str, float] = defaultdict(float)
    most: defaultdict[str, int] = defaultdict(int)
    sketches: defaultdict[tuple[str, str], dict[Resource, Sketch]] = defaultdict(dict)
    for each in found:
        node, container = each.metric.get(node_label, ""), each.metric.get("id")
        if container is None or node not in spans:
            continue
        resource = _RESOURCE_OF[each.metric["__name__"]]
        floor = FLOORS[RESOURCES.index(resource)]
        after, until = spans[node]
        counted = [(at, float(value)) for at, value in each.values if after < at <= until]
        counted = [(at, value) for at, value in counted if math.isfinite(value)]
        if counted:
            sketch = sketches[node, container].setdefault(resource, Sketch())
            for _, value in counted:
                sketch.add(value, floor)
            newest[node] = max(newest[node], counted[-1][0])
            most[node] = max(most[node], len(counted))
    usage: defaultdict[str, list[ContainerUsage]] = defaultdict(list)
    for (node, container), known in sketches.items():
        usage[node].append(ContainerUsage(container, *(known.get(resource) for resource in RESOURCES)))
    return {node: NodeUsage(tuple(each), most[node], newest[node]) for node, each in usage.items()}
