"""Recommended sizes: the list, and one service."""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.api.queries import PageQuery, Pager
from collector.common.errors import ApiError
from collector.core.parts import Core
from collector.sizing import recommendations
from collector.web.routes import Route, get, problem


class SizedResource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of one container: CPU in cores, memory in bytes."""

    request: float
    """Recommended request."""
    limit: float
    """Recommended limit: the peak, plus as much as the peaks of other services rose within a few days."""
    present: float | None
    """The current request of a container; null if unknown."""
    used: float
    """Mean usage."""
    peak: float
    """Highest usage in the observed time."""
    above_ratio: float
    """Share of time in which usage is expected to exceed the request, 0-1."""
    vpa: float
    """The request that Kubernetes' Vertical Pod Autoscaler would recommend."""


class SizeChange(msgspec.Struct, frozen=True, kw_only=True):
    """Effect of the recommended requests on all containers together; negative is saved, null is unknown."""

    cpu_cores: float | None
    """Requested CPU, in cores."""
    memory_bytes: float | None
    """Requested memory, in bytes."""
    nodes: float | None
    """Number of average nodes that the reservations need, by their scarcest resource."""
    watts: float | None
    """The idle power of `nodes`. It is saved if nodes are switched off."""
    cost_per_month: float | None
    """Cost per month, by the prices in `[sizing]`."""


class ServiceSize(msgspec.Struct, frozen=True, kw_only=True):
    """The recommended size of one container of a service."""

    service: str
    containers: int
    """Number of running containers."""
    observed_days: float
    """Days for which the service was observed, within the days that are kept."""
    confidence: float
    """0-1: 0.5 after a day, 0.875 after a week."""
    cpu: SizedResource | None
    """Null if CPU usage was not measured."""
    memory: SizedResource | None
    """Null if memory usage was not measured."""
    out_of_memory: bool
    """Whether a container was killed because memory ran out; the recommendation is then higher."""
    change: SizeChange
    """Effect of the recommended requests."""


class SizePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sizes, by service."""

    computed_at: float
    """Unix time of the last computation; 0 before the first one."""
    sizes: list[ServiceSize]
    """The sizes of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""


class SizeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters for the size of one service."""

    name: Annotated[str, Meta(description="Name of the service.")]


_by_name: Pager[recommendations.ServiceRecommendation, tuple[str]] = Pager(
    lambda size: (size.name,), tuple[str]
)


async def sizes(core: Core, query: PageQuery) -> SizePage:
    """List sizes."""
    latest = core.sizing.latest
    found, after = _by_name.page((latest.services[name] for name in sorted(latest.services)), query)
    return SizePage(computed_at=latest.at, sizes=[_describe_size(each) for each in found], next=after)


async def service_size(core: Core, query: SizeQuery) -> ServiceSize:
    """Get the size of one service."""
    found = core.sizing.latest.services.get(query.name)
    if found is None:
        seconds = core.config.sizing.interval_seconds
        detail = (
            f"service {query.name!r} has no size yet: 'wattpack size' (GET /v1/sizes) lists those that have"
            f" one; a new service gets one within {seconds:g} s after the next heartbeat of its node"
        )
        raise ApiError(HTTPStatus.NOT_FOUND, detail, "name")
    return _describe_size(found)


def _describe_size(size: recommendations.ServiceRecommendation) -> ServiceSize:
    change = size.change
    return ServiceSize(
        service=size.name,
        containers=size.containers,
        observed_days=size.observed_days,
        confidence=size.confidence,
        cpu=_describe_resource(size.cpu),
        memory=_describe_resource(size.memory),
        out_of_memory=size.out_of_memory,
        change=SizeChange(
            cpu_cores=change.cpu_cores,
            memory_bytes=change.memory_bytes,
            nodes=change.nodes,
            watts=change.watts,
            cost_per_month=change.cost_per_month,
        ),
    )


def _describe_resource(size: recommendations.ResourceRecommendation | None) -> SizedResource | None:
    if size is None:
        return None
    return SizedResource(
        request=size.request,
        limit=size.limit,
        present=size.present,
        used=size.used,
        peak=size.peak,
        above_ratio=size.above_ratio,
        vpa=size.vpa,
    )


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/sizes",
        "List recommended requests and limits of services, from their usage in the last days.",
        SizePage,
        sizes,
        query=PageQuery,
    ),
    get(
        "/v1/services/{name}/size",
        "Get the recommended requests and limits of one service.",
        ServiceSize,
        service_size,
        query=SizeQuery,
        problems=problem(HTTPStatus.NOT_FOUND, "No service with this name has a size."),
    ),
)
