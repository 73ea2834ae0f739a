"""Errors of the prior on unknown machines: each published curve, without its own row in the table."""

from collections.abc import Callable, Sequence
from statistics import fmean, median

import msgspec

from bench.power.published_curves import CURVES, PublishedCurve
from powermodels.common.interface import Load
from powermodels.models.prior import PriorModel, published_curve
from powermodels.models.published_machines import MACHINES, Machine

_LOADS = tuple(step / 10 for step in range(1, 11))
_DIGITS = 1


class PriorResult(msgspec.Struct, frozen=True):
    """Mean relative errors at 10-100 % load, in per cent."""

    machines: dict[str, float]
    mean: float
    straight_line: float
    """The same idle and full power with a straight line between."""
    cubic: float
    """TDP * (0.1 + 0.9 u^3), a common formula."""
    own_line: float
    """A straight line between the machine's own idle and full power, which a prior cannot know."""
    own_curve: float
    """The prior's curve between the machine's own idle and full power."""


def evaluate_prior(curves: Sequence[PublishedCurve] = CURVES) -> PriorResult:
    """Measure the errors of the prior and of simpler formulas."""
    machines = {curve.source: _percent(curve, _prior_watts(curve)) for curve in curves}
    return PriorResult(
        machines={name: round(error, _DIGITS) for name, error in machines.items()},
        mean=round(fmean(machines.values()), _DIGITS),
        straight_line=_mean(curves, _line_watts),
        cubic=_mean(curves, _cubic_watts),
        own_line=_mean(curves, lambda curve: _between(curve, lambda ratio: ratio)),
        own_curve=_mean(curves, lambda curve: _between(curve, published_curve)),
    )


def table_without(source: str) -> dict[str, tuple[Machine, ...]]:
    """Return the prior's table without that machine."""
    return {name: tuple(m for m in machines if m.source != source) for name, machines in MACHINES.items()}


def cores_exponent_errors(exponents: Sequence[float]) -> dict[float, float]:
    """Error in % per exponent, if dynamic power is estimated from other vendors' machines of a generation."""
    return {exponent: _cores_exponent_error(exponent) for exponent in exponents}


def _cores_exponent_error(exponent: float) -> float:
    def per_core(machine: Machine) -> float:
        size: float = machine.cores_per_socket**exponent
        return machine.dynamic_watts / machine.sockets / size

    errors: list[float] = []
    for machines in MACHINES.values():
        for machine in machines:
            others = [other for other in machines if _maker(other) != _maker(machine)]
            if others:
                estimate = median(map(per_core, others))
                errors.append(abs(estimate - per_core(machine)) / per_core(machine))
    return round(100 * fmean(errors), _DIGITS)


def _maker(machine: Machine) -> str:
    return machine.source.split(maxsplit=1)[0]


_Watts = Callable[[float], float]


def _prior(curve: PublishedCurve) -> PriorModel:
    return PriorModel.for_host(curve.facts, table_without(curve.source))


def _prior_watts(curve: PublishedCurve) -> _Watts:
    model = _prior(curve)
    return lambda ratio: model.terms(Load(ratio, memory_ratio=ratio)).watts


def _line_watts(curve: PublishedCurve) -> _Watts:
    model = _prior(curve)
    idle_watts, full_watts = (model.terms(Load(ratio, memory_ratio=ratio)).watts for ratio in (0.0, 1.0))
    return lambda ratio: idle_watts + ratio * (full_watts - idle_watts)


def _cubic_watts(curve: PublishedCurve) -> _Watts:
    tdp_watts = curve.facts.sockets * curve.tdp_watts
    return lambda ratio: tdp_watts * (0.1 + 0.9 * ratio**3)


def _between(curve: PublishedCurve, shape: _Watts) -> _Watts:
    idle_watts, full_watts = curve.watts[0], curve.watts[-1]
    return lambda ratio: idle_watts + shape(ratio) * (full_watts - idle_watts)


def _mean(curves: Sequence[PublishedCurve], watts_of: Callable[[PublishedCurve], _Watts]) -> float:
    return round(fmean(_percent(curve, watts_of(curve)) for curve in curves), _DIGITS)


def _percent(curve: PublishedCurve, watts: _Watts) -> float:
    truths = zip(_LOADS, curve.watts[1:], strict=True)
    return 100 * fmean(abs(watts(ratio) - truth) / truth for ratio, truth in truths)
