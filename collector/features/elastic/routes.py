"""Elastic services: target, last decision, last change."""

import msgspec

from collector.features.elastic.controllers import ElasticController
from collector.features.elastic.status import ElasticStatus
from collector.runtime.parts import Core
from collector.serve.api.control import control_of
from collector.serve.web.routes import Route, get


class ElasticList(msgspec.Struct, frozen=True):
    """Elastic services."""

    elastic: list[ElasticStatus]
    """One entry per elastic service."""


async def elastic_services(core: Core) -> ElasticList:
    """List services whose replicas and CPU limits follow their load, with the last decision about each."""
    return ElasticList(control_of(core).controller(ElasticController).statuses())


ROUTES: tuple[Route, ...] = (get("/v1/elastic", elastic_services),)
