"""Models with idle power plus watts per function of load: `linear` and `curve`.

- linear: the linear model of the literature: one term each for CPU, memory, disk and network. - curve: the
most accurate on metered servers: `idle + a*u + b*sqrt(u) + c*sqrt(disk) + d*sqrt(network)`, where u is
  CPU time or, if it is more accurate, CPU cycles.

No coefficient is negative, so power never decreases with load; the total stays in the range of the training.
"""

from math import sqrt

from powermodels.common.interface import Load, Terms
from powermodels.models.basis import BASES, cpu, cycles, weighted_terms
from powermodels.models.fitted import FittedModel, Watts

LINEAR_FEATURES = ("cpu", "memory", "disk", "network")
CURVE_FEATURES = ("cpu", "cpu_sqrt", "disk_sqrt", "network_sqrt")
# The same with cycles, for a machine whose frequency is always known.
CYCLES_CURVE_FEATURES = ("cycles", "cycles_sqrt", "disk_sqrt", "network_sqrt")


class Regression(FittedModel, frozen=True, kw_only=True):
    """Idle power and the watts of each feature at full usage."""

    idle_watts: Watts
    coefficients_watts: dict[str, Watts]

    def __post_init__(self) -> None:
        if unknown := self.coefficients_watts.keys() - BASES.keys():
            raise ValueError(f"no such feature: {', '.join(sorted(unknown))}")

    def free_terms(self, load: Load) -> Terms:
        """The terms without limits."""
        return weighted_terms(self.idle_watts, self.coefficients_watts, load)

    def terms(self, load: Load) -> Terms:
        return self.bounded(self.free_terms(load))


class LinearModel(Regression, frozen=True, kw_only=True, tag="linear"):
    """Watts proportional to the usage of each resource."""


class CurveModel(Regression, frozen=True, kw_only=True, tag="curve"):
    """Watts that rise steeply from idle and then flatten."""

    @property
    def by_cycles(self) -> bool:
        """Whether the model uses the CPU frequency."""
        return "cycles" in self.coefficients_watts or "cycles_sqrt" in self.coefficients_watts

    def root(self, load: Load) -> float:
        """Square root of CPU usage, in time or cycles."""
        return sqrt(cycles(load) if self.by_cycles else cpu(load))

    def watts_per_root(self, root: float) -> float:
        """Slope of CPU watts over that root; it increases with the root."""
        name = "cycles" if self.by_cycles else "cpu"
        linear_watts, root_watts = (self.coefficients_watts.get(key, 0.0) for key in (name, f"{name}_sqrt"))
        return 2 * root * linear_watts + root_watts
