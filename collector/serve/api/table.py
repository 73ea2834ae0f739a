"""The route table of the collector: the server, OpenAPI and docs/api.md come from it."""

from functools import cache

from aiohttp import web

from collector.common.extensions import extend
from collector.runtime.parts import Core
from collector.serve import ingest
from collector.serve.api import (
    alerts,
    cluster,
    containers,
    control,
    events,
    hints,
    history,
    joining,
    metrics,
    nodes,
    services,
    what_if,
)
from collector.serve.web import page
from collector.serve.web.bodies import JSON_TYPE
from collector.serve.web.openapi import document
from collector.serve.web.routes import ResponseSpec, Route, get
from wire.messages import encode


async def openapi(_core: Core, _request: web.Request) -> web.Response:
    """Get the OpenAPI description of this API."""
    return web.Response(body=_openapi_document(), content_type=JSON_TYPE)


ROUTES: tuple[Route, ...] = (
    *ingest.ROUTES,
    *joining.ROUTES,
    *cluster.ROUTES,
    *nodes.ROUTES,
    *containers.ROUTES,
    *services.ROUTES,
    *history.ROUTES,
    *alerts.ROUTES,
    *events.ROUTES,
    *what_if.ROUTES,
    *hints.ROUTES,
    *control.ROUTES,
    *extend("routes", "ROUTES"),
    get("/openapi.json", openapi, responds=ResponseSpec("An OpenAPI 3.1 document.", dict)),
    *metrics.ROUTES,
    *page.ROUTES,
)


@cache
def _openapi_document() -> bytes:
    return encode(document(ROUTES))
