"""Fits the requested kind of model, and estimates its error on workloads that it was not fitted to."""

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

_MIN_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class _FitInput:
    """A request as arrays."""

    workloads: list[Workload]
    """All with the same weight."""
    weighted: list[Workload]
    """The same, with the requested weight of the current one."""
    cycles_known: bool


def fit(request: FitRequest, now: datetime) -> Stored:
    """The requested model, with its expected error on a workload that it was not fitted to."""
    _check(request)
    fit_input = _fit_input(request)
    model = _model(request, fit_input, request.kind, now)
    error_ratio = min(1.0, _KINDS[request.kind].error_ratio(fit_input))
    return msgspec.structs.replace(
        model, origin=msgspec.structs.replace(model.origin, error_ratio=error_ratio)
    )


def fit_kind(request: FitRequest, kind: str, now: datetime) -> Stored:
    """A model of one kind, fitted to all samples; its error is unknown, and set to 1."""
    return _model(request, _fit_input(request), kind, now)


def _check(request: FitRequest) -> None:
    if len(request.samples) < _MIN_SAMPLES:
        raise UserError(
            f"{len(request.samples)} samples are too few to fit a model: measure at least {_MIN_SAMPLES}"
        )
    if not all(isfinite(sample.watts) and isfinite(sample.load.cpu_ratio) for sample in request.samples):
        raise UserError("a sample without a number for watts or CPU cannot be fitted: leave it out")


def _fit_input(request: FitRequest) -> _FitInput:
    groups = list(by_group(request.samples))
    current = groups.index(request.current_group) if request.current_group in groups else None
    workloads = workloads_of(request.samples)
    return _FitInput(
        workloads,
        weighted(workloads, current, request.current_weight),
        cycles_known=all(sample.load.frequency_ratio is not None for sample in request.samples),
    )


def _model(request: FitRequest, fit_input: _FitInput, kind: str, now: datetime) -> Stored:
    fitted = _KINDS[kind].fit(fit_input)
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


def _fit_curve(fit_input: _FitInput) -> Fit:
    form = choose_form(fit_input.workloads, cycles_known=fit_input.cycles_known)
    return fit_form(fit_input.weighted, form)


def _make_curve(fitted: Fit, origin: Origin) -> CurveModel:
    return CurveModel(
        origin=origin,
        idle_watts=fitted.idle_watts,
        coefficients_watts=dict(zip(fitted.features, fitted.coefficients_watts, strict=True)),
        points=fitted.points,
    )


def _curve_error_ratio(fit_input: _FitInput) -> float:
    return expected_error_ratio(fit_input.workloads, cycles_known=fit_input.cycles_known)


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
    fit: Callable[[_FitInput], Fit]
    make: Callable[[Fit, Origin], Stored]
    error_ratio: Callable[[_FitInput], float]


def _fixed_form(
    fit_workloads: Callable[[Sequence[Workload]], Fit], make: Callable[[Fit, Origin], Stored]
) -> _Kind:
    """A kind with a fixed form."""

    def error_ratio(fit_input: _FitInput) -> float:
        parts = left_out(parts_of(fit_input.workloads))
        return fmean(part.error_ratio(fit_workloads(others).predict(part)) for others, part in parts)

    return _Kind(lambda fit_input: fit_workloads(fit_input.weighted), make, error_ratio)


# A new kind is a line here.
_KINDS: Mapping[str, _Kind] = {
    "curve": _Kind(_fit_curve, _make_curve, _curve_error_ratio),
    "linear": _fixed_form(_fit_linear, _make_linear),
    "table": _fixed_form(_fit_table, _make_table),
}
KINDS = tuple(_KINDS)
