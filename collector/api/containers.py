"""Containers: the list, one container, and its history."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.analysis.envelopes import Statistic
from collector.analysis.usage import to_quantities
from collector.api.nodes import WINDOW_SECONDS, Window
from collector.api.queries import (
    HistoryQuery,
    PageQuery,
    Pager,
    TableQuery,
    has_label,
    position_page,
    read_series,
)
from collector.common.errors import ApiError
from collector.common.liveness import LivenessLabel
from collector.core.parts import Core
from collector.history.interface import Mean, Series, Subject, SubjectKind
from collector.live.entries import NodeEntry
from collector.live.live_tables import LiveTables
from collector.live.task_columns import ReportedTask
from collector.live.task_lists import TaskOrder
from collector.web.routes import NO_HISTORY, Route, get, problem
from wire.messages import ContainerPower, ContainerState, Pressure
from wire.resources import Quantities

NO_CONTAINER = problem(HTTPStatus.NOT_FOUND, "No container has this id.")


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container, as last reported by its node."""

    node: str
    node_state: LivenessLabel
    """Unless it is `up`, the other fields may be out of date."""
    id: str
    """Id of the container in its runtime."""
    name: str
    """Name of the container in its runtime."""
    runtime: str
    image: str | None
    service: str | None
    labels: dict[str, str]
    cpu_seconds_total: float
    cpu_throttled_seconds_total: float | None
    oom_kills_total: int | None
    restarts: int | None
    used: Quantities
    limit: Quantities
    reservation: Quantities
    """Reservation by its orchestrator; without one, its limits below the capacity of its node."""
    pressure: Pressure
    power: ContainerPower | None
    started_at: float | None
    sampled_at: float
    """Unix time of the end of the sampling window, by the node's clock."""
    window_seconds: float
    """Length of the window over which `used`, `pressure` and `power.watts` are averaged."""
    p90: Quantities
    """90th percentile of usage over the last day, from a histogram of all samples."""
    p90_samples: int
    """Number of samples behind `p90`; 0 until the first heartbeat with usage arrives."""
    envelope: Quantities
    """The usage that the container is expected to need: for each resource, the statistic in `[envelopes]`."""
    group: str | None
    """Group of containers with similar needs, see `/v1/groups`; null before the first analysis."""
    mean: Mean | None
    """Mean over the requested window; null while the node is down."""


class ContainerPage(msgspec.Struct, frozen=True):
    """A page of containers, by node, name and id, or in the requested order."""

    containers: list[Container]
    """The containers of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""
    matching: int | None = None
    """Number of containers on all pages; null without `order` and `search`."""


class ContainersQuery(TableQuery, frozen=True, kw_only=True):
    """Filters for containers."""

    node: Annotated[str | None, Meta(description="Only containers on the node with this name.")] = None
    name: Annotated[str | None, Meta(description="Only containers with this name.")] = None
    service: Annotated[str | None, Meta(description="Only containers of this service.")] = None
    label: Annotated[
        str | None, Meta(description="Only containers with this label: `KEY` or `KEY=VALUE`.")
    ] = None
    group: Annotated[str | None, Meta(description="Only containers of this group, see `/v1/groups`.")] = None
    order: Annotated[
        TaskOrder | None,
        Meta(
            description="By name, node, service, used amount of a resource, or power; the order can change"
            " between two pages. Default: by node, name and id."
        ),
    ] = None
    means: Annotated[bool, Meta(description="Whether to read `mean` from the history.")] = True
    window_seconds: Window = WINDOW_SECONDS


class ContainerQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters for one container."""

    id: Annotated[str, Meta(description="The full container id.")]
    window_seconds: Window = WINDOW_SECONDS


class ContainerHistoryQuery(HistoryQuery, frozen=True, kw_only=True):
    """Parameters for the history of one container."""

    id: Annotated[str, Meta(description="The full container id.")]


def describe_container(tables: LiveTables, entry: NodeEntry, container_id: str) -> Container:
    """Convert a container of a node for the API, without `group` and `mean`."""
    reported, ring = entry.run.containers[container_id], entry.usage_of(container_id)
    container = reported.value
    return Container(
        node=entry.name,
        node_state=entry.liveness.label,
        id=container.id,
        name=container.name,
        runtime=container.runtime,
        image=container.image,
        service=container.service,
        labels=container.labels,
        cpu_seconds_total=container.cpu_seconds_total,
        cpu_throttled_seconds_total=container.cpu_throttled_seconds_total,
        oom_kills_total=container.oom_kills_total,
        restarts=container.restarts,
        used=container.used,
        limit=container.limit,
        reservation=tables.reservation(entry.name, container_id),
        pressure=container.pressure,
        power=container.power,
        started_at=container.started_at,
        sampled_at=reported.at,
        window_seconds=container.window_seconds,
        p90=ring.p90,
        p90_samples=ring.samples,
        envelope=to_quantities(ring.statistics[:, Statistic.ENVELOPE]),
        group=None,
        mean=None,
    )


Match = tuple[NodeEntry, ContainerState]
"""A container and its node. Only those on the requested page are converted to `Container`."""
BY_NODE: Pager[Match, tuple[str, str, str]] = Pager(
    lambda match: (match[0].name, match[1].name, match[1].id), tuple[str, str, str]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFilter:
    """Which containers to find; None matches all."""

    node: str | None = None
    name: str | None = None
    service: str | None = None
    label: str | None = None
    group: int | None = None


def find_containers(core: Core, query: PageQuery, wanted: ContainerFilter) -> Iterator[Match]:
    """Matching containers by node, name and id, starting with the node that the cursor is at."""
    after = BY_NODE.after(query)
    for node, found in _find(core, wanted, after[0] if after else ""):
        for container in sorted(found, key=lambda each: (each.name, each.id)):
            yield node, container


def _find(
    core: Core, wanted: ContainerFilter, since: str = ""
) -> Iterator[tuple[NodeEntry, list[ContainerState]]]:
    """Nodes by name, with their matching containers in no particular order."""
    is_labelled = None if wanted.label is None else has_label(wanted.label)
    for node, ids in _find_ids(core, wanted, since):
        found = [node.run.containers[each].value for each in ids]
        yield node, found if is_labelled is None else [each for each in found if is_labelled(each.labels)]


def _find_ids(core: Core, wanted: ContainerFilter, since: str) -> Iterator[tuple[NodeEntry, Iterable[str]]]:
    """Nodes by name, with the ids of the containers that match by all but labels."""
    now, nodes = core.clock(), core.registry.nodes
    if wanted.name is None and wanted.service is None and wanted.group is None:
        for each in nodes(now, node=wanted.node, since=since):
            yield each, each.run.containers
        return
    services = None if wanted.service is None else (wanted.service,)
    found = core.registry.tables.find(services=services, name=wanted.name, group=wanted.group)
    for node in sorted(found):
        if node >= since and wanted.node in (None, node):
            for each in nodes(now, node=node):
                yield each, found[node]


async def containers(core: Core, query: ContainersQuery) -> ContainerPage:
    """List running containers with their resource usage and power.

    `search` looks at their name, service, image, node and id.
    """
    wanted, matching = _filter(core, query), None
    if query.order is None and query.search is None:
        matches = find_containers(core, query, wanted) if wanted else ()
        found, after = BY_NODE.page(islice(matches, query.offset, None), query)
    else:
        matching, ordered = _search(core, wanted, query) if wanted else (0, ())
        page, after = position_page(ordered, query)
        found = [
            (node, each.state) for each in page for node in core.registry.nodes(core.clock(), node=each.node)
        ]
    tables = core.registry.tables
    described = [describe_container(tables, node, container.id) for node, container in found]
    window_seconds = query.window_seconds if query.means else None
    return ContainerPage(await _add_group_and_mean(core, described, window_seconds), after, matching)


def _search(
    core: Core, wanted: ContainerFilter, query: ContainersQuery
) -> tuple[int, Iterable[ReportedTask]]:
    """The number of matching containers, and the containers in the requested order."""
    found = core.registry.tables.list_tasks(
        node=wanted.node, service=wanted.service, name=wanted.name, group=wanted.group
    )
    if wanted.label is not None:
        found = found.labelled(has_label(wanted.label))
    if query.search:
        found = found.containing(query.search)
    ordered = found.tasks if query.order is None else found.ordered(query.order, reverse=query.reverse)
    return len(found.tasks), ordered


def _filter(core: Core, query: ContainersQuery) -> ContainerFilter | None:
    """The filter of a query; None if the requested group does not exist."""
    numbers = {each.name: each.number for each in core.analysis.latest.groups}
    if query.group is not None and query.group not in numbers:
        return None
    return ContainerFilter(
        node=query.node,
        name=query.name,
        service=query.service,
        label=query.label,
        group=None if query.group is None else numbers[query.group],
    )


async def _add_group_and_mean(
    core: Core, described: list[Container], window_seconds: float | None
) -> list[Container]:
    """Add the group of each container, and with a window the means over it."""
    means: Mapping[Subject, Mean] = {}
    if window_seconds is not None:
        now = core.clock()
        nodes = dict.fromkeys(each.node for each in described)
        window_ends = [each for node in nodes for each in core.registry.window_ends(now, node=node)]
        means = await core.history.means(SubjectKind.CONTAINER, window_seconds, window_ends)
    names = {each.number: each.name for each in core.analysis.latest.groups}
    tables = core.registry.tables
    return [
        msgspec.structs.replace(
            each,
            mean=means.get((each.node, each.id)),
            group=names.get(tables.group_of(each.node, each.id)),
        )
        for each in described
    ]


async def one_container(core: Core, query: ContainerQuery) -> Container:
    """Get one running container."""
    nodes = [each for each in core.registry.nodes(core.clock()) if query.id in each.run.containers]
    if not nodes:
        raise _no_such_container(query.id)
    node = min(nodes, key=lambda each: (each.liveness, each.name))
    described = describe_container(core.registry.tables, node, query.id)
    [found] = await _add_group_and_mean(core, [described], query.window_seconds)
    return found


async def container_history(core: Core, query: ContainerHistoryQuery) -> Series:
    """Get the resource usage and power of one container over time; by default the last hour."""
    found = await read_series(core, SubjectKind.CONTAINER, query.id, query)
    if not found.points and not any(
        query.id in each.run.containers for each in core.registry.nodes(core.clock())
    ):
        raise _no_such_container(query.id)
    return found


def _no_such_container(name: str) -> ApiError:
    detail = f"no container has the id {name!r}: GET /v1/containers lists all containers with their full ids"
    return ApiError(HTTPStatus.NOT_FOUND, detail, "id")


ROUTES: tuple[Route, ...] = (
    get("/v1/containers", containers, problems=NO_HISTORY),
    get("/v1/containers/{id}", one_container, problems={**NO_CONTAINER, **NO_HISTORY}),
    get("/v1/containers/{id}/history", container_history, problems={**NO_CONTAINER, **NO_HISTORY}),
)
