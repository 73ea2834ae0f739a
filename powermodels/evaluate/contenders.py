"""The contenders of an evaluation: our models and baselines.

Each is fitted to the machine's other workloads, and to the first samples of this one. Then it predicts watts,
with or without more readings in between.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from statistics import StatisticsError, linear_regression
from typing import Protocol, cast, get_args

import msgspec

from powermodels.common.interface import Load, Model
from powermodels.fit.arrays import workloads_of
from powermodels.fit.fitting import fit, fit_unrated
from powermodels.fit.forms import Form, fit_form
from powermodels.learning.tracker import Tracker
from powermodels.models.basis import row
from powermodels.models.regression import LINEAR_FEATURES, CurveModel
from powermodels.models.samples import FitRequest, Kind, Sample

Samples = Sequence[Sample]

_CURRENT = "the workload itself"
# A fit contains its date, which must not change the output of an evaluation.
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class Contender(Protocol):
    """A model or baseline that predicts watts."""

    def observe(self, sample: Sample) -> None:
        """Add a reading."""

    def blind_watts(self, load: Load) -> float:
        """Predict the watts of this load, without a meter."""

    def next_watts(self, load: Load) -> float:
        """Predict the next reading of the meter at this load, after its last reading."""


Maker = Callable[[Samples, Samples], Contender]
"""Creates a contender from the samples of other workloads and the first ones of this workload."""


class _Fixed:
    """A function of load that learns nothing more."""

    def __init__(self, watts: Callable[[Load], float]) -> None:
        self._watts = watts

    def observe(self, sample: Sample) -> None:
        pass

    def blind_watts(self, load: Load) -> float:
        return self._watts(load)

    next_watts = blind_watts


class _Adaptive:
    """The agent's own tracker, on the recording's clock."""

    def __init__(self, curve: CurveModel) -> None:
        self._seconds = 0.0
        self._tracker = Tracker(curve, lambda: self._seconds)

    def observe(self, sample: Sample) -> None:
        self._seconds = sample.seconds
        self._tracker.observe(sample.load, sample.watts)

    def blind_watts(self, load: Load) -> float:
        return self._tracker.terms(load).watts

    def next_watts(self, load: Load) -> float:
        return self._tracker.expected_watts(load)


def _fitted(kind: Kind, others: Samples, first: Samples) -> Model:
    current = [msgspec.structs.replace(sample, group=_CURRENT) for sample in first]
    request = FitRequest(samples=(*others, *current), kind=kind, host="", current_group=_CURRENT)
    return fit_unrated(request, _ANY_TIME)


def stated_error_ratio(model: str, others: Samples) -> float:
    """The error that one of our models, fitted to these workloads, states for another one."""
    kind = cast("Kind", model if model in get_args(Kind) else "curve")
    return fit(FitRequest(samples=tuple(others), kind=kind, host=""), _ANY_TIME).error_ratio


def _fixed(kind: Kind) -> Maker:
    def make(others: Samples, first: Samples) -> Contender:
        model = _fitted(kind, others, first)
        return _Fixed(lambda load: model.terms(load).watts)

    return make


def _adaptive(others: Samples, first: Samples) -> Contender:
    curve = _fitted("curve", others, first)
    assert isinstance(curve, CurveModel)
    return _Adaptive(curve)


def _adaptive_alone(others: Samples, first: Samples) -> Contender:
    """As on a host whose meter and workload are both new to the agent."""
    return _adaptive((), first) if first else _adaptive(others, ())


MODELS: Mapping[str, Maker] = {
    "adaptive": _adaptive,
    "adaptive-alone": _adaptive_alone,
    "curve": _fixed("curve"),
    "linear": _fixed("linear"),
    "table": _fixed("table"),
}


def _two_point(others: Samples, first: Samples) -> Contender:
    watts = [sample.watts for sample in first or others]
    idle_watts, full_watts = min(watts), max(watts)
    return _Fixed(lambda load: idle_watts + load.cpu_ratio * (full_watts - idle_watts))


def _least_squares(others: Samples, first: Samples) -> Contender:
    samples = first or others
    try:
        line = linear_regression([s.load.cpu_ratio for s in samples], [s.watts for s in samples])
    except StatisticsError:  # one load only: there is no slope
        return _two_point(samples, ())
    return _Fixed(lambda load: line.intercept + line.slope * load.cpu_ratio)


def _cubic(others: Samples, first: Samples) -> Contender:
    """TDP * (0.1 + 0.9 u^3), with the highest observed watts as TDP, which no recording contains."""
    full_watts = max(sample.watts for sample in (*others, *first))
    return _Fixed(lambda load: full_watts * (0.1 + 0.9 * load.cpu_ratio**3))


def _curve_of_cpu(others: Samples, first: Samples) -> Contender:
    """The three-parameter curve: least squares on CPU and its root, on this workload alone if possible."""
    samples = first or others
    fitted = fit_form(workloads_of(samples), Form("formula"))
    lowest_watts, highest_watts = (pick(s.watts for s in samples) for pick in (min, max))

    def watts(load: Load) -> float:
        coefficients = zip(fitted.coefficients_watts, row(fitted.features, load), strict=True)
        free_watts = fitted.idle_watts + sum(coefficient * value for coefficient, value in coefficients)
        return min(max(free_watts, lowest_watts), highest_watts)

    return _Fixed(watts)


class _Persistence:
    """The last reading; before the first one, the mean of all other samples."""

    def __init__(self, others: Samples, first: Samples) -> None:
        samples = first or others
        self._watts = first[-1].watts if first else sum(s.watts for s in samples) / len(samples)

    def observe(self, sample: Sample) -> None:
        self._watts = sample.watts

    def blind_watts(self, _: Load) -> float:
        return self._watts

    next_watts = blind_watts


class _WindowedElasticNet:
    """A regression on the newest readings only, as in adaptive software power meters."""

    _WINDOW = 60
    _READINGS_BETWEEN_FITS = 10
    _PENALTY = 0.01

    def __init__(self, others: Samples, first: Samples) -> None:
        self._window = deque((*others, *first)[-self._WINDOW :], maxlen=self._WINDOW)
        self._readings = 0
        self._fit()

    def observe(self, sample: Sample) -> None:
        self._window.append(sample)
        self._readings += 1
        if self._readings % self._READINGS_BETWEEN_FITS == 0:
            self._fit()

    def blind_watts(self, load: Load) -> float:
        parts = zip(self._coefficients, row(LINEAR_FEATURES, load), strict=True)
        return self._intercept + sum(coefficient * value for coefficient, value in parts)

    next_watts = blind_watts

    def _fit(self) -> None:
        # It takes seconds to import, and no other model needs it.
        from sklearn.linear_model import ElasticNet  # type: ignore[import-untyped]  # noqa: PLC0415

        model = ElasticNet(alpha=self._PENALTY, max_iter=10_000, tol=1e-3)
        model.fit(
            [row(LINEAR_FEATURES, sample.load) for sample in self._window],
            [sample.watts for sample in self._window],
        )
        self._intercept = float(model.intercept_)
        self._coefficients = [float(value) for value in model.coef_]


BASELINES: Mapping[str, Maker] = {
    "two-point line": _two_point,
    "least squares on utilisation": _least_squares,
    "cubic TDP formula": _cubic,
    "windowed elastic net": _WindowedElasticNet,
    "curve of CPU alone": _curve_of_cpu,
    "persistence": _Persistence,
}

# As elsewhere, utilisation is all time that is not idle, including waiting for disks.
ON_UTILISATION = frozenset({"two-point line", "least squares on utilisation", "cubic TDP formula"})
