"""Elastic services: target, last decision, last change."""

import msgspec

from collector.features.elastic.controllers import ElasticController
from collector.features.elastic.status import ElasticStatus
from collector.serve.api.control import Api
from collector.serve.web.routes import Route, get


class ElasticList(msgspec.Struct, frozen=True):
    """Elastic services."""

    elastic: list[ElasticStatus]
    """One entry per elastic service."""


async def elastic_services(api: Api) -> ElasticList:
    """List services whose replicas and CPU limits follow their load, with the last decision about each."""
    return ElasticList(api.control.controller(ElasticController).statuses())


ROUTES: tuple[Route, ...] = (get("/v1/elastic", elastic_services),)
