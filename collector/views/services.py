"""Services, the classes of containers, and envelopes: what was learnt of who needs what."""

from collections import defaultdict
from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collector.analysis.dominance import Dominant
from collector.analysis.envelopes import Statistic
from collector.analysis.histograms import Floats
from collector.analysis.understanding import Service
from collector.answers import Ratios
from collector.core import Core
from collector.history.interface import Series, SubjectKind
from collector.refusal import Refusal
from collector.routes import NO_HISTORY, NoQuery, Route, get, refused
from collector.usage import NOT_MEASURED, quantities
from collector.views.containers import BY_NODE, seen
from collector.views.paging import Paged, Pager
from collector.views.periods import HistoryQuery, series
from wire.resources import Quantities, Resource

_NO_SERVICE = refused(HTTPStatus.NOT_FOUND, "There is no service of this name.")


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What was used, over the window that the configuration keeps; old load counts less."""

    p50: Quantities
    p90: Quantities
    p95: Quantities
    p99: Quantities
    max: Quantities
    mean: Quantities
    need: Quantities
    """Of each resource the number that stands for the need, as `[envelopes]` has it."""


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


class Services(msgspec.Struct, frozen=True, kw_only=True):
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

    def takes(self, service: Service) -> bool:
        """Whether it is among those asked for."""
        lead = service.dominant
        return (
            self.running in (None, service.containers > 0)
            and self.known in (None, service.known)
            and (self.dominant is None or (lead is not None and lead.resource is self.dominant))
        )


class ServiceQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which service is asked for."""

    name: Annotated[str, Meta(description="The service's name.")]


class ServiceHistoryQuery(HistoryQuery, frozen=True, kw_only=True):
    """Which service's history is asked for."""

    name: Annotated[str, Meta(description="The service's name.")]


class ContainerGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A class of containers that need the same sort of thing, much or little."""

    name: str
    dominant: Resource
    containers: int
    centre: Ratios
    """The share of each resource in what they need, where the cluster's average is all alike."""


class ContainerGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The classes of containers."""

    understood_at: float
    groups: list[ContainerGroup]


class ListedEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """Whose envelope, and from how much it was learnt."""

    node: str | None
    """Null of a service."""
    container: str | None
    """The container's id; null of a service."""
    name: str
    service: str | None
    watched_seconds: float | None
    """Of a service: for how long its containers were watched, together."""
    samples: int | None
    """Of a container: how many there are; 0 until the first heartbeat that brings them."""
    envelope: Envelope


class ListedEnvelopes(msgspec.Struct, frozen=True, kw_only=True):
    """A page of envelopes: of containers by node, name and id; of services by name."""

    envelopes: list[ListedEnvelope]
    next: str | None
    """The cursor to the rest; null at the end."""


class EnvelopesQuery(Paged, frozen=True, kw_only=True):
    """Whose envelopes are asked for."""

    of: Annotated[
        Literal["container", "service"], Meta(description="Of each container, or of each service.")
    ] = "container"
    node: Annotated[str | None, Meta(description="Only of containers on the node of this name.")] = None
    service: Annotated[str | None, Meta(description="Only of this service, or of its containers.")] = None


_by_name: Pager[Service, tuple[str]] = Pager(lambda service: (service.name,), tuple[str])


async def services(core: Core, query: ServicesQuery) -> Services:
    """What is understood of services."""
    latest = core.understood.latest
    matching = (latest.services[name] for name in sorted(latest.services))
    found, after = _by_name.page((each for each in matching if query.takes(each)), query)
    watts = _watts(core, {each.name for each in found})
    listed = [_listed(each, watts.get(each.name)) for each in found]
    return Services(understood_at=latest.at, services=listed, next=after)


async def one_service(core: Core, query: ServiceQuery) -> KnownService:
    """One service."""
    found = core.understood.latest.services.get(query.name)
    if found is None:
        raise _no_such_service(query.name)
    return _listed(found, _watts(core, {query.name}).get(query.name))


async def service_history(core: Core, query: ServiceHistoryQuery) -> Series:
    """What one service's containers used and drew, together."""
    told = await series(core, SubjectKind.SERVICE, query.name, query)
    if not told.points and query.name not in core.understood.latest.services:
        raise _no_such_service(query.name)
    return told


async def groups(core: Core, _query: NoQuery) -> ContainerGroups:
    """The classes of the last pass."""
    latest = core.understood.latest
    listed = [
        ContainerGroup(
            name=each.name, dominant=each.dominant, containers=each.size, centre=_ratios(each.centre)
        )
        for each in latest.groups
    ]
    return ContainerGroups(understood_at=latest.at, groups=listed)


async def envelopes(core: Core, query: EnvelopesQuery) -> ListedEnvelopes:
    """What containers or services were seen to use."""
    if query.of == "container":
        running = seen(core, query, lambda _, each: query.service in (None, each.service), query.node)
        found, after = BY_NODE.page(running, query)
        listed = [
            ListedEnvelope(
                node=known.name,
                container=each.id,
                name=each.name,
                service=each.service,
                watched_seconds=None,
                samples=0 if (ring := known.usage.get(each.id)) is None else ring.samples,
                envelope=_envelope(NOT_MEASURED if ring is None else ring.statistics),
            )
            for known, each in found
        ]
        return ListedEnvelopes(envelopes=listed, next=after)
    if query.node is not None:
        detail = "node: a service has one envelope, wherever it runs: ask for those of containers instead"
        raise Refusal(HTTPStatus.BAD_REQUEST, detail, "node")
    known_services = core.understood.latest.services
    matching = (known_services[name] for name in sorted(known_services) if query.service in (None, name))
    of_services, after = _by_name.page(matching, query)
    return ListedEnvelopes(
        envelopes=[
            ListedEnvelope(
                node=None,
                container=None,
                name=each.name,
                service=each.name,
                watched_seconds=each.watched_seconds,
                samples=None,
                envelope=_envelope(each.statistics),
            )
            for each in of_services
        ],
        next=after,
    )


def _watts(core: Core, names: set[str]) -> dict[str, float]:
    """What the containers of these services add up to, where they are heard of."""
    sums: defaultdict[str, float] = defaultdict(float)
    for known in core.registry.known(core.clock()):
        for said in known.picture.containers.values():
            container = said.what
            if container.service in names and container.power is not None:
                sums[container.service or ""] += container.power.watts
    return sums


def _listed(service: Service, watts: float | None) -> KnownService:
    return KnownService(
        name=service.name,
        image=service.image,
        containers=service.containers,
        nodes=service.nodes,
        watts=watts,
        known=service.known,
        watched_seconds=service.watched_seconds,
        seen_at=service.seen_at,
        dominant=None if service.dominant is None else _dominant(service.dominant),
        envelope=_envelope(service.statistics),
    )


def _dominant(lead: Dominant) -> DominantResource:
    return DominantResource(
        resource=lead.resource,
        confidence=lead.confidence,
        shares=_ratios(lead.shares),
        explanation=lead.explanation,
        history=[DominantSince(resource=each.resource, since=each.since) for each in lead.history],
    )


def _envelope(statistics: Floats) -> Envelope:
    def of(statistic: Statistic) -> Quantities:
        return quantities(statistics[:, statistic])

    return Envelope(
        p50=of(Statistic.P50),
        p90=of(Statistic.P90),
        p95=of(Statistic.P95),
        p99=of(Statistic.P99),
        max=of(Statistic.MAX),
        mean=of(Statistic.MEAN),
        need=of(Statistic.ENVELOPE),
    )


def _ratios(four: tuple[float, float, float, float]) -> Ratios:
    return Ratios(*(None if each != each else each for each in four))  # noqa: PLR0124 - NaN


def _no_such_service(name: str) -> Refusal:
    detail = f"there is no service {name!r}: /v1/services lists them, a minute after they first ran"
    return Refusal(HTTPStatus.NOT_FOUND, detail, "name")


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/services",
        "Services, with what one container of each needs; those too that were learnt and do not run now.",
        Services,
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
    get(
        "/v1/groups",
        "The classes that containers fall into by what they need most.",
        ContainerGroups,
        groups,
        query=NoQuery,
    ),
    get(
        "/v1/envelopes",
        "What each container, or each service, was seen to use: percentiles, the most, and what stands for"
        " the need.",
        ListedEnvelopes,
        envelopes,
        query=EnvelopesQuery,
    ),
)
