"""Services, and the error for an unknown one."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from math import isfinite
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collector.analysis.envelopes import Statistic
from collector.analysis.services import ObservedService, ServiceProfile
from collector.common.errors import ApiError
from collector.runtime.parts import Core
from collector.serve.api.containers import Envelope, describe_envelope
from collector.serve.api.queries import Pager, SortValue, TableQuery, sort_page
from collector.serve.web.routes import Route, get, problem
from wire.resources import RESOURCES, Resource

_SERVICES_AT_ONCE = 1000
_NO_SERVICE = problem(HTTPStatus.NOT_FOUND, "No service has this name.")


class Service(ObservedService, frozen=True, kw_only=True):
    """A service; the envelope is for one container."""

    watts: float | None
    """Power of its containers; null if no node reports it."""
    power_weight: float
    """Power of its CPU time relative to the average of its nodes: learned by agents with a meter, else 1."""
    envelope: Envelope


class ServicePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of services, by name or in the requested order."""

    analyzed_at: float
    """Unix time of the last analysis; 0 before the first one."""
    services: list[Service]
    """The services of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""
    matching: int
    """Number of services on all pages."""


class ServicesQuery(TableQuery, frozen=True, kw_only=True):
    """Filters for services."""

    name: str | None = None
    """Only the service with this name; 404 if there is none."""
    running: bool | None = None
    """Only services with running containers, or only those without."""
    profiled: Annotated[bool | None, Meta(description="Only profiled services, or only the others.")] = None
    dominant: Resource | None = None
    """Only services with this dominant resource."""

    order: Literal["name", "containers", "nodes", "cpu", "memory", "disk", "network", "watts"] = "name"
    """By name, number of containers or nodes, need of a resource, or power; all orders except by name can
    change between two pages."""

    def matches(self, service: ServiceProfile) -> bool:
        dominant = service.dominant
        return (
            self.name in (None, service.name)
            and (not self.search or self.search.casefold() in f"{service.name}\n{service.image}".casefold())
            and self.running in (None, service.containers > 0)
            and self.profiled in (None, service.profiled)
            and (self.dominant is None or (dominant is not None and dominant.resource is self.dominant))
        )


def _need(resource: Resource) -> Callable[[ServiceProfile], SortValue | None]:
    place = RESOURCES.index(resource)

    def value(service: ServiceProfile) -> float | None:
        need = float(service.statistics[place, Statistic.ENVELOPE])
        return need if isfinite(need) else None

    return value


_BY_NAME: Pager[ServiceProfile, tuple[str]] = Pager(lambda service: (service.name,), tuple[str])
_ORDERS: Mapping[str, Callable[[ServiceProfile], SortValue | None]] = {
    "name": lambda service: service.name.casefold(),
    "containers": lambda service: service.containers,
    "nodes": lambda service: service.nodes,
    **{each.value: _need(each) for each in RESOURCES},
}


async def services(core: Core, query: ServicesQuery) -> ServicePage:
    """List services with the resources that one container of each needs.

    Profiled services that do not run are included. `search` looks at their name and image.
    """
    latest = core.analysis.latest
    names, matching = sorted(latest.services), []
    for start in range(0, len(names), _SERVICES_AT_ONCE):
        some = [latest.services[name] for name in names[start : start + _SERVICES_AT_ONCE]]
        matching += [each for each in some if query.matches(each)]
        await asyncio.sleep(0)
    if query.name is not None and not matching:
        raise no_such_service(query.name)
    if query.order == "name" and not query.reverse:
        found, after = _BY_NAME.page(matching[query.offset :], query)
    elif query.order == "watts":
        watts = await asyncio.to_thread(core.registry.tables.service_watts, core.clock())
        found, after = sort_page(matching, lambda each: watts.get(each.name), query)
    else:
        found, after = sort_page(matching, _ORDERS[query.order], query)
    await asyncio.sleep(0)
    powers = _powers(core, {each.name for each in found})
    await asyncio.sleep(0)
    described = [_describe_service(each, powers.get(each.name)) for each in found]
    return ServicePage(analyzed_at=latest.at, services=described, next=after, matching=len(matching))


@dataclass(slots=True)
class _Power:
    """Power of the containers of a service that report it."""

    watts: float = 0.0
    cores: float = 0.0
    weighted_cores: float = 0.0

    @property
    def power_weight(self) -> float:
        return self.weighted_cores / self.cores if self.cores > 0 else 1.0


def _powers(core: Core, names: Collection[str]) -> dict[str, _Power]:
    """Power of these services on nodes that are not down."""
    found: defaultdict[str, _Power] = defaultdict(_Power)
    for container in core.registry.tables.running_of(names, core.clock()):
        if container.power is not None:
            power, cores = found[container.service or ""], container.used.cpu_cores or 0.0
            power.watts += container.power.watts
            power.cores += cores
            power.weighted_cores += container.power.power_weight * cores
    return found


def _describe_service(service: ServiceProfile, power: _Power | None) -> Service:
    return Service(
        name=service.name,
        image=service.image,
        containers=service.containers,
        nodes=service.nodes,
        watts=None if power is None else power.watts,
        power_weight=1.0 if power is None else power.power_weight,
        profiled=service.profiled,
        observed_seconds=service.observed_seconds,
        last_seen_at=service.last_seen_at,
        dominant=service.dominant,
        envelope=describe_envelope(service.statistics),
    )


def no_such_service(name: str) -> ApiError:
    """The error for an unknown service."""
    detail = (
        f"no service is named {name!r}: 'wattpack services' (GET /v1/services) lists all services; a new one"
        " appears within a minute"
    )
    return ApiError(HTTPStatus.NOT_FOUND, detail, "name")


ROUTES: tuple[Route, ...] = (get("/v1/services", services, problems=_NO_SERVICE),)
