"""Lifts the power of a part of a machine to that of the whole machine, so that machines can be compared.

RAPL measures CPUs, and often memory; a prior estimates the whole machine at the wall. Of the lifted power,

- idle power, and what load adds within the scope of the meter, is measured, and grows by the losses of the
  power supply;
- what load adds outside that scope comes from a model of the whole machine;
- so does the idle power outside: the modelled idle power less the measured part, whose error is that of the
  model. It is never negative: its expectation is that of a normal distribution truncated below zero.

The error combines those of the two, each with its share of the watts: near idle it is that of the model of
the whole machine, under load it approaches that of the meter.

80 PLUS certifies power supplies with efficiencies from 80 to 96 % at half load: the middle is used, and half
of the range is the error. On the one server with both meters in the project's data (nx12, Kepler model
database), the wall power grows by 1.14 W per watt of RAPL; this factor is 1.14 as well.
"""

from dataclasses import dataclass
from math import erf, exp, hypot, pi, sqrt
from typing import ClassVar

from powermodels.common.interface import Load, Model, Scope, Terms
from wire.messages import PowerSource

_LOWEST_EFFICIENCY, _HIGHEST_EFFICIENCY = 0.80, 0.96
_AT_THE_WALL = 2 / (_LOWEST_EFFICIENCY + _HIGHEST_EFFICIENCY)
_SUPPLY_ERROR_RATIO = (_HIGHEST_EFFICIENCY - _LOWEST_EFFICIENCY) / (_HIGHEST_EFFICIENCY + _LOWEST_EFFICIENCY)

_FAR = 5.0
# One number describes the error of a curve: the one at this load.
_TYPICAL = Load(0.5)


def lift(
    part: Terms, scope: Scope, part_error_ratio: float, whole: Terms, whole_error_ratio: float
) -> tuple[Terms, float]:
    """The terms of the whole machine and their expected relative error.

    They come from those within a smaller scope, and from a model of the whole machine.
    """
    if scope is Scope.NODE:
        return part, part_error_ratio
    measured = _AT_THE_WALL * part.idle_watts
    rest = _mean_above_zero(whole.idle_watts - measured, whole_error_ratio * whole.idle_watts)
    lifted = Terms(
        idle_watts=measured + rest,
        cpu_watts=_AT_THE_WALL * part.cpu_watts,
        memory_watts=whole.memory_watts if scope is Scope.CPU else _AT_THE_WALL * part.memory_watts,
        disk_watts=whole.disk_watts,
        network_watts=whole.network_watts,
    )
    if lifted.watts <= 0:
        return lifted, part_error_ratio
    measured_dynamic = lifted.cpu_watts + (0.0 if scope is Scope.CPU else lifted.memory_watts)
    others = lifted.dynamic_watts - measured_dynamic
    estimated_error_watts = whole_error_ratio * (whole.idle_watts + others)
    measured_error_watts = hypot(part_error_ratio, _SUPPLY_ERROR_RATIO) * measured_dynamic
    return lifted, hypot(estimated_error_watts, measured_error_watts) / lifted.watts


def _mean_above_zero(mean: float, deviation: float) -> float:
    """The mean of a normal distribution that is truncated below zero."""
    if deviation <= 0 or mean > _FAR * deviation:
        return max(0.0, mean)
    # Far below zero, quotients of tiny numbers lose their digits; the mean is then next to nothing.
    place = max(-_FAR, mean / deviation)
    density = exp(-place * place / 2) / sqrt(2 * pi)
    above = (1 + erf(place / sqrt(2))) / 2
    return max(0.0, deviation * (place + density / above))


@dataclass(frozen=True, slots=True)
class LiftedModel:
    """A model of a part of a machine, lifted to the whole."""

    scope: ClassVar = Scope.NODE
    part: Model
    whole: Model

    @property
    def source(self) -> PowerSource:
        return self.part.source

    @property
    def error_ratio(self) -> float:
        return self._lift(_TYPICAL)[1]

    def terms(self, load: Load) -> Terms:
        return self._lift(load)[0]

    def _lift(self, load: Load) -> tuple[Terms, float]:
        part, whole = self.part, self.whole
        return lift(part.terms(load), part.scope, part.error_ratio, whole.terms(load), whole.error_ratio)

    def describe(self) -> str:
        return f"{self.part.describe()}; the rest of the machine: {self.whole.describe()}"
