"""Recommended sizes of services."""

from http import HTTPStatus

import msgspec

from collector.common.errors import ApiError
from collector.features.sizing.jobs import SizingJob
from collector.features.sizing.recommendations import ServiceSize
from collector.features.sizing.settings import SizingConfig
from collector.runtime.parts import Core
from collector.serve.api.queries import PageQuery, Pager
from collector.serve.web.routes import Route, get, problem


class SizePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sizes, by service."""

    computed_at: float
    """Unix time of the last computation; 0 before the first one."""
    sizes: list[ServiceSize]
    """The sizes of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""


class SizesQuery(PageQuery, frozen=True, kw_only=True):
    """Filters for sizes."""

    service: str | None = None
    """Only the service with this name; 404 without a size."""


_by_name: Pager[ServiceSize, tuple[str]] = Pager(lambda size: (size.service,), tuple[str])


async def sizes(core: Core, query: SizesQuery) -> SizePage:
    """List recommended requests and limits of services, from their usage in the last days."""
    latest = core.part(SizingJob).latest
    names = [name for name in sorted(latest.services) if query.service in (None, name)]
    if query.service is not None and not names:
        seconds = core.config.section(SizingConfig).interval_seconds
        detail = (
            f"service {query.service!r} has no size yet: 'wattpack size' (GET /v1/sizes) lists those with"
            f" one; a new service gets one within {seconds:g} s after the next heartbeat of its node"
        )
        raise ApiError(HTTPStatus.NOT_FOUND, detail, "service")
    found, after = _by_name.page((latest.services[name] for name in names), query)
    return SizePage(computed_at=latest.at, sizes=found, next=after)


_NO_SIZE = problem(HTTPStatus.NOT_FOUND, "No service with this name has a size.")
ROUTES: tuple[Route, ...] = (get("/v1/sizes", sizes, problems=_NO_SIZE),)
