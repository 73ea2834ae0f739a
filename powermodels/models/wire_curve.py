"""Any model as points of a curve in a report, and the model that these points define.

With them, a collector estimates the power of a node at another load without knowing the kinds of models of
the agent.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import ClassVar

from powermodels.common.interface import Load, Model, Scope, Terms
from powermodels.models.basis import unit
from wire.messages import PowerCurve, PowerSource

_CPU_RATIOS = (
    *(0.0, 0.0002, 0.001, 0.003, 0.007, 0.015, 0.03, 0.06),
    *(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
)
"""Dense where power rises steeply: a straight line from 0 to 0.1 would be far off."""


def power_curve_of(model: Model, source_scope: Scope = Scope.NODE) -> PowerCurve:
    """Convert a model of the whole machine to points; `source_scope` is what it was fitted to."""
    idle = model.terms(Load(0.0, 0.0, 0.0, 0.0))
    full = model.terms(Load(0.0, 1.0, 1.0, 1.0))
    cpu_watts = [model.terms(Load(ratio, 0.0, 0.0, 0.0)).cpu_watts for ratio in _CPU_RATIOS]
    return PowerCurve(
        source=model.source,
        error_ratio=model.error_ratio,
        idle_watts=idle.idle_watts,
        cpu_ratios=_CPU_RATIOS,
        cpu_watts=tuple(round(max(0.0, watts), 3) for watts in cpu_watts),
        memory_watts=max(0.0, full.memory_watts),
        disk_watts=max(0.0, full.disk_watts),
        network_watts=max(0.0, full.network_watts),
        source_scope=source_scope.reported,
    )


@dataclass(frozen=True, slots=True)
class PowerCurveModel:
    """The model of reported points, with straight lines between them."""

    scope: ClassVar = Scope.NODE
    curve: PowerCurve

    @property
    def source(self) -> PowerSource:
        return self.curve.source

    @property
    def error_ratio(self) -> float:
        return self.curve.error_ratio

    def terms(self, load: Load) -> Terms:
        return Terms(
            idle_watts=self.curve.idle_watts,
            cpu_watts=self._cpu_watts(unit(load.cpu_ratio)),
            memory_watts=self.curve.memory_watts * unit(load.memory_ratio),
            disk_watts=self.curve.disk_watts * unit(load.disk_ratio),
            network_watts=self.curve.network_watts * unit(load.network_ratio),
        )

    def describe(self) -> str:
        return f"reported by the node: {self.curve.source}, ±{self.curve.error_ratio:.0%}"

    def _cpu_watts(self, ratio: float) -> float:
        ratios, watts = self.curve.cpu_ratios, self.curve.cpu_watts
        above = min(max(1, bisect_right(ratios, ratio)), min(len(ratios), len(watts)) - 1)
        low, high = ratios[above - 1], ratios[above]
        share = 0.0 if high <= low else min(1.0, max(0.0, (ratio - low) / (high - low)))
        return watts[above - 1] + share * (watts[above] - watts[above - 1])
