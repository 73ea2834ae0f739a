"""Fits the requested kind of model, and estimates its error on workloads that it was not fitted to.

The form of a curve is chosen by the machine's own samples.
One workload at a time is left out, each form is fitted to the others, and its mean relative error on the one
left out is noted: one number per form and workload. The start is the simplest form that suits any machine
(`Form()`: the mean of formula and table over CPU time). Each step compares the current form with all forms
that differ in one thing, workload by workload: another shape, cycles instead of CPU time, one more term. A
difference d of errors with mean m and standard deviation s over n workloads counts if

    m > t(1 - 0.05 / k, n - 1) * s / sqrt(n)

This is Student's paired test at the usual 5 %, one-sided, with Bonferroni's correction for the k forms
compared. A lower mean is not enough: with ten workloads and seven forms, one of them has a lower mean by
chance nearly always. Of those that pass, the one with the lowest error is the current form of the next step.
The training sets of two workloads overlap, which makes the test a little too lenient; Bonferroni's correction
for forms that resemble each other makes it a little too strict.

The error of the chosen form on those same workloads would be too low, since it was chosen by them. So the
stated error comes from the whole procedure: leave a workload out, choose and fit by the others only, and
predict the one left out; the mean over the workloads is the error to expect on the next workload.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from math import isfinite, sqrt
from statistics import fmean

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]  # has no stubs

from powermodels.fit.arrays import (
    Floats,
    Workload,
    by_group,
    load_ranges,
    parts_of,
    weighted,
    workloads_of,
)
from powermodels.fit.forms import (
    SHAPES,
    Fit,
    Form,
    bounds_of,
    fit_form,
    fit_shapes,
    least_squares,
    rising_table,
)
from powermodels.models.fitted import Origin
from powermodels.models.regression import LINEAR_FEATURES, CurveModel, LinearModel, TableModel
from powermodels.models.samples import FitRequest, Kind, training_of
from powermodels.models.stored import Stored
from wire.errors import UserError

_MIN_SAMPLES = 10
_LEVEL = 0.05
# Each ratio, or its root: a little traffic already keeps cores out of deep sleep.
EXTRA = ("memory", "disk", "disk_sqrt", "network", "network_sqrt")

Fitter = Callable[[Sequence[Workload]], Fit]


def fit(request: FitRequest, now: datetime) -> Stored:
    """The requested model, with its expected error on a workload that it was not fitted to."""
    if len(request.samples) < _MIN_SAMPLES:
        raise UserError(
            f"{len(request.samples)} samples are too few to fit a model: measure at least {_MIN_SAMPLES}"
        )
    if not all(isfinite(sample.watts) and isfinite(sample.load.cpu_ratio) for sample in request.samples):
        raise UserError("a sample without a number for watts or CPU cannot be fitted: leave it out")
    workloads = workloads_of(request.samples)
    error_ratio = expected_error_ratio(workloads, request.kind, cycles_known=_cycles_known(request))
    return fit_unrated(request, now, min(1.0, error_ratio))


def fit_unrated(request: FitRequest, now: datetime, error_ratio: float = 1.0) -> Stored:
    """The requested model, with a given error: to estimate it takes many times as long as the fit."""
    workloads = workloads_of(request.samples)
    groups = list(by_group(request.samples))
    current = groups.index(request.current_group) if request.current_group in groups else None
    fitter = fitter_of(request.kind, parts_of(workloads), cycles_known=_cycles_known(request))
    fitted = fitter(weighted(workloads, current, request.current_weight))
    origin = Origin(
        features=fitted.features,
        scaling=request.scaling,
        training=training_of(request.samples, fitted.features, request.cap_watts),
        error_ratio=error_ratio,
        made=now,
        host=request.host,
        metered=request.metered,
    )
    return _KINDS[request.kind].make(fitted, origin)


def _cycles_known(request: FitRequest) -> bool:
    return all(sample.load.frequency_ratio is not None for sample in request.samples)


def fitter_of(kind: Kind, parts: Sequence[Workload], *, cycles_known: bool) -> Fitter:
    """The fit of a kind, in the form that suits these parts if the kind has several."""
    fixed = _KINDS[kind].fit
    return fixed or partial(fit_form, form=choose_form(parts, cycles_known=cycles_known))


def expected_error_ratio(workloads: Sequence[Workload], kind: Kind = "curve", *, cycles_known: bool) -> float:
    """The mean relative error to expect on a workload that the model was not fitted to.

    One workload does not show how much others differ. The error on its blocks of time is then too low for a
    chosen form, so ranges of load are left out as well, and the larger error counts.
    """
    partitions = [parts_of(workloads)]
    if len(workloads) == 1 and _KINDS[kind].fit is None:
        partitions.append(load_ranges(workloads[0]))
    return max(
        fmean(
            part.error_ratio(fitter_of(kind, others, cycles_known=cycles_known)(others).predict(part))
            for others, part in left_out(parts)
        )
        for parts in partitions
    )


def left_out(parts: Sequence[Workload]) -> Iterator[tuple[list[Workload], Workload]]:
    """Each part in turn, with all others: `(others, part)`."""
    for index, part in enumerate(parts):
        yield [other for place, other in enumerate(parts) if place != index], part


@dataclass(frozen=True, slots=True)
class _Scored:
    form: Form
    errors: Floats
    """The mean relative error on each part left out."""


def choose_form(parts: Sequence[Workload], *, cycles_known: bool) -> Form:
    """The form for the machine that these workloads, or parts of a single one, ran on."""
    current = _score(parts, Form())[0]
    while True:
        candidates = _neighbours(parts, current.form, cycles_known=cycles_known)
        better = [each for each in candidates if _is_better(each, current, len(candidates))]
        if not better:
            return current.form
        current = min(better, key=lambda each: float(each.errors.mean()))


def _neighbours(parts: Sequence[Workload], form: Form, *, cycles_known: bool) -> list[_Scored]:
    """All forms that differ in one thing."""
    shapes = tuple(shape for shape in SHAPES if shape != form.shape)
    scored = _score(parts, form, *(replace(form, shape=shape) for shape in shapes))[1:]
    if cycles_known:
        scored += _score(parts, replace(form, cpu="cycles" if form.cpu == "cpu" else "cpu"))
    for name in EXTRA:
        if name not in form.extra and _varies(parts, name):
            scored += _score(parts, replace(form, extra=(*form.extra, name)))
    return scored


def _score(parts: Sequence[Workload], *forms: Form) -> list[_Scored]:
    """The errors of forms that differ in shape only, on each part left out."""
    shapes = [form.shape for form in forms]
    errors: list[list[float]] = [[] for _ in forms]
    if len(parts) > 1:
        for others, part in left_out(parts):
            fits = fit_shapes(others, forms[0], shapes)
            for form_errors, shape in zip(errors, shapes, strict=True):
                form_errors.append(part.error_ratio(fits[shape].predict(part)))
    return [_Scored(form, np.array(form_errors)) for form, form_errors in zip(forms, errors, strict=True)]


def _is_better(candidate: _Scored, current: _Scored, compared: int) -> bool:
    gains = current.errors - candidate.errors
    count = len(gains)
    if count < 2:  # noqa: PLR2004 - a standard deviation needs two
        return False
    standard_error = float(gains.std(ddof=1)) / sqrt(count)
    quantile = float(stdtrit(count - 1, 1 - _LEVEL / compared))
    return float(gains.mean()) > max(0.0, quantile * standard_error)


def _varies(parts: Sequence[Workload], name: str) -> bool:
    """Whether a feature can explain anything here."""
    columns = [part.column(name) for part in parts]
    return bool(max(column.max() for column in columns) > min(column.min() for column in columns))


def _make_curve(fitted: Fit, origin: Origin) -> CurveModel:
    return CurveModel(
        origin=origin,
        idle_watts=fitted.idle_watts,
        coefficients_watts=dict(zip(fitted.features, fitted.coefficients_watts, strict=True)),
        points=fitted.points,
    )


def _fit_linear(workloads: Sequence[Workload]) -> Fit:
    idle_watts, *coefficients = least_squares(workloads, LINEAR_FEATURES)
    return Fit(LINEAR_FEATURES, idle_watts, tuple(coefficients), (), bounds_of(workloads))


def _make_linear(fitted: Fit, origin: Origin) -> LinearModel:
    coefficients = dict(zip(fitted.features, fitted.coefficients_watts, strict=True))
    return LinearModel(origin=origin, idle_watts=fitted.idle_watts, coefficients_watts=coefficients)


def _fit_table(workloads: Sequence[Workload]) -> Fit:
    return Fit(("cpu",), 0.0, (0.0,), rising_table(workloads, "cpu"), bounds_of(workloads))


def _make_table(fitted: Fit, origin: Origin) -> TableModel:
    return TableModel(origin=origin, points=fitted.points)


@dataclass(frozen=True, slots=True)
class _Kind:
    make: Callable[[Fit, Origin], Stored]
    fit: Fitter | None = None
    """None if the form is chosen."""


# A new kind is a line here.
_KINDS: Mapping[Kind, _Kind] = {
    "curve": _Kind(_make_curve),
    "linear": _Kind(_make_linear, _fit_linear),
    "table": _Kind(_make_table, _fit_table),
}
