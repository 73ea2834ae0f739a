"""Results of the analysis: envelopes, groups of containers, and the free capacity of nodes."""

from bisect import bisect_right
from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from collector.analysis.envelopes import Statistic
from collector.analysis.groups import Group
from collector.analysis.services import ServiceProfile
from collector.analysis.usage import NOT_MEASURED, to_quantities
from collector.api.containers import BY_NODE, ContainerFilter, find_containers
from collector.api.queries import PageQuery, Pager
from collector.common.arrays import Floats
from collector.common.errors import ApiError
from collector.core.parts import Core
from collector.policies.scoring import availability as free_score
from collector.policies.scoring import share
from collector.web.routes import Route, get
from wire.resources import Quantities


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of resource usage over the configured window; recent usage weighs more."""

    p50: Quantities
    """Median."""
    p90: Quantities
    """90th percentile."""
    p95: Quantities
    """95th percentile."""
    p99: Quantities
    """99th percentile."""
    max: Quantities
    """Highest sample."""
    mean: Quantities
    """Mean of all samples."""
    need: Quantities
    """The usage that a container is expected to need: for each resource, the statistic in `[envelopes]`."""


class EnvelopeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of one container or service."""

    node: str | None
    """Name of the node; null for a service."""
    container: str | None
    """Container id; null for a service."""
    name: str
    """Name of the container or service."""
    service: str | None
    observed_seconds: float | None
    """For a service: total time over which its containers were observed."""
    samples: int | None
    """For a container: number of samples; 0 until the first heartbeat with usage arrives."""
    envelope: Envelope
    """Statistics of its usage."""


class EnvelopePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of envelopes: containers by node, name and id; services by name."""

    envelopes: list[EnvelopeEntry]
    """The envelopes of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""


class EnvelopesQuery(PageQuery, frozen=True, kw_only=True):
    """Filters for envelopes."""

    of: Annotated[
        Literal["container", "service"], Meta(description="Envelopes of containers, or of services.")
    ] = "container"
    node: Annotated[str | None, Meta(description="Only containers on the node with this name.")] = None
    service: Annotated[str | None, Meta(description="Only this service, or its containers.")] = None


BY_NAME: Pager[ServiceProfile, tuple[str]] = Pager(lambda service: (service.name,), tuple[str])


async def envelopes(core: Core, query: EnvelopesQuery) -> EnvelopePage:
    """List envelopes of containers or services: percentiles, mean and maximum of usage, and the need."""
    if query.of == "container":
        return _container_envelopes(core, query)
    if query.node is not None:
        detail = "node: a service has one envelope for all nodes; use of=container to filter by node"
        raise ApiError(HTTPStatus.BAD_REQUEST, detail, "node")
    return _service_envelopes(core, query)


def _container_envelopes(core: Core, query: EnvelopesQuery) -> EnvelopePage:
    running = find_containers(core, query, ContainerFilter(node=query.node, service=query.service))
    found, after = BY_NODE.page(running, query)
    entries = [
        EnvelopeEntry(
            node=node.name,
            container=each.id,
            name=each.name,
            service=each.service,
            observed_seconds=None,
            samples=0 if (ring := node.usage.get(each.id)) is None else ring.samples,
            envelope=describe_envelope(NOT_MEASURED if ring is None else ring.statistics),
        )
        for node, each in found
    ]
    return EnvelopePage(envelopes=entries, next=after)


def _service_envelopes(core: Core, query: EnvelopesQuery) -> EnvelopePage:
    services = core.analysis.latest.services
    matching = (services[name] for name in sorted(services) if query.service in (None, name))
    found, after = BY_NAME.page(matching, query)
    entries = [
        EnvelopeEntry(
            node=None,
            container=None,
            name=each.name,
            service=each.name,
            observed_seconds=each.observed_seconds,
            samples=None,
            envelope=describe_envelope(each.statistics),
        )
        for each in found
    ]
    return EnvelopePage(envelopes=entries, next=after)


def describe_envelope(statistics: Floats) -> Envelope:
    """Convert statistics, a row per resource and a column per `Statistic`, for the API."""

    def of(statistic: Statistic) -> Quantities:
        return to_quantities(statistics[:, statistic])

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
    """Total, used, reserved and free capacity of a node."""

    node: str
    capacity: Quantities
    used: Quantities
    allocated: Quantities
    """Sum of the reservations of its containers."""
    envelope: Quantities
    """Sum of the envelopes of its containers."""
    free: Quantities
    """Capacity minus `envelope`, at least 0."""
    score: float
    """Free capacity over all resources: 0 is full, 2 is empty."""


class AvailabilityPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of nodes with their free capacity, by name."""

    analyzed_at: float
    """Unix time of these figures."""
    nodes: list[NodeAvailability]
    """The nodes of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""


class AvailabilityQuery(PageQuery, frozen=True, kw_only=True):
    """Filters for availability."""

    node: Annotated[str | None, Meta(description="Only the node with this name.")] = None


_BY_NODE_NAME: Pager[NodeAvailability, tuple[str]] = Pager(lambda each: (each.node,), tuple[str])


async def availability(core: Core, query: AvailabilityQuery) -> AvailabilityPage:
    """List the free capacity of each node: by usage, by reservations and by envelopes."""
    snapshot, after = await core.snapshot(), _BY_NODE_NAME.after(query)
    nodes = snapshot.nodes
    first = 0 if after is None else bisect_right(nodes.names, after[0])
    free = np.clip(nodes.capacity - nodes.envelope_sum, 0.0, None)
    score = free_score(share(free, nodes.capacity))
    matching = (
        NodeAvailability(
            node=nodes.names[row],
            capacity=to_quantities(nodes.capacity[row]),
            used=to_quantities(nodes.used[row]),
            allocated=to_quantities(nodes.allocated[row]),
            envelope=to_quantities(nodes.envelope_sum[row]),
            free=to_quantities(free[row]),
            score=float(score[row]),
        )
        for row in range(first, len(nodes.names))
        if query.node in (None, nodes.names[row])
    )
    found, following = _BY_NODE_NAME.page(matching, query)
    return AvailabilityPage(analyzed_at=snapshot.at, nodes=found, next=following)


class ContainerGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The groups of containers."""

    analyzed_at: float
    """Unix time of the analysis that these figures come from; 0 before the first one."""
    groups: tuple[Group, ...]
    """All groups."""


async def groups(core: Core) -> ContainerGroups:
    """List groups of containers with similar needs, each named after its dominant resource."""
    latest = core.analysis.latest
    return ContainerGroups(analyzed_at=latest.at, groups=latest.groups)


ROUTES: tuple[Route, ...] = (
    get("/v1/groups", groups),
    get("/v1/envelopes", envelopes),
    get("/v1/availability", availability),
)
