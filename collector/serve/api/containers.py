"""Containers with their envelopes, and groups of containers with similar needs."""

import asyncio
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct, structs

from collector.analysis.envelopes import Statistic
from collector.analysis.groups import Group
from collector.analysis.usage import to_quantities
from collector.common.arrays import Floats
from collector.common.errors import ApiError
from collector.common.liveness import LivenessLabel
from collector.history.interface import Mean, SubjectKind
from collector.observe.entries import NodeEntry
from collector.observe.live_tables import LiveTables
from collector.observe.task_columns import ReportedTask
from collector.observe.task_lists import TaskOrder
from collector.runtime.parts import Core
from collector.serve.api.nodes import WINDOW_SECONDS, Window
from collector.serve.api.queries import Pager, TableQuery, has_label, page_places
from collector.serve.web.routes import NO_HISTORY, Route, get, problem
from wire.messages import ContainerState
from wire.resources import Quantities

_NO_CONTAINER = problem(HTTPStatus.NOT_FOUND, "No container has this id.")


class Envelope(Struct, frozen=True, kw_only=True):
    """Statistics of resource usage over the configured window; recent usage weighs more."""

    p50: Quantities
    """Median."""
    p90: Quantities
    """90th percentile."""
    p95: Quantities
    """95th percentile."""
    p99: Quantities
    """99th percentile."""
    max: Quantities
    """Highest sample."""
    mean: Quantities
    """Mean of all samples."""
    need: Quantities
    """The usage that a container is expected to need: for each resource, the statistic in `[envelopes]`."""


class Container(ContainerState, frozen=True, kw_only=True, omit_defaults=False, gc=True):
    """A container, as last reported by its node."""

    node: str
    node_state: LivenessLabel
    """Unless it is `up`, the other fields may be out of date."""
    reservation: Quantities
    """Reservation by its orchestrator; without one, its limits below the capacity of its node."""
    sampled_at: float
    """Unix time of the end of the sampling window, by the node's clock."""
    envelope: Envelope
    """Its usage over the last day, and the usage that it is expected to need."""
    samples: int
    """Number of samples behind `envelope`; 0 until the first heartbeat with usage arrives."""
    group: str | None
    """Group of containers with similar needs, see `/v1/groups`; null before the first analysis."""
    mean: Mean | None
    """Mean over the requested window; null while the node is down."""


class ContainerPage(Struct, frozen=True):
    """A page of containers, by node, name and id, or in the requested order."""

    containers: list[Container]
    """The containers of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""
    matching: int | None = None
    """Number of containers on all pages; null without `order` and `search`."""


class ContainersQuery(TableQuery, frozen=True, kw_only=True):
    """Filters for containers."""

    id: str | None = None
    """Only the container with this full id; 404 if there is none."""
    node: Annotated[str | None, Meta(description="Only containers on the node with this name.")] = None
    name: Annotated[str | None, Meta(description="Only containers with this name.")] = None
    service: Annotated[str | None, Meta(description="Only containers of this service.")] = None
    label: str | None = None
    """Only containers with this label: `KEY` or `KEY=VALUE`."""
    group: Annotated[str | None, Meta(description="Only containers of this group, see `/v1/groups`.")] = None
    order: TaskOrder | None = None
    """By name, node, service, used amount of a resource, or power; the order can change between two pages.
    Default: by node, name and id."""
    means: Annotated[bool, Meta(description="Whether to read `mean` from the history.")] = True
    window_seconds: Window = WINDOW_SECONDS


def describe_envelope(statistics: Floats) -> Envelope:
    """Convert statistics, a row per resource and a column per `Statistic`, for the API."""

    def of(statistic: Statistic) -> Quantities:
        return to_quantities(statistics[:, statistic])

    return Envelope(
        p50=of(Statistic.P50),
        p90=of(Statistic.P90),
        p95=of(Statistic.P95),
        p99=of(Statistic.P99),
        max=of(Statistic.MAX),
        mean=of(Statistic.MEAN),
        need=of(Statistic.ENVELOPE),
    )


def describe_container(
    tables: LiveTables,
    entry: NodeEntry,
    container_id: str,
    *,
    group: str | None = None,
) -> Container:
    """Convert a container of a node for the API."""
    reported, ring = entry.run.containers[container_id], entry.usage_of(container_id)
    return Container(
        **structs.asdict(reported.value),
        node=entry.name,
        node_state=entry.liveness.label,
        reservation=tables.reservation(entry.name, container_id),
        sampled_at=reported.at,
        envelope=describe_envelope(ring.statistics),
        samples=ring.samples,
        group=group,
        mean=None,
    )


Match = tuple[NodeEntry, ContainerState]
"""A container and its node. Only those on the requested page are converted to `Container`."""
_BY_NODE: Pager[Match, tuple[str, str, str]] = Pager(
    lambda match: (match[0].name, match[1].name, match[1].id), tuple[str, str, str]
)


def _find(core: Core, query: ContainersQuery, group: int | None) -> Iterator[Match]:
    """Matching containers by node, name and id, starting with the node that the cursor is at."""
    after = _BY_NODE.after(query)
    is_labelled = None if query.label is None else has_label(query.label)
    for node, ids in _find_ids(core, query, group, after[0] if after else ""):
        found = [node.run.containers[each].value for each in ids]
        for each in sorted(found, key=lambda each: (each.name, each.id)):
            if is_labelled is None or is_labelled(each.labels):
                yield node, each


def _find_ids(
    core: Core, query: ContainersQuery, group: int | None, since: str
) -> Iterator[tuple[NodeEntry, Iterable[str]]]:
    """Nodes by name, with the ids of the containers that match by all but labels."""
    now, nodes = core.clock(), core.registry.nodes
    if query.id is not None or (query.name is None and query.service is None and group is None):
        for node in nodes(now, node=query.node, since=since):
            yield node, node.run.containers.keys() & {query.id} if query.id else node.run.containers
        return
    services = None if query.service is None else (query.service,)
    found = core.registry.tables.find(services=services, name=query.name, group=group)
    for name in sorted(found):
        if name >= since and query.node in (None, name):
            for node in nodes(now, node=name):
                yield node, found[name]


async def containers(core: Core, query: ContainersQuery) -> ContainerPage:
    """List running containers with their resource usage and power.

    `search` looks at their name, service, image, node and id.
    """
    numbers = {each.name: each.number for each in core.analysis.latest.groups}
    if query.group is not None and query.group not in numbers:
        return ContainerPage([], None, 0)
    group, matching = None if query.group is None else numbers[query.group], None
    if query.order is None and query.search is None:
        found, after = _BY_NODE.page(islice(_find(core, query, group), query.offset, None), query)
        if query.id is not None and not found:
            raise no_such_container(query.id)
    else:
        page, after, matching = await _search(core, query, group)
        # Since the search, containers may have ended.
        found = [
            (node, each.state)
            for each in page
            for node in core.registry.nodes(core.clock(), node=each.node)
            if each.state.id in node.run.containers
        ]
    tables, groups = core.registry.tables, {each.number: each.name for each in core.analysis.latest.groups}
    # All at once: while the history is read, containers may end.
    described = [
        describe_container(tables, node, each.id, group=groups.get(tables.group_of(node.name, each.id)))
        for node, each in found
    ]
    if query.means:
        nodes = dict.fromkeys(node.name for node, _ in found)
        window_ends = [each for name in nodes for each in core.registry.window_ends(core.clock(), node=name)]
        means = await core.history.means(SubjectKind.CONTAINER, query.window_seconds, window_ends)
        described = [structs.replace(each, mean=means.get((each.node, each.id))) for each in described]
    return ContainerPage(described, after, matching)


async def _search(
    core: Core, query: ContainersQuery, group: int | None
) -> tuple[list[ReportedTask], str | None, int]:
    """The containers of a page, the cursor of the next page, and how many containers match."""
    tables = core.registry.tables
    # One step after the other: between two, reports are applied.
    while query.search and not await asyncio.to_thread(tables.search_tasks, query.search):
        pass
    return await asyncio.to_thread(_page, tables, query, group)


def _page(
    tables: LiveTables, query: ContainersQuery, group: int | None
) -> tuple[list[ReportedTask], str | None, int]:
    tasks = tables.list_tasks(
        node=query.node,
        service=query.service,
        name=query.name,
        group=group,
        search=query.search,
        order=query.order,
    )
    if query.label is not None:
        tasks = tables.labelled(tasks, has_label(query.label))
    places, after = page_places(tasks.rows.size, query)
    return tables.reported(tasks, tasks.page(places, reverse=query.reverse)), after, tasks.rows.size


def no_such_container(name: str) -> ApiError:
    """The error for an unknown container."""
    detail = f"no container has the id {name!r}: GET /v1/containers lists all containers with their full ids"
    return ApiError(HTTPStatus.NOT_FOUND, detail, "id")


class ContainerGroups(Struct, frozen=True, kw_only=True):
    """The groups of containers."""

    analyzed_at: float
    """Unix time of the analysis that these figures come from; 0 before the first one."""
    groups: tuple[Group, ...]
    """All groups."""


async def groups(core: Core) -> ContainerGroups:
    """List groups of containers with similar needs, each named after its dominant resource."""
    latest = core.analysis.latest
    return ContainerGroups(analyzed_at=latest.at, groups=latest.groups)


ROUTES: tuple[Route, ...] = (
    get("/v1/containers", containers, problems={**_NO_CONTAINER, **NO_HISTORY}),
    get("/v1/groups", groups),
)
