"""Raw counters and levels at one instant.

A field that could not be read is None. `agent.sampling` computes rates from two readings. The classes are
structs, since creating one takes a tenth of the time of a frozen dataclass.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from wire.messages import Gap

Number = TypeVar("Number", int, float)

# --- Hosts and containers -----------------------------------------------------------------------


class PressureTotals(msgspec.Struct, frozen=True, gc=False):
    """PSI "some" stall time since boot or creation, per resource."""

    cpu_seconds: float | None = None
    memory_seconds: float | None = None
    disk_seconds: float | None = None


NO_PRESSURE = PressureTotals()


class DiskTotals(msgspec.Struct, frozen=True, gc=False):
    """I/O of one disk, or of one cgroup on all disks."""

    transferred_bytes: int | None = None
    """Read and written bytes."""
    operations: int | None = None
    busy_seconds: float | None = None
    """Time with I/O in progress; None for a cgroup."""
    written_bytes: int | None = None
    """The written part of `transferred_bytes`."""

    @property
    def read_bytes(self) -> int | None:
        if self.transferred_bytes is None or self.written_bytes is None:
            return None
        return self.transferred_bytes - self.written_bytes


class LinkTotals(NamedTuple):
    """Bytes of one network link, or of several."""

    transferred_bytes: int
    """Received and sent."""
    sent_bytes: int

    @property
    def received_bytes(self) -> int:
        return self.transferred_bytes - self.sent_bytes


# --- Cgroups ------------------------------------------------------------------------------------


class CpuTotals(msgspec.Struct, frozen=True, gc=False):
    """CPU time of a cgroup."""

    seconds: float
    user_seconds: float | None = None
    system_seconds: float | None = None
    throttled_seconds: float | None = None
    """Time throttled by the CPU quota."""


class MemoryLevels(msgspec.Struct, frozen=True, gc=False):
    """Memory of a cgroup, and its out-of-memory kills."""

    usage_bytes: int | None = None
    inactive_file_bytes: int | None = None
    anon_bytes: int | None = None
    file_bytes: int | None = None
    swap_bytes: int | None = None
    oom_kills: int | None = None

    @property
    def working_set_bytes(self) -> int | None:
        """Usage without inactive page cache, which the kernel can reclaim at once; never negative."""
        if self.usage_bytes is None:
            return None
        return max(0, self.usage_bytes - (self.inactive_file_bytes or 0))


class Limits(msgspec.Struct, frozen=True, gc=False):
    """Limits of a cgroup; None is no limit."""

    cpu_cores: float | None = None
    memory_bytes: int | None = None

    def within(self, outer: "Limits") -> "Limits":
        """The lower of both limits, per resource."""
        if outer == NO_LIMITS:
            return self
        return Limits(
            lowest_limit(self.cpu_cores, outer.cpu_cores), lowest_limit(self.memory_bytes, outer.memory_bytes)
        )


NO_LIMITS = Limits()


def lowest_limit(*limits: Number | None) -> Number | None:
    """The lowest limit; None without limits."""
    return min((limit for limit in limits if limit is not None), default=None)


class CgroupReading(msgspec.Struct, frozen=True, gc=False):
    """All values of one cgroup."""

    cpu: CpuTotals
    memory: MemoryLevels = MemoryLevels()
    disk: DiskTotals = DiskTotals()
    pids: int | None = None
    pressure: PressureTotals = NO_PRESSURE
    limits: Limits = NO_LIMITS
    cpu_weight: float | None = None
    """CPU weight relative to the default of 1."""


class ContainerReading(msgspec.Struct, frozen=True, gc=False):
    """One container's counters and levels."""

    id: str
    runtime: str
    monotonic_seconds: float
    """Time of this reading: a pass over hundreds of containers is long enough to affect rates."""
    cgroup: CgroupReading
    network: LinkTotals | None = None
    pod: str | None = None
    """UID of its pod."""
    started_at: float | None = None
    """Unix time of its start, by the kernel."""


# --- The host -----------------------------------------------------------------------------------


class HostMemory(msgspec.Struct, frozen=True, gc=False):
    """Memory of the whole host."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    cache_bytes: int | None = None
    swap_used_bytes: int | None = None

    @property
    def used_bytes(self) -> int | None:
        """Memory that is not available to new processes."""
        if self.total_bytes is None or self.available_bytes is None:
            return None
        return max(0, self.total_bytes - self.available_bytes)


class HostReading(msgspec.Struct, frozen=True, gc=False):
    """The host's counters and levels."""

    cores: float | None = None
    """Number of cores, or the CPU limit of a cgroup that is the host."""
    cpu_seconds: float | None = None
    """CPU time over all cores, neither idle nor waiting for I/O."""
    iowait_seconds: float | None = None
    steal_seconds: float | None = None
    load_1m: float | None = None
    frequency_hertz: float | None = None
    memory: HostMemory = HostMemory()
    oom_kills: int | None = None
    disks: Mapping[str, DiskTotals] = {}
    skipped_devices: frozenset[bytes] = frozenset()
    """Block devices that are not disks; they are excluded from containers as well."""
    links: Mapping[str, LinkTotals] = {}
    """The external links."""
    network_capacity_bytes_per_second: float | None = None
    pressure: PressureTotals = NO_PRESSURE


class Reading(msgspec.Struct, frozen=True, gc=False):
    """Everything read in one pass."""

    unix_seconds: float
    monotonic_seconds: float
    host: HostReading
    containers: tuple[ContainerReading, ...] = ()
    gaps: tuple[Gap, ...] = ()
