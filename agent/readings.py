"""What the sources read: raw counters as of one instant, before anything is computed.

A field that could not be read is None. Counters only ever mean something as a difference; `sample`
takes it.
"""

from dataclasses import dataclass

from wire.messages import Gap


@dataclass(frozen=True, slots=True)
class PressureTotals:
    """PSI "some" stall time since boot or creation, per resource."""

    cpu_seconds: float | None = None
    memory_seconds: float | None = None
    disk_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class HostReading:
    """The host's counters and levels."""

    cores: int
    busy_seconds: float
    """CPU time spent on work, over all cores: neither idle nor waiting for I/O."""
    memory_total_bytes: int
    memory_available_bytes: int
    disk_bytes: int | None = None
    network_bytes: int | None = None
    network_capacity_bytes_per_second: float | None = None
    pressure: PressureTotals = PressureTotals()


@dataclass(frozen=True, slots=True)
class ContainerReading:
    """One container's counters and levels, from its cgroup."""

    id: str
    runtime: str
    monotonic_seconds: float
    """When this container was read: a pass over hundreds takes long enough to matter to a rate."""
    cpu_seconds: float
    memory_usage_bytes: int | None = None
    memory_inactive_file_bytes: int | None = None
    memory_limit_bytes: int | None = None
    cpu_limit_cores: float | None = None
    disk_bytes: int | None = None
    network_bytes: int | None = None
    pressure: PressureTotals = PressureTotals()

    @property
    def memory_working_set_bytes(self) -> int | None:
        """Memory that cannot be dropped at once: usage less the inactive page cache, never negative."""
        if self.memory_usage_bytes is None:
            return None
        return max(0, self.memory_usage_bytes - (self.memory_inactive_file_bytes or 0))


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything read in one pass."""

    unix_seconds: float
    monotonic_seconds: float
    host: HostReading
    containers: tuple[ContainerReading, ...] = ()
    gaps: tuple[Gap, ...] = ()
