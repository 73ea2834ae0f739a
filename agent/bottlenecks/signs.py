"""What tells that a node runs short of a resource: a table of signs. Pure.

A use sign (CPU, memory, a busy disk, a full link) is believed by itself. So is waiting for memory, which
nothing but a want of memory causes. Other kinds of waiting have causes that are no shortage of the node:

- A container held back by its own CPU quota, or by too few cores of its own, waits for a CPU while
  others are idle, and the kernel counts that in the host's pressure as well.
- A container held back by its own I/O limit, one that waits for a file server, and an idle io_uring
  (which kernels from 6.1 on count as I/O wait) all wait for a disk that has nothing to do.

So these are believed only together with a resource that is well used, as far as that can be seen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from agent.config import BottleneckConfig
from agent.sampling.rates import Sample
from wire.resources import Resource, ratio

Value = Callable[[Sample], float | None]


class Heat(IntEnum):
    """How a value stands to its limit; between the two marks it is neither reason to begin nor to end."""

    COOL = 0
    WARM = 1
    HOT = 2


@dataclass(frozen=True, slots=True)
class Backing:
    """What must be so as well for a sign to be believed; unknown, it is no objection."""

    value: Value
    limit: float


@dataclass(frozen=True, slots=True)
class Sign:
    """One value that tells of a shortage when it reaches its limit."""

    resource: Resource
    value: Value
    limit: Callable[[BottleneckConfig], float]
    says: Callable[[Sample, float], str]
    """What was seen, for a person: given the last sample, and the mean of the value."""
    backing: Backing | None = None

    def heat(self, sample: Sample, settings: BottleneckConfig) -> Heat | None:
        """How the sample looks by this sign; None where it is turned off, or cannot be seen."""
        limit, value = self.limit(settings), self.value(sample)
        if limit == 0 or value is None:
            return None
        heat = _heat(value, limit, settings.hysteresis_points)
        backing = None if self.backing is None else self.backing.value(sample)
        if self.backing is None or backing is None:
            return heat
        return min(heat, _heat(backing, self.backing.limit, settings.hysteresis_points))


def _heat(value: float, limit: float, hysteresis_points: float) -> Heat:
    if value >= limit:
        return Heat.HOT
    # A limit lower than the hysteresis could never be left; half of it can.
    return Heat.COOL if value < max(limit - hysteresis_points / 100, limit / 2) else Heat.WARM


def percent(value: float) -> str:
    """`97 %`."""
    return f"{value * 100:.0f} %"


def amount(resource: Resource, value: float) -> str:
    """So much of a resource, for a person."""
    match resource:
        case Resource.CPU:
            return f"{value:.2f} cores"
        case Resource.MEMORY:
            return f"{value / (1 << 30):.2f} GiB"
        case Resource.DISK | Resource.NETWORK:
            return f"{value / (1 << 20):.2f} MiB/s"


def use(resource: Resource) -> Value:
    """How much of a resource is in use, 0-1."""
    match resource:
        case Resource.CPU | Resource.MEMORY:
            return lambda sample: ratio(sample.used, sample.capacity, resource)
        case Resource.DISK:
            return lambda sample: sample.disk_busy_ratio
        case Resource.NETWORK:
            return _network


def pressure(resource: Resource) -> Value:
    """How much of the time something waited for a resource, 0-1."""
    match resource:
        case Resource.CPU:
            return lambda sample: sample.pressure.cpu_ratio
        case Resource.MEMORY:
            return lambda sample: sample.pressure.memory_ratio
        case Resource.DISK:
            return lambda sample: sample.pressure.disk_ratio
        case Resource.NETWORK:
            return lambda _: None


def _network(sample: Sample) -> float | None:
    """Traffic by what the links can carry; unless that is only the most that was seen, always reached."""
    if Resource.NETWORK in sample.learned_capacities:
        return None
    return ratio(sample.used, sample.capacity, Resource.NETWORK)


def _of_capacity(what: str, resource: Resource) -> Callable[[Sample, float], str]:
    return lambda sample, mean: (
        f"{what} at {percent(mean)} of {amount(resource, sample.capacity.of(resource) or 0.0)}"
    )


def _of_the_time(what: str) -> Callable[[Sample, float], str]:
    return lambda _, mean: f"{what} {percent(mean)} of the time"


_WELL_USED_CPU = Backing(use(Resource.CPU), 0.7)
_WELL_USED_DISK = Backing(use(Resource.DISK), 0.5)

SIGNS: tuple[Sign, ...] = (
    Sign(
        Resource.CPU,
        use(Resource.CPU),
        lambda settings: settings.cpu_ratio,
        lambda sample, mean: f"CPU at {percent(mean)} of {sample.capacity.cpu_cores or 0:g} cores",
    ),
    Sign(
        Resource.CPU,
        pressure(Resource.CPU),
        lambda settings: settings.cpu_pressure_ratio,
        _of_the_time("something waited for a CPU"),
        _WELL_USED_CPU,
    ),
    Sign(
        Resource.MEMORY,
        use(Resource.MEMORY),
        lambda settings: settings.memory_ratio,
        _of_capacity("memory", Resource.MEMORY),
    ),
    Sign(
        Resource.MEMORY,
        pressure(Resource.MEMORY),
        lambda settings: settings.memory_pressure_ratio,
        _of_the_time("something waited for memory"),
    ),
    Sign(
        Resource.DISK,
        use(Resource.DISK),
        lambda settings: settings.disk_ratio,
        _of_the_time("a disk at work"),
    ),
    Sign(
        Resource.DISK,
        lambda sample: sample.iowait_ratio,
        lambda settings: settings.iowait_ratio,
        lambda _, mean: f"{percent(mean)} of the CPU time spent waiting for disks",
        _WELL_USED_DISK,
    ),
    Sign(
        Resource.DISK,
        pressure(Resource.DISK),
        lambda settings: settings.disk_pressure_ratio,
        _of_the_time("something waited for a disk"),
        _WELL_USED_DISK,
    ),
    Sign(
        Resource.NETWORK,
        use(Resource.NETWORK),
        lambda settings: settings.network_ratio,
        _of_capacity("network", Resource.NETWORK),
    ),
)
