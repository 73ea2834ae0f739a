"""Services: all, one, and what one used."""

from collections import defaultdict
from collections.abc import Collection
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.analysis.analysis import ServiceProfile
from collector.analysis.dominance import Dominant
from collector.api.analysis import BY_NAME, Envelope, listed_envelope
from collector.api.queries import HistoryQuery, Paged, series
from collector.common.errors import ApiError
from collector.common.ratios import Ratios, ratios_of
from collector.core.parts import Core
from collector.history.interface import Series, SubjectKind
from collector.web.routes import NO_HISTORY, Route, get, refused
from wire.resources import Resource

_NO_SERVICE = refused(HTTPStatus.NOT_FOUND, "There is no service of this name.")


class DominantSince(msgspec.Struct, frozen=True, kw_only=True):
    """What dominated from a time on."""

    resource: Resource
    since: float


class DominantResource(msgspec.Struct, frozen=True, kw_only=True):
    """The resource of which one container takes the largest share of what the cluster has."""

    resource: Resource
    confidence: float
    """0-1: how far it leads, and how long it was watched."""
    shares: Ratios
    explanation: str
    history: list[DominantSince]
    """From the first to the one that holds."""


class KnownService(msgspec.Struct, frozen=True, kw_only=True):
    """What is understood of a service; its envelope is of one container."""

    name: str
    image: str
    containers: int
    """Those that run now."""
    nodes: int
    """On how many nodes."""
    watts: float | None
    """What its containers add to the draw of their nodes now; null where nobody tells."""
    known: bool
    """Its need was learnt from enough samples, now or earlier: a new container of it starts known."""
    watched_seconds: float
    """For how long its containers were watched, together."""
    seen_at: float
    """When it last ran."""
    dominant: DominantResource | None
    envelope: Envelope


class ServicePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of services, by name."""

    understood_at: float
    """When the cluster was last thought through; 0 if it has not been yet."""
    services: list[KnownService]
    next: str | None
    """The cursor to the rest; null at the end."""


class ServicesQuery(Paged, frozen=True, kw_only=True):
    """Which services are asked for."""

    running: Annotated[
        bool | None, Meta(description="Only those that run now, or only those that do not.")
    ] = None
    known: Annotated[
        bool | None, Meta(description="Only those whose need was learnt, or only the others.")
    ] = None
    dominant: Annotated[Resource | None, Meta(description="Only those that this resource dominates.")] = None

    def takes(self, service: ServiceProfile) -> bool:
        """Whether it is among those asked for."""
        lead = service.dominant
        return (
            self.running in (None, service.containers > 0)
            and self.known in (None, service.profiled)
            and (self.dominant is None or (lead is not None and lead.resource is self.dominant))
        )


class ServiceQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which service is asked for."""

    name: Annotated[str, Meta(description="The service's name.")]


class ServiceHistoryQuery(HistoryQuery, frozen=True, kw_only=True):
    """Which service's history is asked for."""

    name: Annotated[str, Meta(description="The service's name.")]


async def services(core: Core, query: ServicesQuery) -> ServicePage:
    """What is understood of services."""
    latest = core.analysis.latest
    matching = (latest.services[name] for name in sorted(latest.services))
    found, after = BY_NAME.page((each for each in matching if query.takes(each)), query)
    watts = _watts(core, {each.name for each in found})
    listed = [_listed(each, watts.get(each.name)) for each in found]
    return ServicePage(understood_at=latest.at, services=listed, next=after)


async def one_service(core: Core, query: ServiceQuery) -> KnownService:
    """One service."""
    found = core.analysis.latest.services.get(query.name)
    if found is None:
        raise _no_such_service(query.name)
    return _listed(found, _watts(core, {query.name}).get(query.name))


async def service_history(core: Core, query: ServiceHistoryQuery) -> Series:
    """What one service's containers used and drew, together."""
    told = await series(core, SubjectKind.SERVICE, query.name, query)
    if not told.points and query.name not in core.analysis.latest.services:
        raise _no_such_service(query.name)
    return told


def _watts(core: Core, names: Collection[str]) -> dict[str, float]:
    """What the containers of these services add up to, where they are heard of."""
    sums: defaultdict[str, float] = defaultdict(float)
    for node, ids in core.registry.tables.find(services=names).items():
        for known in core.registry.nodes(core.clock(), node=node):
            for each in ids:
                container = known.run.containers[each].value
                if container.power is not None:
                    sums[container.service or ""] += container.power.watts
    return sums


def _listed(service: ServiceProfile, watts: float | None) -> KnownService:
    return KnownService(
        name=service.name,
        image=service.image,
        containers=service.containers,
        nodes=service.nodes,
        watts=watts,
        known=service.profiled,
        watched_seconds=service.watched_seconds,
        seen_at=service.seen_at,
        dominant=None if service.dominant is None else _dominant(service.dominant),
        envelope=listed_envelope(service.statistics),
    )


def _dominant(lead: Dominant) -> DominantResource:
    return DominantResource(
        resource=lead.resource,
        confidence=lead.confidence,
        shares=ratios_of(lead.shares),
        explanation=lead.explanation,
        history=[DominantSince(resource=each.resource, since=each.since) for each in lead.history],
    )


def _no_such_service(name: str) -> ApiError:
    detail = f"there is no service {name!r}: /v1/services lists them, a minute after they first ran"
    return ApiError(HTTPStatus.NOT_FOUND, detail, "name")


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/services",
        "Services, with what one container of each needs; those too that were learnt and do not run now.",
        ServicePage,
        services,
        query=ServicesQuery,
    ),
    get(
        "/v1/services/{name}",
        "One service.",
        KnownService,
        one_service,
        query=ServiceQuery,
        refusals=_NO_SERVICE,
    ),
    get(
        "/v1/services/{name}/history",
        "What one service's containers used and drew together over time: the last hour, unless told"
        " otherwise.",
        Series,
        service_history,
        query=ServiceHistoryQuery,
        refusals={**_NO_SERVICE, **NO_HISTORY},
    ),
)
