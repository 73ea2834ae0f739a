"""The table of indicators that a resource of the node is a bottleneck. Pure.

High usage (CPU, memory, a busy disk, a full link) is an indicator by itself. So is memory pressure, which
only a lack of memory causes. Other pressure also has causes that are no bottleneck of the node:

- A container limited by its own CPU quota or cpuset waits for a CPU while others are idle, and the kernel
  includes that in the host's pressure.
- A container limited by its own I/O limit, one that waits for a file server, and an idle io_uring (which
  kernels from 6.1 on count as I/O wait) wait for a disk that is not busy.

These count only together with high usage of the resource, if that is known.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from agent.config import BottleneckConfig
from agent.sampling.rates import HostRates
from wire.resources import Resource, ratio

Value = Callable[[HostRates], float | None]

HYSTERESIS_RATIO = 0.1
"""Distance from the limit at which an alert closes."""
_IOWAIT_LIMIT = 0.3


class Level(IntEnum):
    """A value relative to its limit; BETWEEN neither opens nor closes an alert."""

    BELOW = 0
    BETWEEN = 1
    ABOVE = 2


@dataclass(frozen=True, slots=True)
class Indicator:
    """One value that indicates a bottleneck when it reaches its limit."""

    resource: Resource
    value: Value
    describe: Callable[[HostRates, float], str]
    """Creates the evidence text from the last sample and the mean of the value."""
    limit: Callable[[BottleneckConfig], float] = lambda settings: settings.usage_ratio
    precondition: tuple[Value, float] | None = None
    """A second value that must reach its limit too; an unknown value passes."""

    def level(self, rates: HostRates, settings: BottleneckConfig) -> Level | None:
        """The level of the value; None if the indicator is disabled or the value unknown."""
        limit, value = self.limit(settings), self.value(rates)
        if limit == 0 or value is None:
            return None
        level = _level(value, limit)
        if self.precondition is None:
            return level
        other_value, other_limit = self.precondition
        other = other_value(rates)
        return level if other is None else min(level, _level(other, other_limit))

    def excess(self, rates: HostRates, settings: BottleneckConfig) -> float:
        """The share of a known value that must go before an alert closes.

        Pressure vanishes once memory suffices: then it is the share of usage, at least the hysteresis.
        """
        values = [(self.value(rates), self.limit(settings))]
        if self.precondition is not None:
            other_value, other_limit = self.precondition
            values.append((other_value(rates), other_limit))
        excess = min(_excess(value, limit) for value, limit in values if value is not None)
        if excess and self.value is PRESSURE_RATIO[Resource.MEMORY]:
            limit = settings.usage_ratio or 1.0
            return _excess(max(limit, USAGE_RATIO[Resource.MEMORY](rates) or 0.0), limit)
        return excess

    @property
    def is_by_time(self) -> bool:
        """Whether the value is a share of time, not of capacity."""
        return self.resource is Resource.DISK or self.value is PRESSURE_RATIO[Resource.CPU]


def _level(value: float, limit: float) -> Level:
    if value >= limit:
        return Level.ABOVE
    return Level.BELOW if value < _closes_below(limit) else Level.BETWEEN


def _excess(value: float, limit: float) -> float:
    lowest = _closes_below(limit)
    return 1.0 - lowest / value if value > lowest else 0.0


def _closes_below(limit: float) -> float:
    # With a limit below the hysteresis, an alert would never close; half of the limit can be reached.
    return max(limit - HYSTERESIS_RATIO, limit / 2)


def format_amount(resource: Resource, value: float) -> str:
    """An amount of a resource with its unit."""
    match resource:
        case Resource.CPU:
            return f"{value:.2f} cores"
        case Resource.MEMORY:
            return f"{value / (1 << 30):.2f} GiB"
        case Resource.DISK | Resource.NETWORK:
            return f"{value / (1 << 20):.2f} MiB/s"


def _network_ratio(rates: HostRates) -> float | None:
    """Traffic divided by link speed; None if the speed is unknown.

    The highest observed traffic cannot replace it: traffic reaches it again and again, without a shortage.
    """
    if Resource.NETWORK in rates.learned_capacities:
        return None
    return ratio(rates.used, rates.capacity, Resource.NETWORK)


USAGE_RATIO: Mapping[Resource, Value] = {
    Resource.CPU: lambda rates: ratio(rates.used, rates.capacity, Resource.CPU),
    Resource.MEMORY: lambda rates: ratio(rates.used, rates.capacity, Resource.MEMORY),
    Resource.DISK: lambda rates: rates.disk_busy_ratio,
    Resource.NETWORK: _network_ratio,
}
PRESSURE_RATIO: Mapping[Resource, Value] = {
    Resource.CPU: lambda rates: rates.pressure.cpu_ratio,
    Resource.MEMORY: lambda rates: rates.pressure.memory_ratio,
    Resource.DISK: lambda rates: rates.pressure.disk_ratio,
    Resource.NETWORK: lambda _: None,
}
"""Share of time that tasks waited for the resource."""


def _describe_usage(what: str, resource: Resource) -> Callable[[HostRates, float], str]:
    return lambda rates, mean: (
        f"{what} at {mean:.0%} of {format_amount(resource, rates.capacity.of(resource) or 0.0)}"
    )


def _describe_time(what: str) -> Callable[[HostRates, float], str]:
    return lambda _, mean: f"{what} {mean:.0%} of the time"


_CPU_IS_BUSY = (USAGE_RATIO[Resource.CPU], 0.7)
_DISK_IS_BUSY = (USAGE_RATIO[Resource.DISK], 0.5)

INDICATORS: tuple[Indicator, ...] = (
    Indicator(
        Resource.CPU,
        USAGE_RATIO[Resource.CPU],
        lambda rates, mean: f"CPU at {mean:.0%} of {rates.capacity.cpu_cores or 0:g} cores",
    ),
    Indicator(
        Resource.CPU,
        PRESSURE_RATIO[Resource.CPU],
        _describe_time("tasks waited for a CPU"),
        lambda settings: settings.cpu_pressure_ratio,
        _CPU_IS_BUSY,
    ),
    Indicator(Resource.MEMORY, USAGE_RATIO[Resource.MEMORY], _describe_usage("memory", Resource.MEMORY)),
    Indicator(
        Resource.MEMORY,
        PRESSURE_RATIO[Resource.MEMORY],
        _describe_time("tasks waited for memory"),
        lambda settings: settings.memory_pressure_ratio,
    ),
    Indicator(Resource.DISK, USAGE_RATIO[Resource.DISK], _describe_time("busiest disk active")),
    Indicator(
        Resource.DISK,
        lambda rates: rates.iowait_ratio,
        lambda _, mean: f"{mean:.0%} of the CPU time spent waiting for disks",
        lambda settings: _IOWAIT_LIMIT if settings.disk_pressure_ratio else 0.0,
        _DISK_IS_BUSY,
    ),
    Indicator(
        Resource.DISK,
        PRESSURE_RATIO[Resource.DISK],
        _describe_time("tasks waited for a disk"),
        lambda settings: settings.disk_pressure_ratio,
        _DISK_IS_BUSY,
    ),
    Indicator(Resource.NETWORK, USAGE_RATIO[Resource.NETWORK], _describe_usage("network", Resource.NETWORK)),
)
