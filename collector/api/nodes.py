"""Nodes: the list, one node, and its history."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collector.api.queries import (
    HistoryQuery,
    Pager,
    SortValue,
    TableQuery,
    has_label,
    read_series,
    sort_page,
)
from collector.common.errors import ApiError
from collector.common.liveness import LivenessLabel
from collector.common.ratios import Ratios
from collector.core.parts import Core
from collector.history.interface import Mean, Series, SubjectKind
from collector.live.entries import NodeEntry
from collector.live.limits.node_account import Limit
from collector.live.registry import Registry
from collector.live.updates import NodeRecord
from collector.snapshot.tables import Generation, Region
from collector.web.routes import NO_HISTORY, NO_NODE, Route, get
from wire.messages import Gap, NodePower, NodeState, Pressure
from wire.resources import RESOURCES, Quantities, Resource, ratio

Window = Annotated[
    float,
    Meta(gt=0, le=3600, description="Length of the window for `mean`, which ends at the node's last report."),
]
WINDOW_SECONDS = 300.0
"""The default heartbeat interval of agents, so that a mean rarely covers a single sample."""


class NodePlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a node that policies use, in addition to its usage."""

    region: Literal["LEE", "DEE", "EED"]
    """Energy efficiency by the higher of CPU and memory usage: `LEE` (low) below 50%, `DEE` (desired), `EED`
    (degraded) above 85%."""
    task_class: int | None
    """Strictest SLA class of its containers, 1-4; null without containers."""
    allocated: Quantities
    """Sum of the reservations of its containers."""
    overbooking_ratio: float
    """Reserved CPU or memory divided by capacity, whichever is higher."""
    generation: Literal["any", "nursery", "young", "old"]
    """Generation of the node in GenPack; `any` without generations."""
    accepts: bool
    """Whether it accepts containers: not drained, not paused, not excluded by a label."""
    on: bool
    """False if it is switched off to save energy."""
    failures: int
    """Containers that recently failed on the node; older failures count less."""
    labels: dict[str, str]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node, as last reported. A node reports only changes, so older values are still valid."""

    name: str
    """Name of the node, as its agent reports it."""
    state: LivenessLabel
    """Whether its reports arrive on time: `up`, `suspect` or `down`."""
    boot: str
    """Id of this run of its agent."""
    complete: bool
    """False if a report since the last heartbeat is missing; the next heartbeat completes the node."""
    sampled_at: float | None
    """Unix time of the end of the sampling window, by the node's clock."""
    window_seconds: float | None
    """Length of the window over which `used`, `pressure` and `power.watts` are averaged."""
    last_seen_seconds_ago: float
    """Time since its last report, by the collector's clock."""
    agent_version: str | None
    sample_seconds: float | None
    beacon_seconds: float | None
    """Maximum time between two reports of the node."""
    used: Quantities
    capacity: Quantities
    learned_capacities: tuple[Resource, ...]
    """Resources of unknown capacity: `capacity` has their highest observed usage instead."""
    used_ratio: Ratios
    pressure: Pressure
    power: NodePower | None
    load_1m: float | None
    frequency_hertz: float | None
    iowait_ratio: float | None
    steal_ratio: float | None
    swap_used_bytes: int | None
    disk_busy_ratio: float | None
    oom_kills_total: int | None
    gaps: tuple[Gap, ...]
    top: dict[Resource, tuple[str, ...]]
    """Ids of the containers that used most of each resource before the last heartbeat, highest first."""
    containers: int
    """Number of running containers."""
    refused: dict[Limit, int]
    """Refused requests and values since the collector started, by the limit that the node exceeded."""
    placement: NodePlacement
    """Facts that policies use, in addition to usage."""
    mean: Mean | None
    """Mean over the requested window; null while the node is down."""


class NodePage(msgspec.Struct, frozen=True):
    """A page of nodes, by name or in the requested order."""

    nodes: list[Node]
    """The nodes of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""
    matching: int
    """Number of nodes on all pages."""


class NodesQuery(TableQuery, frozen=True, kw_only=True):
    """Filters and order of nodes."""

    state: Annotated[LivenessLabel | None, Meta(description="Only nodes in this state.")] = None
    region: Annotated[
        Literal["LEE", "DEE", "EED"] | None,
        Meta(description="Only nodes in this region of energy efficiency."),
    ] = None
    task_class: Annotated[
        Annotated[int, Meta(ge=1, le=4)] | None,
        Meta(description="Only nodes whose strictest container has this SLA class."),
    ] = None
    generation: Annotated[
        Literal["any", "nursery", "young", "old"] | None, Meta(description="Only nodes of this generation.")
    ] = None
    label: Annotated[str | None, Meta(description="Only nodes with this label: `KEY` or `KEY=VALUE`.")] = None
    order: Annotated[
        Literal["name", "registry", "state", "cpu", "memory", "disk", "network", "watts", "containers"],
        Meta(
            description="By name, state, used share of a resource, power, number of containers; or `registry`"
            " as in Energy4Cloud: by region, then SLA class, then the fullest first (in the region EED the"
            " emptiest first). All orders except by name can change between two pages."
        ),
    ] = "name"
    means: Annotated[bool, Meta(description="Whether to read `mean` from the history.")] = True
    window_seconds: Window = WINDOW_SECONDS

    @property
    def needs_record(self) -> bool:
        """Whether a filter needs the record of a node."""
        return (self.region, self.task_class, self.generation) != (None, None, None)

    def matches(self, record: NodeRecord) -> bool:
        """Check the filters that need the record of a node."""
        return (
            self.region in (None, _REGIONS[record.region])
            and self.task_class in (None, record.task_class)
            and self.generation in (None, _GENERATIONS[record.generation])
        )


class NodeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters for one node."""

    name: Annotated[str, Meta(description="Name of the node.")]
    window_seconds: Window = WINDOW_SECONDS


class NodeHistoryQuery(HistoryQuery, frozen=True, kw_only=True):
    """Parameters for the history of one node."""

    name: Annotated[str, Meta(description="Name of the node.")]


_NOT_REPORTED = NodeState(used=Quantities(), capacity=Quantities())
_REGIONS: Mapping[Region, Literal["LEE", "DEE", "EED"]] = {
    Region.LEE: "LEE",
    Region.DEE: "DEE",
    Region.EED: "EED",
}
_GENERATIONS: Mapping[Generation, Literal["any", "nursery", "young", "old"]] = {
    Generation.ANY: "any",
    Generation.NURSERY: "nursery",
    Generation.YOUNG: "young",
    Generation.OLD: "old",
}


def list_nodes(registry: Registry, now: float, *, node: str | None = None) -> list[Node]:
    """All nodes by name, or one; without `mean`."""
    refused = registry.admission.refused_of
    return [
        _describe_node(entry, registry.tables.record(entry.name, now), refused(entry.name), now)
        for entry in registry.nodes(now, node=node)
    ]


def _describe_node(entry: NodeEntry, record: NodeRecord, refused: Mapping[Limit, int], now: float) -> Node:
    run = entry.run
    state = _NOT_REPORTED if run.state is None else run.state.value
    heartbeat = None if run.heartbeat is None else run.heartbeat.value
    return Node(
        name=entry.name,
        state=entry.liveness.label,
        boot=run.boot,
        complete=run.is_complete,
        sampled_at=None if run.state is None else run.state.at,
        window_seconds=None if run.state is None else state.window_seconds,
        last_seen_seconds_ago=max(0.0, now - entry.last_report_at),
        agent_version=None if heartbeat is None else heartbeat.agent_version,
        sample_seconds=None if heartbeat is None else heartbeat.sample_seconds,
        beacon_seconds=None if heartbeat is None else heartbeat.beacon_seconds,
        used=state.used,
        capacity=state.capacity,
        learned_capacities=state.learned_capacities,
        used_ratio=Ratios(*(ratio(state.used, state.capacity, resource) for resource in RESOURCES)),
        pressure=state.pressure,
        power=state.power,
        load_1m=state.load_1m,
        frequency_hertz=state.frequency_hertz,
        iowait_ratio=state.iowait_ratio,
        steal_ratio=state.steal_ratio,
        swap_used_bytes=state.swap_used_bytes,
        disk_busy_ratio=state.disk_busy_ratio,
        oom_kills_total=state.oom_kills_total,
        gaps=state.gaps,
        top={} if heartbeat is None else heartbeat.top,
        containers=len(run.containers),
        refused=dict(refused),
        placement=_describe_placement(record),
        mean=None,
    )


def _describe_placement(record: NodeRecord) -> NodePlacement:
    return NodePlacement(
        region=_REGIONS[record.region],
        task_class=record.task_class,
        allocated=record.allocated,
        overbooking_ratio=record.overbooking,
        generation=_GENERATIONS[record.generation],
        accepts=record.accepts,
        on=record.on,
        failures=record.failures,
        labels=dict(record.labels),
    )


_by_name: Pager[NodeEntry, tuple[str]] = Pager(lambda entry: (entry.name,), tuple[str])


def _reported(value_of: Callable[[NodeState], float | None]) -> Callable[[NodeEntry], SortValue | None]:
    def value(entry: NodeEntry) -> SortValue | None:
        return None if entry.run.state is None else value_of(entry.run.state.value)

    return value


def _share(resource: Resource) -> Callable[[NodeEntry], SortValue | None]:
    return _reported(lambda state: ratio(state.used, state.capacity, resource))


_ORDERS: Mapping[str, Callable[[NodeEntry], SortValue | None]] = {
    "name": lambda entry: entry.name.casefold(),
    "state": lambda entry: entry.liveness,
    **{each.value: _share(each) for each in RESOURCES},
    "watts": _reported(lambda state: None if state.power is None else state.power.watts),
    "containers": lambda entry: len(entry.run.containers),
}


async def nodes(core: Core, query: NodesQuery) -> NodePage:
    """List nodes with their resource usage and power. `search` looks at their names and labels."""
    matching = _find_nodes(core, query)
    if query.order == "name" and not query.reverse:
        page, after = _by_name.page(matching[query.offset :], query)
    else:
        page, after = sort_page(matching, _ORDERS.get(query.order), query)
    now, registry = core.clock(), core.registry
    found = [node for entry in page for node in list_nodes(registry, now, node=entry.name)]
    if query.means:
        found = await _add_means(core, found, query.window_seconds)
    return NodePage(found, after, len(matching))


def _find_nodes(core: Core, query: NodesQuery) -> list[NodeEntry]:
    """The nodes that match all filters, by name or in the order of Energy4Cloud's registry."""
    now, tables = core.clock(), core.registry.tables
    entries = core.registry.nodes(now)
    if query.order == "registry":
        by_name = {each.name: each for each in entries}
        entries = (by_name[name] for name in tables.nodes_by_region() if name in by_name)
    found = [each for each in entries if query.state in (None, each.liveness.label)]
    if query.search:
        part = query.search.casefold()
        found = [each for each in found if part in _search_text(each.name, tables.labels(each.name))]
    if query.label is not None:
        is_labelled = has_label(query.label)
        found = [each for each in found if is_labelled(tables.labels(each.name))]
    if query.needs_record:
        found = [each for each in found if query.matches(tables.record(each.name, now))]
    return found


def _search_text(name: str, labels: Mapping[str, str]) -> str:
    return "\n".join((name, *(f"{key}={value}" for key, value in labels.items()))).casefold()


async def one_node(core: Core, query: NodeQuery) -> Node:
    """Get one node."""
    [node] = await _add_means(core, [get_node(core, query.name)], query.window_seconds)
    return node


def get_node(core: Core, name: str, field: str = "name") -> Node:
    """A node without `mean`; raises `ApiError` about a field of the request if no node has this name."""
    found = list_nodes(core.registry, core.clock(), node=name)
    if not found:
        raise no_such_node(name, field)
    return found[0]


async def _add_means(core: Core, found: list[Node], window_seconds: float) -> list[Node]:
    now = core.clock()
    window_ends = [each for node in found for each in core.registry.window_ends(now, node=node.name)]
    means = await core.history.means(SubjectKind.NODE, window_seconds, window_ends)
    return [msgspec.structs.replace(node, mean=means.get((node.name, None))) for node in found]


async def node_history(core: Core, query: NodeHistoryQuery) -> Series:
    """Get the resource usage and power of one node over time; by default the last hour."""
    found = await read_series(core, SubjectKind.NODE, query.name, query)
    if not found.points and not any(core.registry.nodes(core.clock(), node=query.name)):
        raise no_such_node(query.name)
    return found


def no_such_node(name: str, field: str = "name") -> ApiError:
    """The error for an unknown node."""
    detail = f"no node is named {name!r}: 'wattpack nodes' (GET /v1/nodes) lists all nodes"
    return ApiError(HTTPStatus.NOT_FOUND, detail, field)


ROUTES: tuple[Route, ...] = (
    get("/v1/nodes", nodes, problems=NO_HISTORY),
    get("/v1/nodes/{name}", one_node, problems={**NO_NODE, **NO_HISTORY}),
    get("/v1/nodes/{name}/history", node_history, problems={**NO_NODE, **NO_HISTORY}),
)
