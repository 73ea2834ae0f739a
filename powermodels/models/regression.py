"""Models that are idle power plus watts per function of load: `linear` and `curve`.

- linear: the black box of the literature: one term each for CPU, memory, disk and network.
- curve: what wins on metered servers: `idle + a*u + b*sqrt(u) + c*sqrt(disk) + d*sqrt(network)`, where u is
  the CPU time in use or, if that tells more, the cycles.

No coefficient is negative, so more load never draws less; the total stays within what was seen.
"""

from math import sqrt

from powermodels.common.interface import Load, Terms
from powermodels.models.basis import BASES, cpu, cycles, weighted_terms
from powermodels.models.fitted import FittedModel, Watts

LINEAR_FEATURES = ("cpu", "memory", "disk", "network")
CURVE_FEATURES = ("cpu", "cpu_sqrt", "disk_sqrt", "network_sqrt")
# The same by cycles, for a machine whose frequency was known all the time.
CYCLES_CURVE_FEATURES = ("cycles", "cycles_sqrt", "disk_sqrt", "network_sqrt")


class Regression(FittedModel, frozen=True, kw_only=True):
    """Idle power and the watts of each feature at full use."""

    idle_watts: Watts
    coefficients_watts: dict[str, Watts]

    def __post_init__(self) -> None:
        if unknown := self.coefficients_watts.keys() - BASES.keys():
            raise ValueError(f"no such feature: {', '.join(sorted(unknown))}")

    def free_terms(self, load: Load) -> Terms:
        """The terms before they are held within bounds."""
        return weighted_terms(self.idle_watts, self.coefficients_watts, load)

    def terms(self, load: Load) -> Terms:
        return self.bounded(self.free_terms(load))


class LinearModel(Regression, frozen=True, kw_only=True, tag="linear"):
    """Watts proportional to the use of each resource."""


class CurveModel(Regression, frozen=True, kw_only=True, tag="curve"):
    """Watts that rise steeply from idle and then flatten."""

    @property
    def by_cycles(self) -> bool:
        """Whether the CPU's frequency counts."""
        return "cycles" in self.coefficients_watts or "cycles_sqrt" in self.coefficients_watts

    def root(self, load: Load) -> float:
        """The root of CPU use as this curve sees it."""
        return sqrt(cycles(load) if self.by_cycles else cpu(load))

    def watts_per_root(self, root: float) -> float:
        """How fast CPU watts rise with that root; the more the larger it is."""
        name = "cycles" if self.by_cycles else "cpu"
        linear_watts, root_watts = (self.coefficients_watts.get(key, 0.0) for key in (name, f"{name}_sqrt"))
        return 2 * root * linear_watts + root_watts
