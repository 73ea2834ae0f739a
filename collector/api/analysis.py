"""Envelopes: what each container, or each service, was seen to use."""

from bisect import bisect_right
from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collector.analysis.analysis import ServiceProfile
from collector.analysis.envelopes import Statistic
from collector.analysis.histograms import Floats
from collector.analysis.usage import NOT_MEASURED, quantities
from collector.api.containers import BY_NODE, Asked, seen
from collector.api.queries import Paged, Pager
from collector.common.errors import ApiError
from collector.common.ratios import Ratios, ratios_of
from collector.core.parts import Core
from collector.web.routes import NoQuery, Route, get
from wire.resources import Quantities, Resource


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


class NodeAvailability(msgspec.Struct, frozen=True, kw_only=True):
    """What a node has, and what is left of it."""

    node: str
    capacity: Quantities
    used: Quantities
    allocated: Quantities
    """What was promised to its containers."""
    reserved: Quantities
    """What their envelopes add up to."""
    free: Quantities
    """What envelopes leave of the capacity."""
    score: float
    """How much is free in all: 0 is full, 2 is empty."""


class Cartography(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what is left, node by node."""

    understood_at: float
    """When the cluster was last thought through, which this tells of; 0 if it has not been yet."""
    nodes: list[NodeAvailability]
    next: str | None
    """The cursor to the rest; null at the end."""


class AvailabilityQuery(Paged, frozen=True, kw_only=True):
    """Of which nodes it is asked."""

    node: Annotated[str | None, Meta(description="Only of the node of this name.")] = None


_BY_NODE_NAME: Pager[NodeAvailability, tuple[str]] = Pager(lambda each: (each.node,), tuple[str])


async def availability(core: Core, query: AvailabilityQuery) -> Cartography:
    """What was left on each node at the last pass."""
    latest = core.analysis.latest
    found, after = latest.availability, _BY_NODE_NAME.after(query)
    first = 0 if after is None else bisect_right(found.names, after[0])
    listed = (
        NodeAvailability(
            node=found.names[row],
            capacity=quantities(found.capacity[row]),
            used=quantities(found.used[row]),
            allocated=quantities(found.allocated[row]),
            reserved=quantities(found.envelope_sum[row]),
            free=quantities(found.free[row]),
            score=float(found.score[row]),
        )
        for row in range(first, len(found.names))
        if query.node in (None, found.names[row])
    )
    nodes, following = _BY_NODE_NAME.page(listed, query)
    return Cartography(understood_at=latest.at, nodes=nodes, next=following)


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


async def groups(core: Core, _query: NoQuery) -> ContainerGroups:
    """The classes of the last pass."""
    latest = core.analysis.latest
    listed = [
        ContainerGroup(
            name=each.name, dominant=each.dominant, containers=each.size, centre=ratios_of(each.centre)
        )
        for each in latest.groups
    ]
    return ContainerGroups(understood_at=latest.at, groups=listed)


ROUTES: tuple[Route, ...] = (
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
    get(
        "/v1/availability",
        "What is left on each node, by use, by promise and by envelope.",
        Cartography,
        availability,
        query=AvailabilityQuery,
    ),
)
