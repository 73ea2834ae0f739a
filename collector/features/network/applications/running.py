"""Running applications: their services, their nodes, and the round-trip times between these."""

import asyncio
from collections import Counter
from math import isfinite, isnan

import msgspec
import numpy as np

from collector.features.network.applications.distance import farthest_pair, nodes_of, within
from collector.features.network.applications.table import Applications, applications_in
from collector.features.network.mesh.delays import Delays
from collector.runtime.parts import Core
from collector.serve.api.queries import PageQuery, Pager
from collector.serve.web.routes import Route, get
from collector.snapshot.tables import NOWHERE, Snapshot


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
    delays, farthest, within_bound = snapshot.part(Delays), None, None
    if delays is not None:
        *pair, seconds = farthest_pair(snapshot, delays, services, lambda some: nodes_of(snapshot, some))
        if seconds > 0:
            farthest = NodePair(
                nodes=tuple(snapshot.nodes.names[each] for each in sorted(pair)), seconds=seconds
            )
        if isfinite(bound) and not isnan(seconds):
            within_bound = bool(within(np.array(seconds), bound))
    return RunningApplication(
        name=name,
        services=tuple(snapshot.services.names[each] for each in services.tolist()),
        nodes={snapshot.nodes.names[node]: counts[node] for node in sorted(counts) if node != NOWHERE},
        delay_max_seconds=bound if isfinite(bound) else None,
        farthest=farthest,
        within_bound=within_bound,
    )


ROUTES: tuple[Route, ...] = (get("/v1/applications", list_applications),)
