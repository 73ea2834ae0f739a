"""Recommended sizes: the list, and one service."""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.api.queries import PageQuery, Pager
from collector.common.errors import ApiError
from collector.core.parts import Core
from collector.features.sizing.jobs import SizingJob
from collector.features.sizing.recommendations import ServiceSize
from collector.features.sizing.settings import SizingConfig
from collector.web.routes import Route, get, problem


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


_by_name: Pager[ServiceSize, tuple[str]] = Pager(lambda size: (size.service,), tuple[str])


async def sizes(core: Core, query: PageQuery) -> SizePage:
    """List recommended requests and limits of services, from their usage in the last days."""
    latest = core.part(SizingJob).latest
    found, after = _by_name.page((latest.services[name] for name in sorted(latest.services)), query)
    return SizePage(computed_at=latest.at, sizes=found, next=after)


async def service_size(core: Core, query: SizeQuery) -> ServiceSize:
    """Get the recommended requests and limits of one service."""
    found = core.part(SizingJob).latest.services.get(query.name)
    if found is None:
        seconds = core.config.section(SizingConfig).interval_seconds
        detail = (
            f"service {query.name!r} has no size yet: 'wattpack size' (GET /v1/sizes) lists those that have"
            f" one; a new service gets one within {seconds:g} s after the next heartbeat of its node"
        )
        raise ApiError(HTTPStatus.NOT_FOUND, detail, "name")
    return found


_NO_SIZE = problem(HTTPStatus.NOT_FOUND, "No service with this name has a size.")
ROUTES: tuple[Route, ...] = (
    get("/v1/sizes", sizes),
    get(
        "/v1/services/{name}/size",
        service_size,
        problems=_NO_SIZE,
    ),
)
