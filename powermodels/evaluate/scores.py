"""Errors of predicted watts against measured ones."""

from collections.abc import Iterable, Sequence
from math import ceil, sqrt
from statistics import fmean

import msgspec

_DIGITS = 2


class Score(msgspec.Struct, frozen=True):
    """Percentages are numbers like 7.9."""

    mape: float
    """Mean relative error, in per cent."""
    mae: float
    """Mean error, in watts."""
    p95: float
    """95th percentile of the relative error, in per cent."""
    dynamic_range: float
    """Root of the mean square error divided by the difference of the highest and lowest power, in per cent.

    Unlike the relative error, it does not become smaller with a large idle power.
    """


def score(measured: Sequence[float], predicted: Sequence[float], range_watts: float) -> Score:
    """Score predictions on a machine whose power spans `range_watts`."""
    errors = [abs(guess - watts) for guess, watts in zip(predicted, measured, strict=True)]
    ratios = sorted(error / max(1.0, watts) for error, watts in zip(errors, measured, strict=True))
    return Score(
        mape=round(100 * fmean(ratios), _DIGITS),
        mae=round(fmean(errors), _DIGITS),
        p95=round(100 * ratios[ceil(0.95 * len(ratios)) - 1], _DIGITS),
        dynamic_range=round(
            100 * sqrt(fmean(error * error for error in errors)) / max(1.0, range_watts), _DIGITS
        ),
    )


def mean_score(scores: Iterable[Score]) -> Score:
    """The mean of each number."""
    rows = [msgspec.structs.astuple(each) for each in scores]
    return Score(*(round(fmean(column), _DIGITS) for column in zip(*rows, strict=True)))
