"""From a request to a model of the kind asked for, with its error on workloads that it was not fitted to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from statistics import fmean

import msgspec

from powermodels.fit.arrays import Workload, by_group, parts_of, weighted, workloads_of
from powermodels.fit.choice import choose_form, expected_error_ratio, left_out
from powermodels.fit.forms import Fit, bounds_of, fit_form, least_squares, rising_table
from powermodels.models.fitted import Origin
from powermodels.models.regression import LINEAR_FEATURES, CurveModel, LinearModel
from powermodels.models.samples import FitRequest, training_of
from powermodels.models.stored import Stored
from powermodels.models.table import TableModel
from wire.errors import UserError

LEAST_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class _Question:
    """A request as arrays."""

    workloads: list[Workload]
    """Each counts the same."""
    weighted: list[Workload]
    """The current one counts as requested."""
    cycles_known: bool


def fit(request: FitRequest, now: datetime) -> Stored:
    """The model asked for, with the error to expect of it on a workload that it was not fitted to."""
    _check(request)
    question = _question(request)
    model = _model(request, question, request.kind, now)
    error_ratio = min(1.0, _KINDS[request.kind].error_ratio(question))
    return msgspec.structs.replace(
        model, origin=msgspec.structs.replace(model.origin, error_ratio=error_ratio)
    )


def fit_kind(request: FitRequest, kind: str, now: datetime) -> Stored:
    """One kind, on all samples, its error unknown (1)."""
    return _model(request, _question(request), kind, now)


def _check(request: FitRequest) -> None:
    if len(request.samples) < LEAST_SAMPLES:
        raise UserError(
            f"{len(request.samples)} samples are too few to fit a model: measure at least {LEAST_SAMPLES}"
        )
    if not all(isfinite(sample.watts) and isfinite(sample.load.cpu_ratio) for sample in request.samples):
        raise UserError("a sample without a number for watts or CPU cannot be fitted: leave it out")


def _question(request: FitRequest) -> _Question:
    groups = list(by_group(request.samples))
    current = groups.index(request.current_group) if request.current_group in groups else None
    workloads = workloads_of(request.samples)
    return _Question(
        workloads,
        weighted(workloads, current, request.current_weight),
        cycles_known=all(sample.load.frequency_ratio is not None for sample in request.samples),
    )


def _model(request: FitRequest, question: _Question, kind: str, now: datetime) -> Stored:
    fitted = _KINDS[kind].fit(question)
    origin = Origin(
        features=fitted.features,
        scaling=request.scaling,
        training=training_of(request.samples, fitted.features, request.cap_watts),
        error_ratio=1.0,
        made=now,
        host=request.host,
        metered=request.metered,
    )
    return _KINDS[kind].make(fitted, origin)


def _fit_curve(question: _Question) -> Fit:
    form = choose_form(question.workloads, cycles_known=question.cycles_known)
    return fit_form(question.weighted, form)


def _make_curve(fitted: Fit, origin: Origin) -> CurveModel:
    return CurveModel(
        origin=origin,
        idle_watts=fitted.idle_watts,
        coefficients_watts=dict(zip(fitted.features, fitted.coefficients_watts, strict=True)),
        points=fitted.points,
    )


def _curve_error_ratio(question: _Question) -> float:
    return expected_error_ratio(question.workloads, cycles_known=question.cycles_known)


def _fit_linear(workloads: Sequence[Workload]) -> Fit:
    idle_watts, *coefficients = least_squares(workloads, LINEAR_FEATURES)
    bounds = bounds_of(workloads)
    return Fit(LINEAR_FEATURES, idle_watts, tuple(coefficients), (), bounds.floor_watts, bounds.ceiling_watts)


def _make_linear(fitted: Fit, origin: Origin) -> LinearModel:
    coefficients = dict(zip(fitted.features, fitted.coefficients_watts, strict=True))
    return LinearModel(origin=origin, idle_watts=fitted.idle_watts, coefficients_watts=coefficients)


def _fit_table(workloads: Sequence[Workload]) -> Fit:
    points = rising_table(workloads, "cpu")
    bounds = bounds_of(workloads)
    return Fit(("cpu",), 0.0, (0.0,), points, bounds.floor_watts, bounds.ceiling_watts)


def _make_table(fitted: Fit, origin: Origin) -> TableModel:
    return TableModel(origin=origin, points=fitted.points)


@dataclass(frozen=True, slots=True)
class _Kind:
    fit: Callable[[_Question], Fit]
    make: Callable[[Fit, Origin], Stored]
    error_ratio: Callable[[_Question], float]


def _plain(of: Callable[[Sequence[Workload]], Fit], make: Callable[[Fit, Origin], Stored]) -> _Kind:
    """A kind in which nothing is chosen."""

    def error_ratio(question: _Question) -> float:
        parts = left_out(parts_of(question.workloads))
        return fmean(part.error_ratio(of(others).predict(part)) for others, part in parts)

    return _Kind(lambda question: of(question.weighted), make, error_ratio)


# A new kind is a line here.
_KINDS: Mapping[str, _Kind] = {
    "curve": _Kind(_fit_curve, _make_curve, _curve_error_ratio),
    "linear": _plain(_fit_linear, _make_linear),
    "table": _plain(_fit_table, _make_table),
}
KINDS = tuple(_KINDS)
