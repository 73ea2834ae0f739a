"""The recommended size of each service, and its effect on reserved capacity, power and cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec
import numpy as np

from collector.features.sizing.allocation import Tuning
from collector.features.sizing.daily import ServiceDays
from collector.features.sizing.sizes import CPU, MEMORY, ResourceSizes, SizeRules, size_services
from collector.features.sizing.usage_table import UsageTable

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


@dataclass(frozen=True, eq=False, slots=True)
class Sizing:
    """The recommendations of one moment."""

    at: float = 0.0
    """0 before the first computation."""
    services: Mapping[str, ServiceSize] = field(default_factory=lambda: MappingProxyType({}))
    tunings: tuple[Tuning, Tuning] | None = None
    """The tunings of CPU and memory."""
    learned_on: int = -1
    """The number of the day on which the tunings were learned."""


def recommend(
    days: Mapping[str, ServiceDays],
    present: Mapping[str, CurrentSize],
    cluster: CapacityValue,
    rules: SizeRules,
    tunings: tuple[Tuning, Tuning] | None = None,
) -> tuple[Mapping[str, ServiceSize], tuple[Tuning, Tuning]]:
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
        found[name] = ServiceSize(
            service=name,
            containers=each.containers,
            observed_days=observed,
            confidence=observed / (observed + 1),
            cpu=cpu,
            memory=memory,
            out_of_memory=bool(days[name].out_of_memory),
            change=_reserve_change(cpu, memory, each.containers, cluster),
        )
    return MappingProxyType(found), (sized[CPU].tuning, sized[MEMORY].tuning)


def _recommendation(sizes: ResourceSizes, row: int, present: float | None) -> SizedResource | None:
    if np.isnan(sizes.request[row]):
        return None
    return SizedResource(
        request=float(sizes.request[row]),
        limit=float(sizes.limit[row]),
        present=present,
        used=float(sizes.used[row]),
        peak=float(sizes.peak[row]),
        above_ratio=float(sizes.above[row]),
        vpa=float(sizes.vpa[row]),
    )


def _reserve_change(
    cpu: SizedResource | None,
    memory: SizedResource | None,
    containers: int,
    cluster: CapacityValue,
) -> SizeChange:
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
    return SizeChange(
        cpu_cores=cores,
        memory_bytes=memory_bytes,
        nodes=nodes,
        watts=None if nodes is None or idle is None else nodes * idle,
        cost_per_month=hourly * _HOURS_PER_MONTH if has_price else None,
    )
