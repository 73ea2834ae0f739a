"""Non-negative regression aimed at the mean relative error, and robust against what a model cannot know."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression  # type: ignore[import-untyped]  # has no stubs

from powermodels.models.basis import row
from powermodels.models.samples import Sample

Floats = NDArray[np.float64]

_ROUNDS = 15
# Errors below this weigh no more: a meter and a clock are not exact either.
_SMALLEST_ERROR_RATIO = 0.01
# Even thinning keeps a fit fast; more samples of one workload say little that is new.
MOST_PER_GROUP = 800


def thinned(samples: Sequence[Sample], most: int = MOST_PER_GROUP) -> list[Sample]:
    """At most about so many samples of each group, evenly over time."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    return [sample for group in groups.values() for sample in group[:: max(1, len(group) // most)]]


def weights(
    samples: Sequence[Sample], current_group: str | None = None, current_weight: float = 1.0
) -> Floats:
    """Each group weighs the same, but the current one as asked, against all others; so do a group's samples.

    The others tell of what the current one does not: idle and peak, another kind of load.
    """
    counts: dict[str, int] = {}
    for sample in samples:
        counts[sample.group] = counts.get(sample.group, 0) + 1
    current = current_weight * max(1, len(counts) - 1)
    shares = {group: (current if group == current_group else 1) / count for group, count in counts.items()}
    return np.array([shares[sample.group] for sample in samples])


def fit_coefficients(
    samples: Sequence[Sample],
    features: Sequence[str],
    current_group: str | None = None,
    current_weight: float = 1.0,
) -> tuple[float, dict[str, float]]:
    """Idle watts and each feature's watts, none negative, with the least mean relative error.

    Least squares with weights made anew from the errors of the round before comes to least absolute errors:
    a workload that draws what the features cannot tell does not bend the whole curve.
    """
    kept = thinned(samples)
    design = np.array([(1.0, *row(features, sample.load)) for sample in kept])
    watts = np.maximum(1.0, np.array([sample.watts for sample in kept]))
    relative_weights = weights(kept, current_group, current_weight) / watts**2
    round_weights = relative_weights
    coefficients = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        regression = LinearRegression(fit_intercept=False, positive=True)
        regression.fit(design, watts, sample_weight=round_weights / round_weights.mean())
        coefficients = np.asarray(regression.coef_, dtype=np.float64)
        error_ratios = np.abs(design @ coefficients - watts) / watts
        round_weights = relative_weights / np.maximum(error_ratios, _SMALLEST_ERROR_RATIO)
    idle_watts, *others = (float(value) for value in coefficients)
    return idle_watts, dict(zip(features, others, strict=True))
