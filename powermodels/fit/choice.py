"""Chooses the form of a machine's curve, and estimates its error, from the machine's own samples.

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]  # has no stubs

from powermodels.fit.arrays import Floats, Workload, load_ranges, parts_of
from powermodels.fit.forms import SHAPES, Form, fit_form, fit_shapes

_LEVEL = 0.05
# Each ratio, or its root: a little traffic already keeps cores out of deep sleep.
EXTRA = ("memory", "disk", "disk_sqrt", "network", "network_sqrt")


@dataclass(frozen=True, slots=True)
class _Scored:
    form: Form
    errors: Floats
    """The mean relative error on each part left out."""


def choose_form(workloads: Sequence[Workload], *, cycles_known: bool) -> Form:
    """The form for the machine that these workloads ran on."""
    return _choose(parts_of(workloads), cycles_known=cycles_known)


def expected_error_ratio(workloads: Sequence[Workload], *, cycles_known: bool) -> float:
    """The mean relative error to expect of the chosen form on a workload that it was not fitted to.

    One workload does not show how much others differ. The error on its blocks of time is then too low, so
    ranges of load are left out as well, and the larger error counts.
    """
    partitions = [parts_of(workloads)]
    if len(workloads) == 1:
        partitions.append(load_ranges(workloads[0]))
    return max(_nested_error_ratio(parts, cycles_known=cycles_known) for parts in partitions)


def plain_error_ratio(workloads: Sequence[Workload]) -> float:
    """The mean relative error to expect of `Form()`, the form to start from."""
    return float(_score(parts_of(workloads), Form())[0].errors.mean())


def left_out(parts: Sequence[Workload]) -> Iterator[tuple[list[Workload], Workload]]:
    """Each part in turn, with all others: `(others, part)`."""
    for index, part in enumerate(parts):
        yield [other for place, other in enumerate(parts) if place != index], part


def _nested_error_ratio(parts: Sequence[Workload], *, cycles_known: bool) -> float:
    errors = [
        part.error_ratio(fit_form(others, _choose(others, cycles_known=cycles_known)).predict(part))
        for others, part in left_out(parts)
    ]
    return float(np.mean(errors))


def _choose(parts: Sequence[Workload], *, cycles_known: bool) -> Form:
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
