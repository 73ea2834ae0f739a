"""Generated machines: recordings with known power, different from each other and from any real machine.

They show whether a choice that suits one machine suits others: concave and convex curves, machines whose
memory, disks or network use much power, noisy meters, few workloads, few samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from random import Random
from statistics import fmean

from powermodels.common.interface import Load
from powermodels.fit.arrays import Workload
from powermodels.fit.fitting import left_out
from powermodels.fit.forms import Form, fit_form
from powermodels.models.samples import Sample

_PERIOD_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class GeneratedMachine:
    """Power and recording of a generated machine."""

    name: str
    shape: Callable[[float], float]
    """Maps CPU usage (0-1) to a share of the CPU's watts (0-1)."""
    idle_watts: float = 100.0
    cpu_watts: float = 120.0
    memory_watts: float = 0.0
    disk_watts: float = 0.0
    network_watts: float = 0.0
    spread_ratio: float = 0.15
    """Standard deviation of the CPU's watts between workloads at the same CPU usage."""
    noise_ratio: float = 0.02
    workloads: int = 10
    samples: int = 200
    """Samples of each workload."""

    def true_watts(self, load: Load, factor: float = 1.0) -> float:
        """Power of a load; `factor` scales the CPU's watts for the instructions of a workload."""
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
    """Make a recording; each workload has its own level of every resource and drifts around it."""
    chance = Random(f"{machine.name} {seed}")  # noqa: S311 - reproducible
    samples: list[Sample] = []
    for workload in range(machine.workloads):
        factor = max(0.2, chance.gauss(1.0, machine.spread_ratio))
        levels = [chance.random() ** 2 for _ in range(4)]
        drift = chance.uniform(0.02, 0.3)
        values = list(levels)
        for index in range(machine.samples):
            values = [
                min(1.0, max(0.0, value + 0.3 * (level - value) + chance.gauss(0.0, drift * 0.5)))
                for value, level in zip(values, levels, strict=True)
            ]
            load = Load(*values)
            watts = machine.true_watts(load, factor) * max(0.0, 1 + chance.gauss(0.0, machine.noise_ratio))
            seconds = _PERIOD_SECONDS * (workload * machine.samples + index)
            samples.append(Sample(seconds, watts, load, f"workload {workload}"))
    return tuple(samples)


def plain_error_ratio(workloads: Sequence[Workload]) -> float:
    """The mean relative error to expect of `Form()`, the form that a choice starts from."""
    return fmean(
        part.error_ratio(fit_form(others, Form()).predict(part)) for others, part in left_out(workloads)
    )
