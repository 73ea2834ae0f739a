"""Envelopes: what each container, or each service, was seen to use."""

from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collector.analysis.analysis import ServiceProfile
from collector.analysis.envelopes import Statistic
from collector.analysis.histograms import Floats
from collector.analysis.usage import NOT_MEASURED, quantities
from collector.api.containers import BY_NODE, Asked, seen
from collector.api.paging import Paged, Pager
from collector.common.errors import ApiError
from collector.core.parts import Core
from collector.web.routes import Route, get
from wire.resources import Quantities


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


BY_NAME: Pager[ServiceProfile, tuple[str]] = Pager(lambda service: (service.name,), tuple[str])


async def envelopes(core: Core, query: EnvelopesQuery) -> ListedEnvelopes:
    """What containers or services were seen to use."""
    if query.of == "container":
        return _of_containers(core, query)
    if query.node is not None:
        detail = "node: a service has one envelope, wherever it runs: ask for those of containers instead"
        raise ApiError(HTTPStatus.BAD_REQUEST, detail, "node")
    return _of_services(core, query)


def _of_containers(core: Core, query: EnvelopesQuery) -> ListedEnvelopes:
    running = seen(core, query, Asked(node=query.node, service=query.service))
    found, after = BY_NODE.page(running, query)
    listed = [
        ListedEnvelope(
            node=known.name,
            container=each.id,
            name=each.name,
            service=each.service,
            watched_seconds=None,
            samples=0 if (ring := known.usage.get(each.id)) is None else ring.samples,
            envelope=listed_envelope(NOT_MEASURED if ring is None else ring.statistics),
        )
        for known, each in found
    ]
    return ListedEnvelopes(envelopes=listed, next=after)


def _of_services(core: Core, query: EnvelopesQuery) -> ListedEnvelopes:
    services = core.analysis.latest.services
    matching = (services[name] for name in sorted(services) if query.service in (None, name))
    found, after = BY_NAME.page(matching, query)
    listed = [
        ListedEnvelope(
            node=None,
            container=None,
            name=each.name,
            service=each.name,
            watched_seconds=each.watched_seconds,
            samples=None,
            envelope=listed_envelope(each.statistics),
        )
        for each in found
    ]
    return ListedEnvelopes(envelopes=listed, next=after)


def listed_envelope(statistics: Floats) -> Envelope:
    """What is known, by the number that it is."""

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


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/envelopes",
        "What each container, or each service, was seen to use: percentiles, the most, and what stands for"
        " the need.",
        ListedEnvelopes,
        envelopes,
        query=EnvelopesQuery,
    ),
)
