"""A slice: a cgroup that an agent treats as its host, and its share of the machine's power.

Several slices share one machine. Each is charged its share of the cores: of the idle power, and of what load
adds. So slices that together have all cores draw what the machine draws, as virtual machines do on a host
that is fully used (`powermodels.models.prior`). Memory counts by its share of the memory.
"""

from dataclasses import dataclass
from math import hypot

from powermodels.common.interface import HostFacts, Load, Model, Scope, Terms
from powermodels.models.prior import ERROR_OF_SHARE
from wire.messages import PowerSource
from wire.resources import Quantities


@dataclass(slots=True)
class Slice:
    """The size of a slice, relative to its machine. It changes with the limits of the cgroup."""

    machine: HostFacts
    cpu_share: float = 1.0
    memory_share: float = 1.0

    def resize(self, capacity: Quantities) -> None:
        self.cpu_share = _share(capacity.cpu_cores, self.machine.threads)
        self.memory_share = _share(capacity.memory_bytes, self.machine.memory_bytes)


def _share(part: float | None, whole: float) -> float:
    return 1.0 if part is None or whole <= 0 else min(1.0, part / whole)


@dataclass(frozen=True, slots=True)
class SliceModel:
    """The model of a machine, for a slice of it."""

    whole: Model
    slice: Slice

    @property
    def source(self) -> PowerSource:
        return self.whole.source

    @property
    def scope(self) -> Scope:
        return self.whole.scope

    @property
    def error_ratio(self) -> float:
        return hypot(self.whole.error_ratio, ERROR_OF_SHARE)

    def terms(self, load: Load) -> Terms:
        machine, cpu_share = self.whole.terms(load), self.slice.cpu_share
        return Terms(
            idle_watts=cpu_share * machine.idle_watts,
            cpu_watts=cpu_share * machine.cpu_watts,
            memory_watts=self.slice.memory_share * machine.memory_watts,
            disk_watts=cpu_share * machine.disk_watts,
            network_watts=cpu_share * machine.network_watts,
        )

    def describe(self) -> str:
        return f"{self.slice.cpu_share:.0%} of the machine, by its CPU limit; {self.whole.describe()}"
