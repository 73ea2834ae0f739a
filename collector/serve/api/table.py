"""The route table of the collector: the server, OpenAPI and docs/api.md come from it."""

from functools import cache
from http import HTTPStatus

from aiohttp import web

from collector.common.extensions import extend
from collector.runtime.parts import Core
from collector.serve.api.alerts import ROUTES as ALERTS
from collector.serve.api.cluster import ROUTES as CLUSTER
from collector.serve.api.containers import ROUTES as CONTAINERS
from collector.serve.api.control import ROUTES as CONTROL
from collector.serve.api.energy import ROUTES as ENERGY
from collector.serve.api.events import ROUTES as EVENTS
from collector.serve.api.hints import ROUTES as HINTS
from collector.serve.api.history import ROUTES as HISTORY
from collector.serve.api.joining import ROUTES as JOINING
from collector.serve.api.metrics import scrape
from collector.serve.api.nodes import ROUTES as NODES
from collector.serve.api.services import ROUTES as SERVICES
from collector.serve.api.what_if import ROUTES as WHAT_IF
from collector.serve.ingest import receive_reports
from collector.serve.web.bodies import JSON_TYPE
from collector.serve.web.openapi import document
from collector.serve.web.page import ROUTES as PAGE
from collector.serve.web.routes import (
    BAD_BODY,
    FORBIDDEN,
    NO_HISTORY,
    ResponseSpec,
    Route,
    problem,
)
from collector.serve.web.scopes import Scope
from wire.messages import Batch, Receipt, encode


async def openapi(_core: Core, _request: web.Request) -> web.Response:
    """Serve the OpenAPI document."""
    return web.Response(body=_openapi_document(), content_type=JSON_TYPE)


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/reports",
        summary="Send reports of agents. A report that is already stored is acknowledged, without effect.",
        serve=receive_reports,
        body=Batch,
        needs=Scope.NODE,
        responses={
            HTTPStatus.OK: ResponseSpec("All reports are on disk.", Receipt),
            **BAD_BODY,
            **problem(HTTPStatus.BAD_REQUEST, "The batch is invalid; none of it is stored."),
            **problem(
                HTTPStatus.FORBIDDEN,
                "The token or certificate is not valid for a node in the batch, or the Host header is not a"
                " name of the collector.",
            ),
            **problem(HTTPStatus.CONFLICT, "Another machine reports under the name of a node in the batch."),
            **problem(HTTPStatus.TOO_MANY_REQUESTS, "The collector is overloaded; retry after Retry-After."),
            **NO_HISTORY,
        },
    ),
    *JOINING,
    *CLUSTER,
    *NODES,
    *CONTAINERS,
    *SERVICES,
    *HISTORY,
    *ALERTS,
    *EVENTS,
    *ENERGY,
    *WHAT_IF,
    *HINTS,
    *CONTROL,
    *extend("routes", "ROUTES"),
    Route(
        method="GET",
        path="/openapi.json",
        summary="Get the OpenAPI description of this API.",
        serve=openapi,
        responses={HTTPStatus.OK: ResponseSpec("An OpenAPI 3.1 document.", dict)} | FORBIDDEN,
    ),
    Route(
        method="GET",
        path="/metrics",
        summary="Get the collector's own metrics in the Prometheus text format.",
        serve=scrape,
        responses={HTTPStatus.OK: ResponseSpec("Metrics.", content_type="text/plain")} | FORBIDDEN,
    ),
    *PAGE,
)


@cache
def _openapi_document() -> bytes:
    return encode(document(ROUTES))
