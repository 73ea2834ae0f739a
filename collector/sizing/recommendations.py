"""The recommended size of each service, and its effect on reserved capacity, power and cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from collector.sizing.allocation import Tuning
from collector.sizing.daily import ServiceDays
from collector.sizing.sizes import CPU, MEMORY, ResourceSizes, SizeRules, size_services
from collector.sizing.usage_table import UsageTable

_HOURS_PER_MONTH = 730.0
_GIBIBYTE = float(1 << 30)


@dataclass(frozen=True, slots=True)
class CurrentSize:
    """The current size of each container of a service; None if unknown."""

    containers: int = 0
    cpu_request: float | None = None
    memory_request: float | None = None
    cpu_limit: float | None = None
    memory_limit: float | None = None


@dataclass(frozen=True, slots=True)
class CapacityValue:
    """The value of reserved capacity in this cluster."""

    cpu_cores_per_node: float = 0.0
    memory_bytes_per_node: float = 0.0
    cpu_is_scarcer: bool = True
    """Whether a larger share of CPU than of memory is reserved."""
    idle_watts_per_node: float | None = None
    cost_per_core_hour: float = 0.0
    cost_per_gibibyte_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class ResourceRecommendation:
    """The recommended size of one resource of a container."""

    request: float
    limit: float
    present: float | None
    """The current request."""
    used: float
    """Mean usage."""
    peak: float
    above_ratio: float
    """Expected share of the time in which usage is above the request."""
    vpa: float
    """The request of VPA."""


@dataclass(frozen=True, slots=True)
class ReserveChange:
    """The effect of the recommended sizes for all containers of a service; None if unknown."""

    cpu_cores: float | None
    memory_bytes: float | None
    nodes: float | None
    """Reserved capacity of the scarcer resource, in nodes of average size."""
    watts: float | None
    """The idle power of this many nodes."""
    cost_per_month: float | None


@dataclass(frozen=True, slots=True)
class ServiceRecommendation:
    """The recommended size of a container of a service; None for a resource that was not measured."""

    name: str
    containers: int
    observed_days: float
    confidence: float
    """0-1: a day gives a half, a week seven eighths."""
    cpu: ResourceRecommendation | None
    memory: ResourceRecommendation | None
    out_of_memory: bool
    """Whether the kernel killed a container of the service because of memory on one of these days."""
    change: ReserveChange


@dataclass(frozen=True, eq=False, slots=True)
class Sizing:
    """The recommendations of one moment."""

    at: float = 0.0
    """0 before the first computation."""
    services: Mapping[str, ServiceRecommendation] = field(default_factory=lambda: MappingProxyType({}))
    tunings: tuple[Tuning, Tuning] | None = None
    """The tunings of CPU and memory."""
    learned_on: int = -1
    """The number of the day on which the tunings were learned."""


@dataclass(slots=True)
class LatestSizing:
    """The latest recommendations, which are replaced as a whole."""

    latest: Sizing = field(default_factory=Sizing)


def recommend(
    days: Mapping[str, ServiceDays],
    present: Mapping[str, CurrentSize],
    cluster: CapacityValue,
    rules: SizeRules,
    tunings: tuple[Tuning, Tuning] | None = None,
) -> tuple[Mapping[str, ServiceRecommendation], tuple[Tuning, Tuning]]:
    """The recommendations for all services, and their tunings, which are learned if not given."""
    table = UsageTable.of({name: of.totals() for name, of in days.items()})
    now = [present.get(name, CurrentSize()) for name in table.names]
    limits = np.array([(each.cpu_limit, each.memory_limit) for each in now], dtype=np.float64).reshape(-1, 2)
    killed = np.array(
        [max(days[name].out_of_memory.values(), default=np.nan) for name in table.names], dtype=np.float64
    )
    sized = size_services(table, limits, killed, rules, tunings or (None, None))
    found = {}
    for row, (name, each) in enumerate(zip(table.names, now, strict=True)):
        observed = float(table.observed_days[row])
        cpu = _recommendation(sized[CPU], row, each.cpu_request)
        memory = _recommendation(sized[MEMORY], row, each.memory_request)
        found[name] = ServiceRecommendation(
            name=name,
            containers=each.containers,
            observed_days=observed,
            confidence=observed / (observed + 1),
            cpu=cpu,
            memory=memory,
            out_of_memory=bool(days[name].out_of_memory),
            change=_reserve_change(cpu, memory, each.containers, cluster),
        )
    return MappingProxyType(found), (sized[CPU].tuning, sized[MEMORY].tuning)


def _recommendation(sizes: ResourceSizes, row: int, present: float | None) -> ResourceRecommendation | None:
    if np.isnan(sizes.request[row]):
        return None
    return ResourceRecommendation(
        request=float(sizes.request[row]),
        limit=float(sizes.limit[row]),
        present=present,
        used=float(sizes.used[row]),
        peak=float(sizes.peak[row]),
        above_ratio=float(sizes.above[row]),
        vpa=float(sizes.vpa[row]),
    )


def _reserve_change(
    cpu: ResourceRecommendation | None,
    memory: ResourceRecommendation | None,
    containers: int,
    cluster: CapacityValue,
) -> ReserveChange:
    cores, memory_bytes = (
        None if each is None or each.present is None else containers * (each.request - each.present)
        for each in (cpu, memory)
    )
    scarce, per_node = (
        (cores, cluster.cpu_cores_per_node)
        if cluster.cpu_is_scarcer
        else (memory_bytes, cluster.memory_bytes_per_node)
    )
    nodes = None if scarce is None or per_node <= 0 else scarce / per_node
    idle = cluster.idle_watts_per_node
    prices = (cluster.cost_per_core_hour, cluster.cost_per_gibibyte_hour / _GIBIBYTE)
    has_price = any(prices) and any(each is not None for each in (cores, memory_bytes))
    hourly = sum((each or 0.0) * price for each, price in zip((cores, memory_bytes), prices, strict=True))
    return ReserveChange(
        cpu_cores=cores,
        memory_bytes=memory_bytes,
        nodes=nodes,
        watts=None if nodes is None or idle is None else nodes * idle,
        cost_per_month=hourly * _HOURS_PER_MONTH if has_price else None,
    )
