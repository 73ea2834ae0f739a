"""What the sources read: raw counters as of one instant, before anything is computed.

A field that could not be read is None. Counters only ever mean something as a difference; `sample`
takes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from wire.messages import Gap

Number = TypeVar("Number", int, float)

# --- What a host and a container have alike -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class PressureTotals:
    """PSI "some" stall time since boot or creation, per resource."""

    cpu_seconds: float | None = None
    memory_seconds: float | None = None
    disk_seconds: float | None = None


NO_PRESSURE = PressureTotals()


@dataclass(frozen=True, slots=True)
class DiskTotals:
    """What went through a disk, or what one cgroup sent through all of them."""

    transferred_bytes: int | None = None
    """Read and written."""
    operations: int | None = None
    busy_seconds: float | None = None
    """Time in which something was under way; a cgroup has none."""


NO_DISK = DiskTotals()


# --- Cgroups ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CpuTotals:
    """CPU time of a cgroup."""

    seconds: float
    user_seconds: float | None = None
    system_seconds: float | None = None
    throttled_seconds: float | None = None
    """Time in which it would have run but for its quota."""


@dataclass(frozen=True, slots=True)
class MemoryLevels:
    """Memory of a cgroup, and how often it ran out."""

    usage_bytes: int | None = None
    inactive_file_bytes: int | None = None
    anon_bytes: int | None = None
    file_bytes: int | None = None
    swap_bytes: int | None = None
    oom_kills: int | None = None

    @property
    def working_set_bytes(self) -> int | None:
        """Memory that cannot be dropped at once: usage less the inactive page cache, never negative."""
        if self.usage_bytes is None:
            return None
        return max(0, self.usage_bytes - (self.inactive_file_bytes or 0))


NO_MEMORY = MemoryLevels()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a cgroup may use; None is no limit."""

    cpu_cores: float | None = None
    memory_bytes: int | None = None

    def within(self, outer: "Limits") -> "Limits":
        """Both limits at once: the tighter one of each."""
        if outer == NO_LIMITS:
            return self
        return Limits(
            lowest_limit(self.cpu_cores, outer.cpu_cores), lowest_limit(self.memory_bytes, outer.memory_bytes)
        )


NO_LIMITS = Limits()


def lowest_limit(*limits: Number | None) -> Number | None:
    """The smallest of the limits there are."""
    return min((limit for limit in limits if limit is not None), default=None)


@dataclass(frozen=True, slots=True)
class CgroupReading:
    """Everything that a cgroup's files say."""

    cpu: CpuTotals
    memory: MemoryLevels = NO_MEMORY
    disk: DiskTotals = NO_DISK
    pids: int | None = None
    pressure: PressureTotals = NO_PRESSURE
    limits: Limits = NO_LIMITS
    cpu_weight: float | None = None
    """Its part where cgroups compete for the CPU; 1 is what each has by default."""


@dataclass(frozen=True, slots=True)
class ContainerReading:
    """One container's counters and levels."""

    id: str
    runtime: str
    monotonic_seconds: float
    """When this container was read: a pass over hundreds takes long enough to matter to a rate."""
    cgroup: CgroupReading
    network_bytes: int | None = None
    pod: str | None = None
    """The uid of the pod that it is part of."""


# --- The host -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HostCpu:
    """CPU time over all cores."""

    busy_seconds: float | None = None
    """Spent on work: neither idle nor waiting for I/O."""
    iowait_seconds: float | None = None
    steal_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Memory of the whole host."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    cache_bytes: int | None = None
    swap_used_bytes: int | None = None

    @property
    def used_bytes(self) -> int | None:
        """Memory that is not available to a new process."""
        if self.total_bytes is None or self.available_bytes is None:
            return None
        return max(0, self.total_bytes - self.available_bytes)


@dataclass(frozen=True, slots=True)
class HostReading:
    """The host's counters and levels."""

    cores: float | None = None
    """How many there are, or what part of them a host that is a cgroup may use."""
    cpu: HostCpu = HostCpu()
    load_1m: float | None = None
    frequency_hertz: float | None = None
    memory: HostMemory = HostMemory()
    oom_kills: int | None = None
    disks: Mapping[str, DiskTotals] = field(default_factory=dict)
    links: Mapping[str, int] = field(default_factory=dict)
    """Bytes received and sent per link that leads outside."""
    network_capacity_bytes_per_second: float | None = None
    pressure: PressureTotals = NO_PRESSURE


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything read in one pass."""

    unix_seconds: float
    monotonic_seconds: float
    host: HostReading
    containers: tuple[ContainerReading, ...] = ()
    gaps: tuple[Gap, ...] = ()
