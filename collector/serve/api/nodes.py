"""Nodes, and the error for an unknown one."""

import asyncio
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct, structs

from collector.analysis.usage import to_quantities
from collector.common.arrays import known
from collector.common.errors import ApiError
from collector.common.liveness import LIVENESS_LABELS, LivenessLabel
from collector.common.ratios import Ratios
from collector.decide.policies.scoring import availability as free_score
from collector.history.interface import Mean, SubjectKind
from collector.observe.entries import NodeEntry
from collector.observe.limits.node_account import Limit
from collector.observe.node_columns import ListedNodes
from collector.observe.registry import Registry
from collector.observe.updates import GenerationLabel, NodePlacement, RegionLabel
from collector.runtime.parts import Core
from collector.serve.api.queries import Pager, SortValue, TableQuery, has_label, sort_page
from collector.serve.web.routes import NO_HISTORY, NO_NODE, Route, get
from collector.snapshot.tables import share
from wire.messages import NodeState
from wire.resources import RESOURCES, Quantities, Resource, ratio

Window = Annotated[
    float,
    Meta(gt=0, le=3600, description="Length of the window for `mean`, which ends at the node's last report."),
]
WINDOW_SECONDS = 300.0
"""The default heartbeat interval of agents, so that a mean rarely covers a single sample."""
_NODES_AT_ONCE = 25


class NodeAvailability(Struct, frozen=True, kw_only=True):
    """Free capacity of a node: GenPack's map."""

    envelope: Quantities
    """Sum of the envelopes of its containers."""
    free: Quantities
    """Capacity minus `envelope`, at least 0."""
    score: float
    """Free capacity over all resources: 0 is full, 2 is empty."""


class Node(NodeState, frozen=True, kw_only=True, omit_defaults=False, gc=True):
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
    last_seen_seconds_ago: float
    """Time since its last report, by the collector's clock."""
    agent_version: str | None
    sample_seconds: float | None
    beacon_seconds: float | None
    """Maximum time between two reports of the node."""
    used_ratio: Ratios
    top: dict[Resource, tuple[str, ...]]
    """Ids of the containers that used most of each resource before the last heartbeat, highest first."""
    containers: int
    """Number of running containers."""
    refused: dict[Limit, int]
    """Refused requests and values since the collector started, by the limit that the node exceeded."""
    placement: NodePlacement
    """Facts that policies use, in addition to usage."""
    availability: NodeAvailability | None
    """Its free capacity by envelopes; null if it joined after the newest snapshot, or while a start
    restores usage."""
    mean: Mean | None
    """Mean over the requested window; null while the node is down."""


class NodePage(Struct, frozen=True):
    """A page of nodes, by name or in the requested order."""

    nodes: list[Node]
    """The nodes of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""
    matching: int
    """Number of nodes on all pages."""


class NodesQuery(TableQuery, frozen=True, kw_only=True):
    """Filters and order of nodes."""

    name: str | None = None
    """Only the node with this name; 404 if there is none."""
    state: Annotated[LivenessLabel | None, Meta(description="Only nodes in this state.")] = None
    region: RegionLabel | None = None
    """Only nodes in this region of energy efficiency."""
    task_class: Annotated[int, Meta(ge=1, le=4)] | None = None
    """Only nodes whose strictest container has this SLA class."""
    generation: Annotated[GenerationLabel | None, Meta(description="Only nodes of this generation.")] = None
    label: Annotated[str | None, Meta(description="Only nodes with this label: `KEY` or `KEY=VALUE`.")] = None
    order: Literal["name", "registry", "state", "cpu", "memory", "disk", "network", "watts", "containers"] = (
        "name"
    )
    """By name, state, used share of a resource, power, number of containers; or `registry` as in
    Energy4Cloud: by region, then SLA class, then the fullest first (in the region EED the emptiest first).
    All orders except by name can change between two pages."""
    means: Annotated[bool, Meta(description="Whether to read `mean` from the history.")] = True
    window_seconds: Window = WINDOW_SECONDS

    @property
    def needs_record(self) -> bool:
        """Whether a filter needs the record of a node."""
        return (self.region, self.task_class, self.generation) != (None, None, None)

    def matches(self, record: NodePlacement) -> bool:
        """Check the filters that need the record of a node."""
        return (
            self.region in (None, record.region)
            and self.task_class in (None, record.task_class)
            and self.generation in (None, record.generation)
        )


_NOT_REPORTED = NodeState(used=Quantities(), capacity=Quantities())


def describe_node(
    registry: Registry,
    entry: NodeEntry,
    now: float,
    *,
    availability: NodeAvailability | None = None,
) -> Node:
    """Convert a node for the API."""
    run = entry.run
    state = _NOT_REPORTED if run.state is None else run.state.value
    heartbeat = None if run.heartbeat is None else run.heartbeat.value
    return Node(
        **structs.asdict(state),
        name=entry.name,
        state=entry.liveness.label,
        boot=run.boot,
        complete=run.is_complete,
        sampled_at=None if run.state is None else run.state.at,
        last_seen_seconds_ago=max(0.0, now - entry.last_report_at),
        agent_version=None if heartbeat is None else heartbeat.agent_version,
        sample_seconds=None if heartbeat is None else heartbeat.sample_seconds,
        beacon_seconds=None if heartbeat is None else heartbeat.beacon_seconds,
        used_ratio=Ratios(*(ratio(state.used, state.capacity, resource) for resource in RESOURCES)),
        top={} if heartbeat is None else heartbeat.top,
        containers=len(run.containers),
        refused=dict(registry.limits.refused_of(entry.name)),
        placement=registry.tables.record(entry.name, now),
        availability=availability,
        mean=None,
    )


_by_name: Pager[str, tuple[str]] = Pager(lambda name: (name,), tuple[str])


def _values(nodes: ListedNodes, order: str) -> Sequence[SortValue | None] | None:
    """What nodes are sorted by; None if they keep their order."""
    match order:
        case "registry":
            return None
        case "name":
            return [name.casefold() for name in nodes.names]
        case "state":
            return list(nodes.liveness.tolist())
        case "containers":
            return list(nodes.columns.containers.tolist())
        case "watts":
            return known(nodes.columns.reported_watts)
    column = RESOURCES.index(Resource(order))
    return known(share(nodes.columns.used[:, column], nodes.columns.capacity[:, column]))


async def nodes(core: Core, query: NodesQuery) -> NodePage:
    """List nodes with their resource usage and power. `search` looks at their names and labels."""
    listed = core.registry.tables.list_nodes(core.clock())
    matching = _find_nodes(core, query, listed)
    if query.name is not None and not matching:
        raise no_such_node(query.name)
    if query.order == "name" and not query.reverse:
        page, after = _by_name.page((listed.names[place] for place in matching[query.offset :]), query)
    else:
        values = _values(listed, query.order)
        places, after = sort_page(matching, None if values is None else values.__getitem__, query)
        page = [listed.names[place] for place in places]
    free, now = await _availability(core, page), core.clock()
    found = []
    for place, name in enumerate(page, 1):
        # While others are answered, and while the history is read, nodes may be removed.
        found += [
            describe_node(core.registry, each, now, availability=free.get(name))
            for each in core.registry.nodes(now, node=name)
        ]
        if place % _NODES_AT_ONCE == 0:
            await asyncio.sleep(0)
    if query.means:
        window_ends = [each for name in page for each in core.registry.window_ends(now, node=name)]
        means = await core.history.means(SubjectKind.NODE, query.window_seconds, window_ends)
        found = [structs.replace(each, mean=means.get((each.name, None))) for each in found]
    return NodePage(found, after, len(matching))


async def _availability(core: Core, names: list[str]) -> dict[str, NodeAvailability]:
    if core.restoring:
        return {}
    nodes = (await core.snapshot()).nodes
    known = [name for name in names if name in nodes.index]
    rows = [nodes.index[name] for name in known]
    capacity, envelope = nodes.capacity[rows], nodes.envelope_sum[rows]
    free = np.clip(capacity - envelope, 0.0, None)
    score = free_score(share(free, capacity))
    return {
        name: NodeAvailability(
            envelope=to_quantities(envelope[place]),
            free=to_quantities(free[place]),
            score=float(score[place]),
        )
        for place, name in enumerate(known)
    }


def _find_nodes(core: Core, query: NodesQuery, nodes: ListedNodes) -> list[int]:
    """The places of the nodes that match all filters, by name or in the order of Energy4Cloud's registry."""
    now, tables, names = core.clock(), core.registry.tables, nodes.names
    found: Iterable[int] = range(len(names))
    if query.order == "registry":
        places = {name: place for place, name in enumerate(names)}
        found = [places[name] for name in tables.nodes_by_region() if name in places]
    if query.name is not None:
        found = [place for place in found if names[place] == query.name]
    if query.state is not None:
        code = LIVENESS_LABELS.index(query.state)
        found = [place for place in found if nodes.liveness[place] == code]
    if query.search:
        part = query.search.casefold()
        found = [place for place in found if part in nodes.search_texts[place]]
    if query.label is not None:
        is_labelled = has_label(query.label)
        found = [place for place in found if is_labelled(tables.labels(names[place]))]
    if query.needs_record:
        found = [place for place in found if query.matches(tables.record(names[place], now))]
    return list(found)


def no_such_node(name: str, field: str = "name") -> ApiError:
    """The error for an unknown node."""
    detail = f"no node is named {name!r}: 'wattpack nodes' (GET /v1/nodes) lists all nodes"
    return ApiError(HTTPStatus.NOT_FOUND, detail, field)


ROUTES: tuple[Route, ...] = (get("/v1/nodes", nodes, problems={**NO_NODE, **NO_HISTORY}),)
