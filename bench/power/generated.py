"""Generated machines: recordings with known power, unlike each other and unlike any real one.

They show whether a choice that is right for one machine is right for the next: curves that bend either way,
machines whose memory, disks or network draw much, noisy meters, few workloads, few samples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from random import Random

from powermodels.common.interface import Load
from powermodels.models.samples import Sample

_PERIOD_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class GeneratedMachine:
    """What a generated machine draws, and what was recorded of it."""

    name: str
    shape: Callable[[float], float]
    """CPU use to a share of the CPU's watts, 0-1 to 0-1."""
    idle_watts: float = 100.0
    cpu_watts: float = 120.0
    memory_watts: float = 0.0
    disk_watts: float = 0.0
    network_watts: float = 0.0
    spread_ratio: float = 0.15
    """How much the CPU's watts differ between workloads at the same CPU use (standard deviation)."""
    noise_ratio: float = 0.02
    workloads: int = 10
    samples: int = 200
    """Of each workload."""

    def true_watts(self, load: Load, factor: float = 1.0) -> float:
        """What a load draws; `factor` is what a workload's instructions make of the CPU's watts."""
        return (
            self.idle_watts
            + factor * self.cpu_watts * self.shape(load.cpu_ratio)
            + self.memory_watts * (load.memory_ratio or 0.0)
            + self.disk_watts * (load.disk_ratio or 0.0)
            + self.network_watts * (load.network_ratio or 0.0)
        )


MACHINES = (
    GeneratedMachine("steep", sqrt),
    GeneratedMachine("straight", lambda u: u),
    GeneratedMachine("convex", lambda u: u**2.5),
    GeneratedMachine("steps", lambda u: round(4 * u) / 4),
    GeneratedMachine("steep then convex", lambda u: 0.5 * sqrt(u) + 0.5 * u**4),
    GeneratedMachine("memory", sqrt, memory_watts=80.0, spread_ratio=0.05),
    GeneratedMachine("disk", sqrt, disk_watts=80.0, spread_ratio=0.05),
    GeneratedMachine("network", sqrt, network_watts=80.0, spread_ratio=0.05),
    GeneratedMachine("workloads that differ", sqrt, spread_ratio=0.4),
    GeneratedMachine("noisy meter", sqrt, noise_ratio=0.1),
    GeneratedMachine("three workloads", sqrt, workloads=3),
    GeneratedMachine("two workloads", lambda u: u, workloads=2),
    GeneratedMachine("few samples", sqrt, workloads=6, samples=12),
    GeneratedMachine("small idle power", sqrt, idle_watts=10.0),
    GeneratedMachine("large idle power", lambda u: u, idle_watts=300.0),
)


def generate(machine: GeneratedMachine, seed: int) -> tuple[Sample, ...]:
    """A recording of a machine; each workload has its own level of every resource, and wanders around it."""
    chance = Random(f"{machine.name} {seed}")  # noqa: S311 - the same recording every time
    samples: list[Sample] = []
    for workload in range(machine.workloads):
        factor = max(0.2, chance.gauss(1.0, machine.spread_ratio))
        levels = [chance.random() ** 2 for _ in range(4)]
        wandering = chance.uniform(0.02, 0.3)
        values = list(levels)
        for index in range(machine.samples):
            values = [
                min(1.0, max(0.0, value + 0.3 * (level - value) + chance.gauss(0.0, wandering * 0.5)))
                for value, level in zip(values, levels, strict=True)
            ]
            load = Load(*values)
            watts = machine.true_watts(load, factor) * max(0.0, 1 + chance.gauss(0.0, machine.noise_ratio))
            seconds = _PERIOD_SECONDS * (workload * machine.samples + index)
            samples.append(Sample(seconds, watts, load, f"workload {workload}"))
    return tuple(samples)
