"""From a request to a model: fits the kind asked for, and says how far off it is on what it has not seen."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import isfinite
from statistics import fmean

import msgspec
import numpy as np
from sklearn.isotonic import IsotonicRegression  # type: ignore[import-untyped]  # has no stubs

from powermodels.fit.regression import fit_coefficients, thinned, weights
from powermodels.models.basis import cpu
from powermodels.models.fitted import Origin
from powermodels.models.regression import (
    CURVE_FEATURES,
    CYCLES_CURVE_FEATURES,
    LINEAR_FEATURES,
    CurveModel,
    LinearModel,
)
from powermodels.models.samples import FitRequest, Sample, training_of
from powermodels.models.stored import Stored
from powermodels.models.table import Point, TableModel
from wire.errors import UserError

LEAST_SAMPLES = 10
_FOLDS = 5
_TABLE_POINTS = 21


def fit(request: FitRequest, now: datetime) -> Stored:
    """The model asked for, or of all kinds the one that errs least on what it was not fitted to."""
    _check(request)
    names = tuple(KINDS) if request.kind == "best" else (request.kind,)
    errors = {name: _cross_validated_error_ratio(request, name, now) for name in names}
    best = min(errors, key=errors.__getitem__)
    model = fit_kind(request, best, now)
    origin = msgspec.structs.replace(model.origin, error_ratio=min(1.0, errors[best]))
    return msgspec.structs.replace(model, origin=origin)


def fit_kind(request: FitRequest, kind: str, now: datetime) -> Stored:
    """One kind, on all samples, its error unknown (1)."""
    return KINDS[kind](request, now)


def _check(request: FitRequest) -> None:
    if len(request.samples) < LEAST_SAMPLES:
        raise UserError(
            f"{len(request.samples)} samples are too few to fit a model: measure at least {LEAST_SAMPLES}"
        )
    if not all(isfinite(sample.watts) and isfinite(sample.load.cpu_ratio) for sample in request.samples):
        raise UserError("a sample without a number for watts or CPU cannot be fitted: leave it out")


def _fit_linear(request: FitRequest, now: datetime) -> LinearModel:
    idle_watts, coefficients = _coefficients(request, LINEAR_FEATURES)
    return LinearModel(
        origin=_origin(request, LINEAR_FEATURES, now), idle_watts=idle_watts, coefficients_watts=coefficients
    )


def _fit_curve(request: FitRequest, now: datetime) -> CurveModel:
    curves = [_fit_curve_of(request, CURVE_FEATURES, now)]
    if all(sample.load.frequency_ratio is not None for sample in request.samples):
        curves.append(_fit_curve_of(request, CYCLES_CURVE_FEATURES, now))
    # Both have the same number of coefficients, so what they were fitted to may judge.
    return min(curves, key=lambda curve: mean_error_ratio(curve, request.samples))


def _fit_curve_of(request: FitRequest, features: tuple[str, ...], now: datetime) -> CurveModel:
    idle_watts, coefficients = _coefficients(request, features)
    return CurveModel(
        origin=_origin(request, features, now), idle_watts=idle_watts, coefficients_watts=coefficients
    )


def _fit_table(request: FitRequest, now: datetime) -> TableModel:
    kept = thinned(request.samples)
    loads = np.array([cpu(sample.load) for sample in kept])
    watts = np.array([sample.watts for sample in kept])
    rising = IsotonicRegression(out_of_bounds="clip")
    of_groups = weights(kept, request.current_group, request.current_weight)
    rising.fit(loads, watts, sample_weight=of_groups / np.maximum(1.0, watts) ** 2)
    # Closer together at low load, where power changes most.
    grid = np.linspace(0.0, 1.0, _TABLE_POINTS) ** 2
    inside = grid[(grid >= loads.min()) & (grid <= loads.max())]
    points = np.unique(np.concatenate([[loads.min()], inside, [loads.max()]]))
    return TableModel(
        origin=_origin(request, ("cpu",), now),
        points=tuple(
            Point(float(load), float(value))
            for load, value in zip(points, rising.predict(points), strict=True)
        ),
    )


# A new kind is a function above and a line here.
KINDS: Mapping[str, Callable[[FitRequest, datetime], Stored]] = {
    "curve": _fit_curve,
    "linear": _fit_linear,
    "table": _fit_table,
}


def _coefficients(request: FitRequest, features: tuple[str, ...]) -> tuple[float, dict[str, float]]:
    return fit_coefficients(request.samples, features, request.current_group, request.current_weight)


def _origin(request: FitRequest, features: tuple[str, ...], now: datetime) -> Origin:
    return Origin(
        features=features,
        scaling=request.scaling,
        training=training_of(request.samples, features, request.cap_watts),
        error_ratio=1.0,
        made=now,
        host=request.host,
        metered=request.metered,
    )


def _cross_validated_error_ratio(request: FitRequest, kind: str, now: datetime) -> float:
    """Mean relative error on each part of the samples, fitted to the others."""
    parts = _parts(request.samples)
    errors: list[float] = []
    for index, held_out in enumerate(parts):
        others = tuple(sample for other, part in enumerate(parts) if other != index for sample in part)
        model = fit_kind(msgspec.structs.replace(request, samples=others), kind, now)
        errors.append(mean_error_ratio(model, held_out))
    return fmean(errors)


def mean_error_ratio(model: Stored, samples: Sequence[Sample]) -> float:
    """How far off a model is, relative to what was metered."""
    return fmean(abs(model.terms(s.load).watts - s.watts) / max(1.0, s.watts) for s in thinned(samples))


def _parts(samples: Sequence[Sample]) -> list[list[Sample]]:
    """The groups, since samples of one workload know each other; of a single one, stretches of time."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    if len(groups) > 1:
        return list(groups.values())
    size = -(-len(samples) // _FOLDS)
    return [list(samples[start : start + size]) for start in range(0, len(samples), size)]
