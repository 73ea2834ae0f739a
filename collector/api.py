"""Everything that can be asked of a collector: one table, and the functions that answer."""

from functools import cache
from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from aiohttp import web
from msgspec import Meta

from collector.access.scopes import Scope
from collector.acting.routes import ROUTES as ACTING
from collector.answers import (
    AlertState,
    Containers,
    Health,
    NodeAlerts,
    NodeEvent,
    NodeEvents,
    NodePowerCurve,
    Nodes,
    WhatIfAnswers,
)
from collector.body import JSON_TYPE
from collector.core import Core
from collector.extender.routes import ROUTES as EXTENDER
from collector.hints.routes import ROUTES as HINTS
from collector.ingest import TYPES, take_reports
from collector.metrics import scrape
from collector.openapi import document
from collector.page import page
from collector.routes import (
    NO_HISTORY,
    NO_NODE,
    REFUSED_BODY,
    REFUSED_HOST,
    Answer,
    NoQuery,
    Route,
    get,
    post,
    refused,
)
from collector.snapshot.tables import Region
from collector.what_if import PowerCurveQuery, WhatIf, power_curve, what_if
from wire.messages import Batch, Receipt, encode
from wire.version import __version__

Window = Annotated[
    float,
    Meta(gt=0, le=3600, description="The time over which `mean` is taken, back from a node's last word."),
]
_WINDOW_SECONDS = 300.0
"""What the agents' heartbeats are apart, so that a mean is seldom made of one sample alone."""


class NodesQuery(msgspec.Struct, frozen=True):
    """How nodes are asked for."""

    order: Annotated[
        Literal["name", "registry"],
        Meta(
            description="By name; or as Energy4Cloud's registry has them: by region, then by class, then the"
            " fullest first, but the emptiest first where work suffers."
        ),
    ] = "name"
    window_seconds: Window = _WINDOW_SECONDS


class ContainersQuery(msgspec.Struct, frozen=True):
    """How containers are asked for."""

    node: Annotated[str | None, Meta(description="Only those on the node of this name.")] = None
    name: Annotated[str | None, Meta(description="Only those of this name.")] = None
    window_seconds: Window = _WINDOW_SECONDS


class AlertsQuery(msgspec.Struct, frozen=True):
    """How alerts are asked for."""

    state: Annotated[
        Literal["open", "closed", "all"],
        Meta(description="Only those that last, or only those that are over."),
    ] = "all"


class EventsQuery(msgspec.Struct, frozen=True):
    """How events are asked for."""

    node: Annotated[str | None, Meta(description="Only those of the node of this name.")] = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="No more than so many.")] = 100


async def nodes(core: Core, query: NodesQuery) -> Nodes:
    """What every node uses, now and on average."""
    now = core.clock()
    means = await core.history.node_means(query.window_seconds, core.registry.standings(now))
    replace = msgspec.structs.replace
    found = [replace(node, mean=means.get(node.name)) for node in core.registry.nodes(now)]
    if query.order == "registry":
        place = {name: place for place, name in enumerate(core.registry.board.hosts(Region))}
        found.sort(key=lambda node: place[node.name])
    return Nodes(found)


async def containers(core: Core, query: ContainersQuery) -> Containers:
    """What the containers asked for use, now and on average."""
    now = core.clock()
    standings = core.registry.standings(now, node=query.node)
    means = await core.history.container_means(query.window_seconds, standings)
    found = core.registry.containers(now, node=query.node, name=query.name)
    replace = msgspec.structs.replace
    return Containers([replace(each, mean=means.get((each.node, each.id))) for each in found])


async def alerts(core: Core, query: AlertsQuery) -> NodeAlerts:
    """What the nodes are short of, or were."""
    state = None if query.state == "all" else AlertState(query.state)
    return NodeAlerts(core.registry.alerts(core.clock(), state=state))


async def events(core: Core, query: EventsQuery) -> NodeEvents:
    """What happened of late."""
    happened = await core.history.events(query.limit, query.node)
    return NodeEvents([NodeEvent(node=each.node, **msgspec.structs.asdict(each.event)) for each in happened])


async def alive(_core: Core, _query: NoQuery) -> Health:
    """That the event loop turns."""
    return Health("alive", __version__)


async def ready(core: Core, _query: NoQuery) -> Health:
    """That a report could be kept now."""
    await core.history.check()
    return Health("ready", __version__, core.troubles.listed)


async def described(_core: Core, _request: web.Request) -> web.Response:
    """This very table, for programs."""
    return web.Response(body=_description(), content_type=JSON_TYPE)


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/reports",
        summary="Hand over reports of agents; one that is already here is acknowledged and changes nothing.",
        serve=take_reports,
        body=Batch,
        body_types=TYPES,
        needs=Scope.NODE,
        answers={
            HTTPStatus.OK: Answer("Every report is on disk.", Receipt),
            **refused(HTTPStatus.BAD_REQUEST, "Something in the batch is wrong; none of it was kept."),
            **REFUSED_BODY,
            **refused(
                HTTPStatus.FORBIDDEN,
                "What was shown does not allow to speak for a node in the batch, or the Host header is not a"
                " name of the collector.",
            ),
            **refused(HTTPStatus.TOO_MANY_REQUESTS, "Too much is waiting; come back after Retry-After."),
            **NO_HISTORY,
        },
    ),
    get(
        "/v1/nodes",
        "Every node, with what it uses and draws.",
        Nodes,
        nodes,
        query=NodesQuery,
        refusals=NO_HISTORY,
    ),
    get(
        "/v1/containers",
        "Every running container, with what it uses and draws.",
        Containers,
        containers,
        query=ContainersQuery,
        refusals=NO_HISTORY,
    ),
    get(
        "/v1/alerts",
        "The bottlenecks that nodes found in themselves, open or of late.",
        NodeAlerts,
        alerts,
        query=AlertsQuery,
    ),
    get(
        "/v1/events",
        "What happened to nodes and containers: joined, started, stopped, died.",
        NodeEvents,
        events,
        query=EventsQuery,
        refusals=NO_HISTORY,
    ),
    get(
        "/v1/power-curve",
        "What a node would draw from no CPU load to full.",
        NodePowerCurve,
        power_curve,
        query=PowerCurveQuery,
        refusals={**NO_NODE, **refused(HTTPStatus.CONFLICT, "The node has told no power curve yet.")},
    ),
    post(
        "/v1/what-if",
        "What more load would add to the draw of one node, or of each.",
        WhatIfAnswers,
        what_if,
        body=WhatIf,
        refusals=NO_NODE,
    ),
    *HINTS,
    *ACTING,
    *EXTENDER,
    get("/healthz", "Whether the collector runs.", Health, alive, query=NoQuery, scope=Scope.OPEN),
    get(
        "/readyz",
        "Whether reports can be kept now.",
        Health,
        ready,
        query=NoQuery,
        refusals=NO_HISTORY,
        scope=Scope.OPEN,
    ),
    Route(
        method="GET",
        path="/openapi.json",
        summary="This description.",
        serve=described,
        answers={HTTPStatus.OK: Answer("An OpenAPI 3.1 document.", dict)} | REFUSED_HOST,
    ),
    Route(
        method="GET",
        path="/metrics",
        summary="How the collector itself is doing, for Prometheus.",
        serve=scrape,
        answers={HTTPStatus.OK: Answer("Metrics.", content_type="text/plain")} | REFUSED_HOST,
    ),
    Route(
        method="GET",
        path="/",
        summary="A page that shows the nodes and containers, for people.",
        serve=page,
        answers={HTTPStatus.OK: Answer("The page.", content_type="text/html")} | REFUSED_HOST,
    ),
)


@cache
def _description() -> bytes:
    return encode(document(ROUTES))
