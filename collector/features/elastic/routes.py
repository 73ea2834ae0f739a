"""Elastic services: state, target, metric, and the table that the policy learned."""

import asyncio
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.api.control import control_of
from collector.common.errors import ApiError
from collector.core.parts import Core
from collector.features.elastic.controllers import ElasticController
from collector.features.elastic.scaling.interface import LearnedRow
from collector.features.elastic.status import ElasticStatus
from collector.web.routes import Route, get, problem


class ElasticList(msgspec.Struct, frozen=True):
    """All elastic services."""

    elastic: list[ElasticStatus]
    """One entry per elastic service."""


class ElasticDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One elastic service, and the table that its policy learned."""

    status: ElasticStatus
    """State of the service at the last decision."""
    learned: tuple[LearnedRow, ...]
    """The table that its policy has learned so far."""


class ElasticQuery(msgspec.Struct, frozen=True):
    """Parameters for one elastic service."""

    service: Annotated[str, Meta(description="Name of the service.")]


def _controller(core: Core) -> ElasticController:
    return control_of(core).controller(ElasticController)


async def elastic_services(core: Core) -> ElasticList:
    """List services whose replicas and CPU limits follow their load, with the last decision about each."""
    return ElasticList(_controller(core).statuses())


async def elastic_service(core: Core, query: ElasticQuery) -> ElasticDetail:
    """Get one elastic service, and the table that its policy has learned."""
    controller = _controller(core)
    found = next((each for each in controller.statuses() if each.service == query.service), None)
    if found is None:
        detail = (
            f"service {query.service!r} is not elastic: add [elastic.{query.service}] to the settings, or the"
            " label wattpack.elastic to the service"
        )
        raise ApiError(HTTPStatus.NOT_FOUND, detail, "service")
    return ElasticDetail(status=found, learned=await asyncio.to_thread(controller.learned, query.service))


_NO_SERVICE = problem(HTTPStatus.NOT_FOUND, "No elastic service has this name.")
ROUTES: tuple[Route, ...] = (
    get("/v1/elastic", elastic_services),
    get(
        "/v1/elastic/{service}",
        elastic_service,
        problems=_NO_SERVICE,
    ),
)
