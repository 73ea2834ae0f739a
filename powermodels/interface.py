"""What a meter, a model and an estimate are: the few types that everything in this package agrees on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from wire.messages import Gap, PowerSource


@dataclass(frozen=True, slots=True)
class CpuIdentity:
    """The numbers by which a CPU names its design; guests often hide the name but never these."""

    vendor: str
    """GenuineIntel, AuthenticAMD, ARM."""
    family: int
    """On ARM, the implementer."""
    model: int
    """On ARM, the part."""
    stepping: int = 0


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What is known of a host without measuring it."""

    cpu_model: str
    sockets: int
    cores: int
    """Physical cores; the same as threads where that cannot be told."""
    threads: int
    memory_bytes: int
    hypervisor: str | None = None
    """Set inside a virtual machine: then the figures are the guest's share, not the machine's."""
    cpu: CpuIdentity | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """How much of the host's capacity is in use, 0-1 per resource; None where it is not known."""

    cpu_ratio: float
    memory_ratio: float | None = None
    disk_ratio: float | None = None
    network_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """A model's answer, term by term: what idles, and what each resource adds."""

    idle_watts: float
    cpu_watts: float
    memory_watts: float = 0.0
    disk_watts: float = 0.0
    network_watts: float = 0.0

    @property
    def dynamic_watts(self) -> float:
        return self.cpu_watts + self.memory_watts + self.disk_watts + self.network_watts

    @property
    def watts(self) -> float:
        return self.idle_watts + self.dynamic_watts


class Model(Protocol):
    """Load in, watts of the whole node out; a few coefficients, evaluated in plain Python."""

    @property
    def source(self) -> PowerSource: ...

    @property
    def error_ratio(self) -> float:
        """Expected relative error of the total."""

    def terms(self, load: Load) -> Terms: ...

    def describe(self) -> str:
        """One sentence for people: what this stands on and how far to trust it."""


class Scope(Enum):
    """How much of a machine a meter sees."""

    NODE = "the whole machine"
    CPU_AND_MEMORY = "CPU and memory only"
    CPU = "the CPU only"


class Meter(Protocol):
    """Something on the host that measures."""

    @property
    def source(self) -> PowerSource: ...

    @property
    def scope(self) -> Scope: ...

    @property
    def error_ratio(self) -> float:
        """Expected relative error of its watts, within its scope."""

    @property
    def gap(self) -> Gap | None:
        """Why it cannot measure at present, and what would help; None while it can."""

    def watts(self, monotonic_seconds: float) -> float | None:
        """Mean watts since the last call; None on the first one, after a gap, or when it fails."""

    def describe(self) -> str:
        """One sentence for people."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the node's draw, with its own expected error."""

    watts: float
    error_ratio: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A node's draw over one interval. `idle_watts + system_watts + sum(containers) == watts`, always.

    What is drawn is what the source sees: the whole machine for a model, a meter's scope for a meter.
    """

    watts: float
    idle_watts: float
    system_watts: float
    source: PowerSource
    error_ratio: float
    containers: Mapping[str, Share] = field(default_factory=dict)
