"""What a meter, a model and an estimate are: the few types that everything in this package agrees on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
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
    frequency_ratio: float | None = None
    """How fast the CPUs run, by the fastest they can; the same for all that run on them."""


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


class Scope(Enum):
    """How much of a machine a meter sees, or a model tells."""

    NODE = "the whole machine"
    CPU_AND_MEMORY = "CPU and memory only"
    CPU = "the CPU only"
    PART = "a part of the machine"
    """Which one, and whether it lies inside another, cannot be told: shown, but never the node's watts."""


class Model(Protocol):
    """Load in, watts out; a few coefficients, evaluated in plain Python."""

    @property
    def source(self) -> PowerSource: ...

    @property
    def scope(self) -> Scope:
        """What its watts are of: the whole node, unless it was learned from a meter that sees less."""

    @property
    def error_ratio(self) -> float:
        """Expected relative error of the total."""

    def terms(self, load: Load) -> Terms: ...

    def describe(self) -> str:
        """One sentence for people: what this stands on and how far to trust it."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the things that a meter looks at, by its own name: a package, a rail, a battery."""

    name: str
    watts: float | None
    """As of the last time the meter was asked."""
    counted: bool
    """Whether it is in the meter's watts; others overlap with what is, or cannot be placed."""


class Meter(Protocol):
    """Something on the host that measures."""

    @property
    def name(self) -> str:
        """What it is called among the meters of a host: rapl, ipmi, battery."""

    @property
    def source(self) -> PowerSource: ...

    @property
    def scope(self) -> Scope: ...

    @property
    def error_ratio(self) -> float:
        """Expected relative error of its watts, within its scope."""

    @property
    def period_seconds(self) -> float:
        """How long one value stands for; 0 where each is of exactly the time since the one before."""

    @property
    def gap(self) -> Gap | None:
        """Why it cannot measure at present, and what would help; None while it can."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """What it looks at, one by one, whether counted or not."""

    def watts(self, monotonic_seconds: float) -> float | None:
        """Mean watts since the last call; None on the first one, after a gap, or when it fails."""

    def describe(self) -> str:
        """One sentence for people."""


@dataclass(frozen=True, slots=True)
class MeterState:
    """A meter of the host as it stood at the last estimate."""

    name: str
    source: PowerSource
    scope: Scope
    error_ratio: float
    watts: float | None
    used: bool
    """Whether the node's watts were this meter's."""
    gap: Gap | None
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ModelState:
    """What stands in for a meter, as it stood at the last estimate."""

    source: PowerSource
    scope: Scope
    error_ratio: float
    description: str
    made: datetime | None
    """When it was fitted; None for one that never was."""
    stale_seconds: float | None
    """How long ago it was last compared with a meter; None if it never was since the start."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the node's draw, with its own expected error."""

    watts: float
    error_ratio: float
    idle_watts: float = 0.0
    """What the chosen policy puts on it of the node's idle power; not in `watts`: nothing counts twice."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A node's draw over one interval. `idle_watts + system_watts + sum(containers) == watts`, always.

    What is drawn is what the source sees: a meter's scope for a meter, the whole machine for a model unless
    it was learned from a meter that sees less.
    """

    watts: float
    idle_watts: float
    system_watts: float
    source: PowerSource
    error_ratio: float
    containers: Mapping[str, Share] = field(default_factory=dict)
    scope: Scope = Scope.NODE
