"""Promises of availability: the target and the state of each service with a promise."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from math import isfinite
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from collector.features.promises.ledger.promises import ServiceMode, gini, is_broken
from collector.features.promises.ledger.standing import MODES, ServiceStandings, Standings
from collector.features.promises.live import PromiseTracker
from collector.runtime.parts import Core
from collector.serve.api.queries import PageQuery, Pager
from collector.serve.web.routes import Route, get


class PromiseState(StrEnum):
    """State of a promise."""

    KEPT = "kept"
    AT_RISK = "at risk"
    """An instance waits; unless it starts, the promise breaks."""
    BROKEN = "broken"


class ServicePromise(msgspec.Struct, frozen=True, kw_only=True):
    """The promise of one service."""

    service: str
    slo_class: str
    """Name of its class under `[slo]`."""
    mode: ServiceMode
    """`independent`: the lowest of its instances counts; `concurrent`: time counts while all instances run;
    `aggregated`: the sum over all instances; `batch`: as aggregated, without the work of runs that did not
    complete."""
    state: PromiseState
    """Whether the promise is kept, at risk or broken."""
    target_ratio: float
    """Promised availability, 0-1."""
    availability_ratio: float
    """Delivered availability, 0-1: the share of its time in which it ran."""
    time_to_violation_seconds: float | None
    """How long its most urgent instance can wait from now on before the promise breaks, less the expected
    start-up time; negative if the promise is broken, or breaks during the start. Null if waiting never breaks
    it."""
    breaks_in_seconds: float | None
    """How long the promise holds if nothing starts or stops; 0 if it is broken, null if it holds."""
    deficit_seconds: float
    """The time by which a broken promise is behind; 0 if it is kept."""
    penalty_seconds: float
    """Shortfall in seconds of one instance, with a surcharge: a deep shortfall counts up to twice."""
    instances: int
    """Number of instances that run or wait."""
    running_instances: int
    """Number of instances that run now."""
    preemptions: int
    """Number of times that its instances were stopped to make room for others."""
    preemption_overhead_ratio: float
    """Highest share of its time that any instance spent on starts that were preempted, 0-1."""
    startup_seconds: float


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
    ordered = sorted(service_promises(standings), key=_urgency)
    found, after = _most_urgent_first.page(filter(query.matches, ordered), query)
    return PromisePage(at=standings.at, classes=class_promises(standings, ordered), slo=found, next=after)


def service_promises(standings: Standings) -> list[ServicePromise]:
    """The promises of services with instances that run or wait."""
    return [
        _service_promise(standings, row) for row in np.flatnonzero(standings.services.live_instances).tolist()
    ]


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


def _service_promise(standings: Standings, row: int) -> ServicePromise:
    services = standings.services
    return ServicePromise(
        service=services.names[row],
        slo_class=standings.promises[services.promise[row]].name,
        mode=MODES[services.mode[row]],
        state=_state(services, row),
        target_ratio=float(services.target[row]),
        availability_ratio=float(services.availability[row]),
        time_to_violation_seconds=_finite(services.slack_seconds[row]),
        breaks_in_seconds=_finite(services.breaks_in_seconds[row]),
        deficit_seconds=float(services.deficit_seconds[row]),
        penalty_seconds=float(services.penalty[row]),
        instances=int(services.live_instances[row]),
        running_instances=int(services.running_instances[row]),
        preemptions=int(services.preemptions[row]),
        preemption_overhead_ratio=float(services.preemption_ratio[row]),
        startup_seconds=float(services.startup_seconds[row]),
    )


def _state(services: ServiceStandings, row: int) -> PromiseState:
    if is_broken(services.target[row], services.availability[row]):
        return PromiseState.BROKEN
    waits = services.running_instances[row] < services.live_instances[row]
    return PromiseState.AT_RISK if waits and isfinite(services.breaks_in_seconds[row]) else PromiseState.KEPT


def _finite(seconds: float) -> float | None:
    return float(seconds) if isfinite(seconds) else None


ROUTES: tuple[Route, ...] = (get("/v1/slo", promises),)
