"""What a cgroup's files say, whichever version they are of."""

from dataclasses import dataclass
from typing import TypeVar

from agent.readings import PressureTotals

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a cgroup may use; None is no limit."""

    cpu_cores: float | None = None
    memory_bytes: int | None = None

    def within(self, outer: "Limits") -> "Limits":
        """Both limits at once: the tighter one of each."""
        if outer == NO_LIMITS:
            return self
        cores = [limit for limit in (self.cpu_cores, outer.cpu_cores) if limit is not None]
        memory = [limit for limit in (self.memory_bytes, outer.memory_bytes) if limit is not None]
        return Limits(min(cores, default=None), min(memory, default=None))


NO_LIMITS = Limits()
NO_PRESSURE = PressureTotals()


@dataclass(frozen=True, slots=True)
class Counters:
    """A cgroup's counters, levels and own limits; None where its files do not say."""

    cpu_seconds: float | None = None
    memory_usage_bytes: int | None = None
    memory_inactive_file_bytes: int | None = None
    disk_bytes: int | None = None
    limits: Limits = NO_LIMITS
    pressure: PressureTotals = NO_PRESSURE

    def or_else(self, other: "Counters") -> "Counters":
        """These counters, and the other's where these say nothing."""
        return Counters(
            _first(self.cpu_seconds, other.cpu_seconds),
            _first(self.memory_usage_bytes, other.memory_usage_bytes),
            _first(self.memory_inactive_file_bytes, other.memory_inactive_file_bytes),
            _first(self.disk_bytes, other.disk_bytes),
            self.limits.within(other.limits),
            other.pressure if self.pressure == NO_PRESSURE else self.pressure,
        )


def _first(one: Number | None, other: Number | None) -> Number | None:
    return other if one is None else one
