"""Running applications: their services, their nodes, and the round-trip times between these."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple

import msgspec
import numpy as np

from collector.api.queries import PageQuery, Pager
from collector.core.parts import Core
from collector.features.network.applications.distance import nodes_of, within
from collector.features.network.applications.table import Applications, applications_in
from collector.features.network.mesh.delays import Delays
from collector.snapshot.tables import NOWHERE, Snapshot
from collector.web.routes import Route, get


class NodePair(msgspec.Struct, frozen=True, kw_only=True):
    """Two nodes, and the round-trip time between them."""

    nodes: tuple[str, ...]
    """Names of the two nodes."""
    seconds: float
    """Round-trip time, in seconds."""


class RunningApplication(msgspec.Struct, frozen=True, kw_only=True):
    """An application with running containers."""

    name: str
    """Name of the application."""
    services: tuple[str, ...]
    """Names of its services."""
    nodes: dict[str, int]
    """Number of its containers on each node."""
    delay_max_seconds: float | None
    """Allowed round-trip time between its nodes, by its labels; null without a limit."""
    farthest: NodePair | None
    """The nodes with the longest round-trip time between containers that talk; null if unknown."""
    within_bound: bool | None
    """Whether all round-trip times are within the limit; null without a limit, or if unknown."""


class ApplicationPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of applications, by name."""

    applications: list[RunningApplication]
    """The applications of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""


class _Extent(NamedTuple):
    """The longest round-trip time of an application, and whether some are unknown."""

    farthest: NodePair | None
    has_unknown: bool


def _name(application: tuple[int, str]) -> tuple[str]:
    return (application[1],)


_BY_NAME: Pager[tuple[int, str], tuple[str]] = Pager(_name, tuple[str])


async def list_applications(core: Core, query: PageQuery) -> ApplicationPage:
    """List applications with running containers: services, nodes, and the round-trip times between them."""
    snapshot = await core.snapshot()
    applications = applications_in(snapshot)
    rows = sorted(enumerate(applications.names), key=_name)
    found, after = _BY_NAME.page(rows, query)
    # Large applications have many pairs of nodes.
    described = await asyncio.to_thread(
        lambda: [_describe(snapshot, applications, row, name) for row, name in found]
    )
    return ApplicationPage(applications=described, next=after)


def _describe(snapshot: Snapshot, applications: Applications, row: int, name: str) -> RunningApplication:
    services, bound = applications.services_of(row), float(applications.delay_max[row])
    counts = Counter(snapshot.tasks.node[applications.tasks_of(snapshot, services)].tolist())
    extent = _extent(snapshot, applications, row)
    within_bound = None
    if isfinite(bound) and snapshot.part(Delays) is not None:
        is_near = extent.farthest is None or bool(within(np.array([extent.farthest.seconds]), bound)[0])
        within_bound = None if is_near and extent.has_unknown else is_near
    return RunningApplication(
        name=name,
        services=tuple(snapshot.services.names[each] for each in services.tolist()),
        nodes={snapshot.nodes.names[node]: counts[node] for node in sorted(counts) if node != NOWHERE},
        delay_max_seconds=bound if isfinite(bound) else None,
        farthest=extent.farthest,
        within_bound=within_bound,
    )


def _extent(snapshot: Snapshot, applications: Applications, row: int) -> _Extent:
    names, longest, has_unknown = snapshot.nodes.names, None, False
    for one, other, seconds in _distances(snapshot, applications, row):
        if np.isnan(seconds):
            has_unknown = True
        elif longest is None or seconds > longest.seconds:
            longest = NodePair(nodes=(names[one], names[other]), seconds=seconds)
    return _Extent(longest, has_unknown)


def _distances(snapshot: Snapshot, applications: Applications, row: int) -> Iterator[tuple[int, int, float]]:
    """Pairs of different nodes whose containers talk, and the times between them."""
    delays = snapshot.part(Delays)
    if delays is None:
        return
    links = applications.links.get(row)
    services = applications.services_of(row)
    groups = (
        [(services, services)]
        if links is None
        else [(np.array([one]), np.array([other])) for one, other in sorted(links)]
    )
    for near, far in groups:
        ends = nodes_of(snapshot, far)
        for one in nodes_of(snapshot, near).tolist():
            seconds = delays.from_node(one)
            yield from ((one, other, float(seconds[other])) for other in ends.tolist() if other != one)


ROUTES: tuple[Route, ...] = (get("/v1/applications", list_applications),)
