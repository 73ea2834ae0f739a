"""Interfaces of meters and models, and the types that they share."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol, Self

import msgspec

from wire.messages import Gap, PowerScope, PowerSource
from wire.resources import RESOURCES, Quantities, ratio


@dataclass(frozen=True, slots=True)
class CpuIdentity:
    """Numbers that identify the design of a CPU; guests often hide its name but never these."""

    vendor: str
    """GenuineIntel, AuthenticAMD, ARM."""
    family: int
    """On ARM, the implementer."""
    model: int
    """On ARM, the part."""
    stepping: int = 0


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Hardware of a host."""

    cpu_model: str
    sockets: int
    cores: int
    """Physical cores; equals `threads` if unknown."""
    threads: int
    memory_bytes: int
    hypervisor: str | None = None
    """Set inside a virtual machine: then all values are those of the guest."""
    cpu: CpuIdentity | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """Used share of the host's capacity, 0-1 per resource; None if unknown."""

    cpu_ratio: float
    memory_ratio: float | None = None
    disk_ratio: float | None = None
    network_ratio: float | None = None
    frequency_ratio: float | None = None
    """CPU frequency as a share of the maximum; the same for all containers."""

    @classmethod
    def of(cls, used: Quantities, capacity: Quantities) -> Self:
        """Usage as a share of capacity; an unknown CPU usage counts as idle."""
        cpu, memory, disk, network = (ratio(used, capacity, resource) for resource in RESOURCES)
        return cls(cpu or 0.0, memory, disk, network)

    @property
    def ratios(self) -> tuple[float | None, ...]:
        """The ratio of each resource, in the order of `RESOURCES`."""
        return self.cpu_ratio, self.memory_ratio, self.disk_ratio, self.network_ratio

    def rescaled(self, capacity: Quantities, scaling: Quantities) -> Self:
        """The same load, relative to `scaling` instead of `capacity`; unchanged if either is unknown.

        A model needs loads relative to the capacities that it was fitted with.
        """

        def by(ratio: float | None, old: float | None, new: float | None) -> float | None:
            return ratio if ratio is None or old is None or not new else ratio * old / new

        disk = by(self.disk_ratio, capacity.disk_bytes_per_second, scaling.disk_bytes_per_second)
        network = by(self.network_ratio, capacity.network_bytes_per_second, scaling.network_bytes_per_second)
        return replace(self, disk_ratio=disk, network_ratio=network)


# The capacity of disks and links is unknown in a recording and on a new host. A model then uses these rates,
# and keeps them.
ASSUMED_DISK_BYTES_PER_SECOND = 1e9
ASSUMED_NETWORK_BYTES_PER_SECOND = 2.5e9
ASSUMED = Quantities(
    disk_bytes_per_second=ASSUMED_DISK_BYTES_PER_SECOND,
    network_bytes_per_second=ASSUMED_NETWORK_BYTES_PER_SECOND,
)


def completed(capacity: Quantities) -> Quantities:
    """Capacities of a host that never change: those it does not report, or learns with time, are assumed."""
    return msgspec.structs.replace(ASSUMED, cpu_cores=capacity.cpu_cores, memory_bytes=capacity.memory_bytes)


@dataclass(frozen=True, slots=True)
class Terms:
    """Output of a model: idle power, and the power that each resource adds."""

    idle_watts: float
    cpu_watts: float
    memory_watts: float = 0.0
    disk_watts: float = 0.0
    network_watts: float = 0.0

    @property
    def dynamic(self) -> tuple[float, float, float, float]:
        """What each resource adds, in the order of `RESOURCES`."""
        return self.cpu_watts, self.memory_watts, self.disk_watts, self.network_watts

    @property
    def dynamic_watts(self) -> float:
        return self.cpu_watts + self.memory_watts + self.disk_watts + self.network_watts

    @property
    def watts(self) -> float:
        return self.idle_watts + self.dynamic_watts


class Scope(Enum):
    """The part of a machine that a meter measures, or a model estimates."""

    NODE = "the whole machine"
    CPU_AND_MEMORY = "CPU and memory only"
    CPU = "the CPU only"
    PART = "a part of the machine"
    """An unknown part, which may overlap with others: listed, but never the node's power."""

    @property
    def rank(self) -> int:
        """0 for the largest scope."""
        return list(Scope).index(self)

    @property
    def reported(self) -> PowerScope:
        """The same in reports, which never have power of an unknown part."""
        return PowerScope.MACHINE if self is Scope.NODE else PowerScope[self.name]


class Model(Protocol):
    """Estimates watts from load, with a few coefficients in plain Python."""

    @property
    def source(self) -> PowerSource: ...

    @property
    def scope(self) -> Scope:
        """The whole node, unless it was fitted to a meter with a smaller scope."""

    @property
    def error_ratio(self) -> float:
        """Expected relative error of the total."""

    def terms(self, load: Load) -> Terms: ...

    def describe(self) -> str:
        """One sentence: the origin of the model and its error."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part that a meter reads, by its own name: a package, a rail, a battery."""

    name: str
    watts: float | None
    """Value of the last reading."""
    counted: bool
    """Whether it is included in the meter's watts; others may overlap."""


class Meter(Protocol):
    """A power meter of the host."""

    @property
    def name(self) -> str:
        """Its name, unique on a host: rapl, ipmi, battery."""

    @property
    def source(self) -> PowerSource: ...

    @property
    def scope(self) -> Scope: ...

    @property
    def error_ratio(self) -> float:
        """Expected relative error of its watts, within its scope."""

    @property
    def period_seconds(self) -> float:
        """Period that a value covers; 0 if it is exactly the time since the last call."""

    @property
    def gap(self) -> Gap | None:
        """Why it cannot measure now, and how to correct that; None if it can."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts that it reads, counted or not."""

    def watts(self, monotonic_seconds: float) -> float | None:
        """Mean watts since the last call; None on the first one, after a gap, or when it fails."""

    def describe(self) -> str:
        """One sentence: what it measures and its error."""


@dataclass(frozen=True, slots=True)
class MeterState:
    """State of a meter at the last estimate."""

    name: str
    scope: Scope
    watts: float | None
    used: bool
    """Whether the node's power came from this meter."""
    gap: Gap | None
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """Power of one container, with its own expected error."""

    watts: float
    error_ratio: float
    idle_watts: float = 0.0
    """Share of the node's idle power, by the idle policy. Not included in `watts`."""
    power_weight: float = 1.0
    """Power of its CPU time relative to the average of the node; 1 unless it is learned."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Power of a node over one interval: `watts` is `idle_watts + system_watts + sum(containers)`, always."""

    terms: Terms
    """Of the whole machine, whatever the scope of the source: `powermodels.models.lifted` adds the rest."""
    system_watts: float
    source: PowerSource
    error_ratio: float
    source_scope: Scope = Scope.NODE
    source_watts: float | None = None
    """Power within the scope of the source: that of the meter, or of the model that was fitted to it."""
    containers: Mapping[str, Share] = field(default_factory=dict)

    @property
    def watts(self) -> float:
        return self.terms.watts

    @property
    def idle_watts(self) -> float:
        return self.terms.idle_watts
