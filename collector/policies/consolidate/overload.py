"""When a host counts as overloaded: by a fixed share, by how much its load varies, or by where its load goes.

After A. Beloglazov and R. Buyya, "Optimal online deterministic algorithms and adaptive heuristics for energy
and performance efficient dynamic consolidation of virtual machines in cloud data centers", Concurrency and
Computation 24 (2012). Everything works on many hosts at once: one row each, its columns from the oldest to
the newest, NaN before the oldest that is known.
"""

from enum import StrEnum

import numpy as np

from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import Flags


class Overload(StrEnum):
    """How overload is told."""

    FIXED = "thr"
    """More than a fixed share is used."""
    MEDIAN_DEVIATION = "mad"
    """What is left is less than some median absolute deviations of the load."""
    QUARTILES = "iqr"
    """What is left is less than some interquartile ranges of the load."""
    REGRESSION = "lr"
    """A line through the newest loads reaches the whole, a margin included."""


PUBLISHED = {
    Overload.FIXED: 0.8,
    Overload.MEDIAN_DEVIATION: 2.5,
    Overload.QUARTILES: 1.5,
    Overload.REGRESSION: 1.2,
}
"""The parameters that their authors found best."""
LOOK_BACK = 30
_REGRESSED = 10
"""Few enough to follow the newest loads."""
_FEWEST = 12
"""Of fewer loads, neither deviation nor quartiles say much."""


def median_deviation(history: Floats) -> Floats:
    """The median absolute deviation of each row."""
    middle = np.nanmedian(history, axis=1, keepdims=True)
    deviation: Floats = np.nanmedian(np.abs(history - middle), axis=1)
    return deviation


def quartile_range(history: Floats) -> Floats:
    """The interquartile range of each row, both quartiles being loads that were really there."""
    ordered = np.sort(history, axis=1)  # NaN comes last
    count = np.count_nonzero(~np.isnan(history), axis=1)
    lower, upper = (np.floor(part * (count + 1) + 0.5).astype(np.intp) - 1 for part in (0.25, 0.75))
    rows = np.arange(history.shape[0])
    spread: Floats = ordered[rows, upper] - ordered[rows, lower]
    return spread


def _next_weights(points: int) -> Floats:
    """The line through equally spaced points, one step further on, as a weight for each of them."""
    at = np.arange(1.0, points + 1)
    centred = at - at.mean()
    weights: Floats = 1 / points + (points + 1 - at.mean()) * centred / np.square(centred).sum()
    return weights


_NEXT = _next_weights(_REGRESSED)


def next_load(history: Floats) -> Floats:
    """Where the newest ten of each row lead, one step on: by a straight line of least squares.

    The paper weighs the newest more. The authors' own code, which their figures come from, does not: its
    weights apply only where four of ten are zero, and none ever is.
    """
    predicted: Floats = history[:, -_REGRESSED:] @ _NEXT
    return predicted


def overloaded(load: Floats, history: Floats, *, rule: Overload, safety: float, fallback: float) -> Flags:
    """Which hosts are overloaded, by the share that they use now and the shares that they used of late.

    Too short a history is judged by the share `fallback` alone.
    """
    if rule is Overload.FIXED:
        return load > safety
    needed = _REGRESSED if rule is Overload.REGRESSION else _FEWEST
    over = load > fallback
    long = np.flatnonzero(np.count_nonzero(~np.isnan(history), axis=1) >= needed)
    if long.size:
        over[long] = _judged(load[long], history[long], rule, safety)
    return over


def _judged(load: Floats, history: Floats, rule: Overload, safety: float) -> Flags:
    if rule is Overload.REGRESSION:
        return next_load(history) * safety >= 1
    varies = median_deviation if rule is Overload.MEDIAN_DEVIATION else quartile_range
    return load > 1 - safety * varies(history)
