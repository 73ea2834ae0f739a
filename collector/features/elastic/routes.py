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


class ElasticList(msgspec.Struct, frozen=True, kw_only=True):
    """Elastic services."""

    elastic: list[ElasticStatus]
    """One entry per elastic service."""
    learned: tuple[LearnedRow, ...]
    """With `service`: the table that its policy has learned so far."""


class ElasticQuery(msgspec.Struct, frozen=True):
    """Filters for elastic services."""

    service: Annotated[
        str | None, Meta(description="Only the service with this name; 404 if it is not elastic.")
    ] = None


def _controller(core: Core) -> ElasticController:
    return control_of(core).controller(ElasticController)


async def elastic_services(core: Core, query: ElasticQuery) -> ElasticList:
    """List services whose replicas and CPU limits follow their load, with the last decision about each."""
    controller, wanted = _controller(core), query.service
    found = [each for each in controller.statuses() if wanted in (None, each.service)]
    if wanted is None:
        return ElasticList(elastic=found, learned=())
    if not found:
        detail = (
            f"service {wanted!r} is not elastic: add [elastic.{wanted}] to the settings, or the label"
            " wattpack.elastic to the service"
        )
        raise ApiError(HTTPStatus.NOT_FOUND, detail, "service")
    return ElasticList(elastic=found, learned=await asyncio.to_thread(controller.learned, wanted))


_NO_SERVICE = problem(HTTPStatus.NOT_FOUND, "No elastic service has this name.")
ROUTES: tuple[Route, ...] = (get("/v1/elastic", elastic_services, problems=_NO_SERVICE),)
