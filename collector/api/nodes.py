"""Nodes: all, one, and what one used."""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collector.api.answers import Node, State
from collector.api.paging import Paged, Pager, has_label
from collector.api.periods import HistoryQuery, series
from collector.common.errors import ApiError
from collector.core.parts import Core
from collector.history.interface import Series, SubjectKind
from collector.live.lists import CLASSES
from collector.snapshot.tables import Region
from collector.web.routes import NO_HISTORY, NO_NODE, Route, get

Window = Annotated[
    float,
    Meta(gt=0, le=3600, description="The time over which `mean` is taken, back from a node's last word."),
]
WINDOW_SECONDS = 300.0
"""What the agents' heartbeats are apart, so that a mean is seldom made of one sample alone."""


class NodePage(msgspec.Struct, frozen=True):
    """A page of nodes, by name or in the order asked for."""

    nodes: list[Node]
    next: str | None
    """The cursor to the rest; null at the end."""


class NodesQuery(Paged, frozen=True, kw_only=True):
    """Which nodes are asked for, and how."""

    state: Annotated[State | None, Meta(description="Only those in this state.")] = None
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
        names = [name for name in core.registry.tables.hosts(Region) if name in among]
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
        return [each.name for each in registry.known(core.clock()) if each.state is query.state]
    if query.region is not None or query.task_class is not None:
        regions = Region if query.region is None else (Region[query.region],)
        return registry.tables.hosts(regions, CLASSES if query.task_class is None else (query.task_class,))
    return registry.names()


def _listed(core: Core, names: list[str], query: NodesQuery) -> Iterator[tuple[int, Node]]:
    """Nodes one by one, since few of them may be told."""
    now = core.clock()
    for place, name in enumerate(names):
        for node in core.registry.nodes(now, node=name):
            if query.takes(node):
                yield place, node


async def one_node(core: Core, query: NodeQuery) -> Node:
    """One node."""
    found = core.registry.nodes(core.clock(), node=query.name)
    if not found:
        raise no_such_node(query.name)
    [node] = await _with_means(core, found, query.window_seconds)
    return node


async def _with_means(core: Core, found: list[Node], window_seconds: float) -> list[Node]:
    now = core.clock()
    standings = [each for node in found for each in core.registry.standings(now, node=node.name)]
    means = await core.history.node_means(window_seconds, standings)
    return [msgspec.structs.replace(node, mean=means.get(node.name)) for node in found]


async def node_history(core: Core, query: NodeHistoryQuery) -> Series:
    """What one node used and drew; one that is long gone still has a history."""
    told = await series(core, SubjectKind.NODE, query.name, query)
    if not told.points and not core.registry.nodes(core.clock(), node=query.name):
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
