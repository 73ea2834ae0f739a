"""Promises of availability: the target and the state of each service with a promise."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from collector.features.promises.ledger.penalties import gini
from collector.features.promises.ledger.standing import PromiseState, ServicePromise, Standings
from collector.features.promises.live import PromiseTracker
from collector.runtime.parts import Core
from collector.serve.api.queries import PageQuery, Pager
from collector.serve.web.routes import Route, get


class ClassPromises(msgspec.Struct, frozen=True, kw_only=True):
    """The promises of one class."""

    name: str
    """Name of the class under `[slo]`."""
    target_ratio: float
    """Availability that the class promises, 0-1."""
    importance: int
    """1 is the most important class."""
    services: int
    met_ratio: float | None
    """Share of its services whose promise is kept, 0-1; null without services."""
    mean_availability_ratio: float | None
    """Mean availability of its services, 0-1; null without services."""
    min_availability_ratio: float | None
    """Lowest availability of its services, 0-1; null without services."""
    gini: float | None
    """Gini coefficient of the availability of its services: 0 if all have the same; null without services."""
    penalty_seconds: float
    """Shortfall of its broken promises with their surcharge, in seconds, summed over its services."""


class PromisePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of promises, the most urgent first."""

    at: float
    classes: list[ClassPromises]
    """All classes, by importance."""
    slo: list[ServicePromise]
    """The promises of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""


class PromisesQuery(PageQuery, frozen=True, kw_only=True):
    """Filters for promises."""

    slo_class: Annotated[str | None, Meta(description="Only services of this class.")] = None
    state: Annotated[PromiseState | None, Meta(description="Only promises in this state.")] = None
    service: Annotated[str | None, Meta(description="Only the service with this name.")] = None

    def matches(self, promise: ServicePromise) -> bool:
        return (
            self.slo_class in (None, promise.slo_class)
            and self.state in (None, promise.state)
            and self.service in (None, promise.service)
        )


def _urgency(promise: ServicePromise) -> tuple[bool, float, str]:
    left = promise.time_to_violation_seconds
    return left is None, left or 0.0, promise.service


_most_urgent_first: Pager[ServicePromise, tuple[bool, float, str]] = Pager(_urgency, tuple[bool, float, str])


async def standings_now(core: Core) -> Standings:
    """How all promises stand now."""
    return await asyncio.to_thread(core.registry.part(PromiseTracker).standings, core.clock())


async def promises(core: Core, query: PromisesQuery) -> PromisePage:
    """List promises of availability and how they are kept, the most urgent first."""
    standings = await standings_now(core)
    # There may be a service for each of very many containers.
    ordered = await asyncio.to_thread(lambda: sorted(standings.live_services, key=_urgency))
    found, after = _most_urgent_first.page(filter(query.matches, ordered), query)
    return PromisePage(at=standings.at, classes=class_promises(standings, ordered), slo=found, next=after)


def class_promises(standings: Standings, services: Sequence[ServicePromise]) -> list[ClassPromises]:
    """All classes, by importance."""
    found = []
    for promise in sorted(standings.promises, key=lambda each: (each.importance, each.name)):
        members = [each for each in services if each.slo_class == promise.name]
        delivered = np.array([each.availability_ratio for each in members])
        is_kept = [each.state is not PromiseState.BROKEN for each in members]
        found.append(
            ClassPromises(
                name=promise.name,
                target_ratio=promise.availability,
                importance=promise.importance,
                services=len(members),
                met_ratio=sum(is_kept) / len(members) if members else None,
                mean_availability_ratio=float(delivered.mean()) if members else None,
                min_availability_ratio=float(delivered.min()) if members else None,
                gini=gini(delivered) if members else None,
                penalty_seconds=sum(each.penalty_seconds for each in members),
            )
        )
    return found


ROUTES: tuple[Route, ...] = (get("/v1/slo", promises),)
