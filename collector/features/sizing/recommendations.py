"""The recommended size of each service, and its effect on reserved capacity and power."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan, nan

import msgspec
import numpy as np

from collector.features.sizing.allocation import Tuning
from collector.features.sizing.daily import ServiceDays
from collector.features.sizing.sizes import CPU, MEMORY, PLACES, ResourceSizes, SizeRules, size_services
from collector.features.sizing.usage_table import UsageTable


@dataclass(frozen=True, slots=True)
class CurrentSize:
    """The current size of each container of a service, of CPU and memory; NaN if unknown."""

    containers: int = 0
    requests: tuple[float, float] = (nan, nan)
    limits: tuple[float, float] = (nan, nan)


@dataclass(frozen=True, slots=True)
class AverageNode:
    """What an average node of the cluster has of the scarcer resource, of which more is reserved."""

    scarce: int = CPU
    """The place of the scarcer resource: CPU or memory."""
    capacity: float = 0.0
    idle_watts: float | None = None


class SizedResource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of one container: CPU in cores, memory in bytes."""

    request: float
    """Recommended request."""
    limit: float
    """Recommended limit: the peak, plus as much as the peaks of other services rose within a few days."""
    present: float | None
    """The current request of a container; null if unknown."""
    change: float | None
    """Effect of the recommended request on all containers together; negative is saved, null is unknown."""
    used: float
    """Mean usage."""
    peak: float
    """Highest usage in the observed time."""
    above_ratio: float
    """Share of time in which usage is expected to exceed the request, 0-1."""
    vpa: float
    """The request that Kubernetes' Vertical Pod Autoscaler would recommend."""


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
    nodes_change: float | None
    """Change of the number of average nodes that its reservations need, by the scarcest resource of the
    cluster; null if unknown."""
    watts_change: float | None
    """The idle power of these nodes. It is saved if nodes are switched off."""


@dataclass(frozen=True, eq=False, slots=True)
class Sizing:
    """The recommendations of one moment."""

    at: float = 0.0
    """0 before the first computation."""
    services: Mapping[str, ServiceSize] = field(default_factory=dict)
    tunings: tuple[Tuning, Tuning] | None = None
    """The tunings of CPU and memory."""
    learned_on: int = -1
    """The number of the day on which the tunings were learned."""


def recommend(
    days: Mapping[str, ServiceDays],
    present: Mapping[str, CurrentSize],
    node: AverageNode,
    rules: SizeRules,
    tunings: tuple[Tuning, Tuning] | None = None,
) -> tuple[dict[str, ServiceSize], tuple[Tuning, Tuning]]:
    """The recommendations for all services, and their tunings, which are learned if not given."""
    table = UsageTable.of({name: of.totals() for name, of in days.items()})
    now = [present.get(name, CurrentSize()) for name in table.names]
    limits = np.array([each.limits for each in now], dtype=np.float64).reshape(-1, 2)
    killed = np.array(
        [
            max(
                (most for each in days[name].out_of_memory.values() for most in each.values()), default=np.nan
            )
            for name in table.names
        ],
        dtype=np.float64,
    )
    sized = size_services(table, limits, killed, rules, tunings or (None, None))
    found = {}
    for row, (name, each) in enumerate(zip(table.names, now, strict=True)):
        observed = float(table.observed_days[row])
        of = [_recommendation(sized[place], row, each.requests[place], each.containers) for place in PLACES]
        change = None if (scarce := of[node.scarce]) is None else scarce.change
        nodes = None if change is None or node.capacity <= 0 else change / node.capacity
        found[name] = ServiceSize(
            service=name,
            containers=each.containers,
            observed_days=observed,
            confidence=observed / (observed + 1),
            cpu=of[CPU],
            memory=of[MEMORY],
            out_of_memory=bool(days[name].out_of_memory),
            nodes_change=nodes,
            watts_change=None if nodes is None or node.idle_watts is None else nodes * node.idle_watts,
        )
    return found, (sized[CPU].tuning, sized[MEMORY].tuning)


def _recommendation(sizes: ResourceSizes, row: int, present: float, containers: int) -> SizedResource | None:
    if np.isnan(sizes.request[row]):
        return None
    request = float(sizes.request[row])
    return SizedResource(
        request=request,
        limit=float(sizes.limit[row]),
        present=None if isnan(present) else present,
        change=None if isnan(present) else containers * (request - present),
        used=float(sizes.used[row]),
        peak=float(sizes.peak[row]),
        above_ratio=float(sizes.above[row]),
        vpa=float(sizes.vpa[row]),
    )
