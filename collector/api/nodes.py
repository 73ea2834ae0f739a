"""Nodes: all, one, and what one used."""

from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collector.api.queries import HistoryQuery, Paged, Pager, has_label, series
from collector.common.errors import ApiError
from collector.common.liveness import LivenessLabel
from collector.common.ratios import Ratios
from collector.core.parts import Core
from collector.history.interface import Mean, Series, SubjectKind
from collector.live.live_tables import CLASSES
from collector.live.registry import NodeEntry, Registry
from collector.live.updates import NodeRecord
from collector.snapshot.tables import Generation, Region
from collector.web.routes import NO_HISTORY, NO_NODE, Route, get
from wire.messages import Gap, NodePower, NodeState, Pressure
from wire.resources import RESOURCES, Quantities, Resource, ratio

Window = Annotated[
    float,
    Meta(gt=0, le=3600, description="The time over which `mean` is taken, back from a node's last word."),
]
WINDOW_SECONDS = 300.0
"""What the agents' heartbeats are apart, so that a mean is seldom made of one sample alone."""


class NodePlacement(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions go by about a node, beside what it uses."""

    region: Literal["LEE", "DEE", "EED"]
    """By the busier of CPU and memory: below 50 % (low energy efficiency), desired, above 85 % (degraded)."""
    task_class: int | None
    """The strictest among its containers, 1-4; null without any: it takes all."""
    allocated: Quantities
    """What its containers were promised."""
    overbooking_ratio: float
    """The most promised of CPU and memory, by what there is."""
    generation: Literal["any", "nursery", "young", "old"]
    accepts: bool
    """Whether it may be given containers: neither drained, nor paused, nor opted out."""
    on: bool
    """False once it was switched off to save energy."""
    failures: int
    """Containers that died on it of late; the longer ago, the less they count."""
    labels: dict[str, str]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A host as it last described itself. It says only what moved: what is old here still holds."""

    name: str
    state: LivenessLabel
    boot: str
    """Names one run of its agent."""
    complete: bool
    """Whether all that this run said since its last heartbeat has come; if not, the next one mends it."""
    sampled_at: float | None
    """Unix time of the end of the window that `used` tells of, by the node's clock."""
    window_seconds: float | None
    """The time that `used`, `pressure` and `power.watts` are the mean of."""
    last_seen_seconds_ago: float
    """Time since it was last heard of, by the collector's clock."""
    agent_version: str | None
    sample_seconds: float | None
    beacon_seconds: float | None
    """It is heard of at least this often."""
    used: Quantities
    capacity: Quantities
    learned_capacities: tuple[Resource, ...]
    """Resources whose capacity nobody told: the most that was ever seen stands in for it."""
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
    """Ids of the containers that used most of each resource before the last heartbeat, greediest first."""
    containers: int
    """How many containers run on it."""
    placement: NodePlacement
    mean: Mean | None
    """Over the window asked for; null while the node is down."""


class NodePage(msgspec.Struct, frozen=True):
    """A page of nodes, by name or in the order asked for."""

    nodes: list[Node]
    next: str | None
    """The cursor to the rest; null at the end."""


class NodesQuery(Paged, frozen=True, kw_only=True):
    """Which nodes are asked for, and how."""

    state: Annotated[LivenessLabel | None, Meta(description="Only those in this state.")] = None
    region: Annotated[
        Literal["LEE", "DEE", "EED"] | None,
        Meta(description="Only those in this region of energy efficiency."),
    ] = None
    task_class: Annotated[
        Annotated[int, Meta(ge=1, le=4)] | None,
        Meta(description="Only those whose strictest container is of this class."),
    ] = None
    generation: Annotated[
        Literal["any", "nursery", "young", "old"] | None, Meta(description="Only those of this generation.")
    ] = None
    label: Annotated[str | None, Meta(description="Only those with this label: `KEY`, or `KEY=VALUE`.")] = (
        None
    )
    order: Annotated[
        Literal["name", "registry"],
        Meta(
            description="By name; or as Energy4Cloud's registry has them: by region, then by class, then the"
            " fullest first, but the emptiest first where work suffers. The second moves between two pages."
        ),
    ] = "name"
    window_seconds: Window = WINDOW_SECONDS

    def takes(self, node: Node) -> bool:
        """Whether it is among those asked for, whatever its labels."""
        placement = node.placement
        return (
            self.state in (None, node.state)
            and self.region in (None, placement.region)
            and self.task_class in (None, placement.task_class)
            and self.generation in (None, placement.generation)
        )


class NodeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which node is asked for."""

    name: Annotated[str, Meta(description="The node's name.")]
    window_seconds: Window = WINDOW_SECONDS


class NodeHistoryQuery(HistoryQuery, frozen=True, kw_only=True):
    """Which node's history is asked for."""

    name: Annotated[str, Meta(description="The node's name.")]


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
    """Nodes by name; all, or one. `mean` is not filled in."""
    return [
        _node_answer(entry, registry.tables.record(entry.name, now), now)
        for entry in registry.nodes(now, node=node)
    ]


def _node_answer(entry: NodeEntry, record: NodeRecord, now: float) -> Node:
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
        placement=_placement_answer(record),
        mean=None,
    )


def _placement_answer(record: NodeRecord) -> NodePlacement:
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


_by_name: Pager[Node, tuple[str]] = Pager(lambda node: (node.name,), tuple[str])
_as_registered: Pager[tuple[int, Node], tuple[int]] = Pager(lambda placed: (placed[0],), tuple[int])


async def nodes(core: Core, query: NodesQuery) -> NodePage:
    """What nodes use, now and on average."""
    if query.order == "name":
        begin = _by_name.after(query)
        names = sorted(name for name in _names(core, query) if begin is None or name > begin[0])
        found, after = _by_name.page((node for _, node in _listed(core, names, query)), query)
    else:
        among = set(_names(core, query))
        names = [name for name in core.registry.tables.nodes_by_region() if name in among]
        placed, after = _as_registered.page(_listed(core, names, query), query)
        found = [node for _, node in placed]
    return NodePage(await _with_means(core, found, query.window_seconds), after)


def _names(core: Core, query: NodesQuery) -> Iterable[str]:
    """Those that may be asked for, as far as that is known without making an answer of each."""
    names, labels = _listed_names(core, query), core.registry.tables.labels
    if query.label is None:
        return names
    is_labelled = has_label(query.label)
    return [name for name in names if is_labelled(labels(name))]


def _listed_names(core: Core, query: NodesQuery) -> Iterable[str]:
    registry = core.registry
    if query.state is not None:
        return [each.name for each in registry.nodes(core.clock()) if each.liveness.label == query.state]
    if query.region is not None or query.task_class is not None:
        regions = tuple(Region) if query.region is None else (Region[query.region],)
        return registry.tables.nodes_by_region(
            regions, CLASSES if query.task_class is None else (query.task_class,)
        )
    return registry.names()


def _listed(core: Core, names: list[str], query: NodesQuery) -> Iterator[tuple[int, Node]]:
    """Nodes one by one, since few of them may be told."""
    now = core.clock()
    for place, name in enumerate(names):
        for node in list_nodes(core.registry, now, node=name):
            if query.takes(node):
                yield place, node


async def one_node(core: Core, query: NodeQuery) -> Node:
    """One node."""
    found = list_nodes(core.registry, core.clock(), node=query.name)
    if not found:
        raise no_such_node(query.name)
    [node] = await _with_means(core, found, query.window_seconds)
    return node


async def _with_means(core: Core, found: list[Node], window_seconds: float) -> list[Node]:
    now = core.clock()
    standings = [each for node in found for each in core.registry.window_ends(now, node=node.name)]
    means = await core.history.node_means(window_seconds, standings)
    return [msgspec.structs.replace(node, mean=means.get(node.name)) for node in found]


async def node_history(core: Core, query: NodeHistoryQuery) -> Series:
    """What one node used and drew; one that is long gone still has a history."""
    told = await series(core, SubjectKind.NODE, query.name, query)
    if not told.points and not any(core.registry.nodes(core.clock(), node=query.name)):
        raise no_such_node(query.name)
    return told


def no_such_node(name: str) -> ApiError:
    """Nobody of this name is known."""
    return ApiError(HTTPStatus.NOT_FOUND, f"there is no node {name!r}: /v1/nodes lists them", "name")


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/nodes",
        "Nodes, with what they use and draw.",
        NodePage,
        nodes,
        query=NodesQuery,
        refusals=NO_HISTORY,
    ),
    get(
        "/v1/nodes/{name}",
        "One node.",
        Node,
        one_node,
        query=NodeQuery,
        refusals={**NO_NODE, **NO_HISTORY},
    ),
    get(
        "/v1/nodes/{name}/history",
        "What one node used and drew over time: the last hour, unless told otherwise.",
        Series,
        node_history,
        query=NodeHistoryQuery,
        refusals={**NO_NODE, **NO_HISTORY},
    ),
)
