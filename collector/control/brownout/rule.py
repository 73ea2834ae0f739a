"""The rules of brownout: which optional service stops next, and which starts again. Pure.

A service stops for a short node if at least half of its running containers are on nodes that are short: the
lightest first. For the power budget, any of them does. It starts again, the heaviest first, when none of its
nodes has been short and the budget has been kept for a while, and what it used fits in again with room to
spare. The while doubles with every stop of the service within the last hour, so that it does not flap.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import msgspec

from collector.config.brownout import BrownoutConfig
from wire.resources import Quantities, Resource

RESERVED = (Resource.CPU, Resource.MEMORY)
"""Resources that have to suffice for a service to start again. The capacity of disks and links is the highest
throughput seen, which says little about what is left."""
BUDGET = ""
"""Stands for the power budget among the names of nodes that are short."""
RECENT_SECONDS = 3600.0
_MOST_DOUBLINGS = 7
"""After as many stops within an hour, a service waits for most of an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalService:
    """An optional service that runs."""

    name: str
    weight: float
    replicas: int
    nodes: tuple[str, ...]
    """The node of each running container."""
    containers: tuple[str, ...]
    is_standalone: bool = False
    """Whether no orchestrator manages it: it is a single container."""

    @property
    def key(self) -> str:
        """What identifies it: names of single containers are unique on a host only."""
        return self.containers[0] if self.is_standalone else self.name


class StoppedService(msgspec.Struct, frozen=True, kw_only=True):
    """An optional service that was stopped, as it is stored."""

    name: str
    weight: float
    replicas: int
    """How many it had."""
    since: float
    why: str
    used: dict[str, Quantities] = {}
    """What it used on each of its nodes."""
    watts: float = 0.0
    """Power that it used."""
    container: str | None = None
    """Its only container, if no orchestrator manages it."""
    stops: int = 1
    """How often it was stopped within an hour, this time included."""

    def __post_init__(self) -> None:
        if self.container is not None and len(self.used) != 1:
            raise ValueError("a single container runs on one node")
        if not isfinite(self.weight + self.watts + self.since):
            raise ValueError("a number of a stopped service is none")

    @property
    def key(self) -> str:
        """As of `OptionalService`."""
        return self.container or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortages:
    """What is short, and since when it is or is not."""

    now: float
    short: Mapping[str, str]
    """Why, by node; `BUDGET` for the cluster."""
    acted_at: Mapping[str, float]
    """When a service was last stopped or started, by node or `BUDGET`."""
    short_until: Mapping[str, float]
    """When each of them was last short."""
    began_at: float
    """Since when shortages are observed: a restarted collector does not know those before."""


def choose_to_stop(
    optional: Iterable[OptionalService], shortages: Shortages, settings: BrownoutConfig
) -> tuple[OptionalService, tuple[str, ...]] | None:
    """Return the service that stops next, and what is short; None if none has to, or can."""
    urgent = {
        place
        for place in shortages.short
        if shortages.now - shortages.acted_at.get(place, -settings.step_seconds) >= settings.step_seconds
    }
    # An effect that does not show yet holds back all that it could affect.
    waiting = shortages.short.keys() - urgent
    for service in sorted(optional, key=lambda each: (each.weight, each.name)):
        there = {node for node in service.nodes if node in shortages.short}
        concerned = sum(node in shortages.short for node in service.nodes)
        places = there if there and 2 * concerned >= len(service.nodes) else set()
        if BUDGET in shortages.short:
            places = {*places, BUDGET}
        if places and not places & waiting:
            return service, tuple(sorted(places))
    return None


def calm_seconds(stops: int, settings: BrownoutConfig) -> float:
    """How long nothing may have been short before a service starts that was stopped so often recently."""
    return settings.calm_seconds * 2.0 ** min(max(stops - 1, 0), _MOST_DOUBLINGS)


def reason_to_wait(
    service: StoppedService,
    shortages: Shortages,
    settings: BrownoutConfig,
    *,
    free: Mapping[str, Quantities],
    free_watts: float | None,
) -> str | None:
    """Return why a stopped service does not start yet; None if it does.

    `free` is what each node has left below `fill_ratio`, `free_watts` the same of the power budget, if any.
    """
    places = [*service.used, BUDGET]
    for place in places:
        if place in shortages.short:
            return shortages.short[place]
        if shortages.now - shortages.acted_at.get(place, shortages.began_at) < settings.step_seconds:
            return "another service was just stopped or started there"
    calm = calm_seconds(service.stops, settings)
    last = max(shortages.short_until.get(place, shortages.began_at) for place in places)
    if shortages.now - last < calm:
        return f"nothing is short for {shortages.now - last:.0f} of {calm:.0f} s"
    for node, used in service.used.items():
        for resource in RESERVED:
            need, left = used.of(resource), None if node not in free else free[node].of(resource)
            if need and left is not None and need > left:
                return f"{node} has too little {resource} left for what it used"
    if free_watts is not None and service.watts > free_watts:
        return f"the power budget leaves {max(free_watts, 0.0):.1f} W, and it used {service.watts:.1f} W"
    return None


def by_return(stopped: Iterable[StoppedService]) -> Sequence[StoppedService]:
    """Return stopped services in the order in which they start again: the heaviest, then the last, first."""
    return sorted(stopped, key=lambda each: (-each.weight, -each.since, each.name))
