"""When a host is overloaded: by a fixed threshold, by the variation of its load, or by its trend.

After A. Beloglazov and R. Buyya, "Optimal online deterministic algorithms and adaptive heuristics for energy
and performance efficient dynamic consolidation of virtual machines in cloud data centers", Concurrency and
Computation 24 (2012). Every function works on many hosts at once: one row each, columns from the oldest
to the newest load, NaN before the oldest.
"""

from enum import StrEnum

import numpy as np

from collector.common.arrays import Flags, Floats


class Overload(StrEnum):
    """How overload is detected."""

    FIXED = "thr"
    """Use exceeds a fixed share."""
    MEDIAN_DEVIATION = "mad"
    """Less is free than a multiple of the load's median absolute deviation."""
    QUARTILES = "iqr"
    """Less is free than a multiple of the load's interquartile range."""
    REGRESSION = "lr"
    """A line through the newest loads, times a margin, reaches the capacity."""


PUBLISHED = {
    Overload.FIXED: 0.8,
    Overload.MEDIAN_DEVIATION: 2.5,
    Overload.QUARTILES: 1.5,
    Overload.REGRESSION: 1.2,
}
"""The parameters that the authors recommend."""
LOOK_BACK = 30
_REGRESSED = 10
"""Few enough to follow the newest loads."""
LOADS_READ = {
    Overload.FIXED: 0,
    Overload.MEDIAN_DEVIATION: LOOK_BACK,
    Overload.QUARTILES: LOOK_BACK,
    Overload.REGRESSION: _REGRESSED,
}
"""How many of the newest loads each rule reads."""
_FEWEST = 12
"""With fewer loads, neither deviation nor quartiles are reliable."""


def median_deviation(history: Floats) -> Floats:
    """Return the median absolute deviation of each row."""
    middle = np.nanmedian(history, axis=1, keepdims=True)
    deviation: Floats = np.nanmedian(np.abs(history - middle), axis=1)
    return deviation


def quartile_range(history: Floats) -> Floats:
    """Return the interquartile range of each row; both quartiles are loads of the row."""
    ordered = np.sort(history, axis=1)  # NaN comes last
    count = np.count_nonzero(~np.isnan(history), axis=1)
    lower, upper = (np.floor(part * (count + 1) + 0.5).astype(np.intp) - 1 for part in (0.25, 0.75))
    rows = np.arange(history.shape[0])
    spread: Floats = ordered[rows, upper] - ordered[rows, lower]
    return spread


def _next_weights(points: int) -> Floats:
    """Return weights that extrapolate a line through equally spaced points by one step."""
    at = np.arange(1.0, points + 1)
    centred = at - at.mean()
    weights: Floats = 1 / points + (points + 1 - at.mean()) * centred / np.square(centred).sum()
    return weights


_NEXT = _next_weights(_REGRESSED)


def next_load(history: Floats) -> Floats:
    """Extrapolate the newest ten loads of each row by one step, with a least-squares line.

    The paper weighs the newest more. The authors' own code, which their figures come from, does not: its
    weights apply only where four of ten are zero, and none ever is.
    """
    predicted: Floats = history[:, -_REGRESSED:] @ _NEXT
    return predicted


def overloaded(load: Floats, history: Floats, *, rule: Overload, safety: float, fallback: float) -> Flags:
    """Return the overloaded hosts, by their present and recent loads as shares of capacity.

    With too short a history, a load above `fallback` is overload.
    """
    if rule is Overload.FIXED:
        return load > safety
    needed = _REGRESSED if rule is Overload.REGRESSION else _FEWEST
    over = load > fallback
    long = np.flatnonzero(np.count_nonzero(~np.isnan(history), axis=1) >= needed)
    if long.size:
        over[long] = _detect(load[long], history[long], rule, safety)
    return over


def _detect(load: Floats, history: Floats, rule: Overload, safety: float) -> Flags:
    if rule is Overload.REGRESSION:
        return next_load(history) * safety >= 1
    varies = median_deviation if rule is Overload.MEDIAN_DEVIATION else quartile_range
    return load > 1 - safety * varies(history)
