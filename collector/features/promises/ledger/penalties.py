"""The cost of broken promises, in columns."""

import numpy as np

from collector.common.arrays import Flags, Floats

_TARGETS = (0.0, 0.5, 0.9, 1.0)
"""The classes C, B and A of the study. The bounds of other classes are interpolated."""
_MINOR_ABOVE = (0.0, 0.495, 0.8911, 0.99)
_MAJOR_ABOVE = (0.0, 0.475, 0.8556, 0.95)
_MINOR, _MAJOR, _SEVERE = 0.1, 0.3, 1.0
_HIGHEST_TARGET = 0.9999
"""A promise of 1 is broken below this value, since every start takes some time."""


def is_broken(target: Floats, availability: Floats) -> Flags:
    """Whether a promise that ends now is broken."""
    return availability < np.minimum(target, _HIGHEST_TARGET)


def penalty(target: Floats, availability: Floats, seconds: Floats, cpus: Floats | float = 1.0) -> Floats:
    """The shortfall of requests that ran and waited for `seconds`, in CPU seconds, with its surcharge.

    The surcharge is 10 %, 30 % or 100 %, by the depth of the shortfall.
    """
    is_minor = availability >= np.interp(target, _TARGETS, _MINOR_ABOVE)
    is_major = availability >= np.interp(target, _TARGETS, _MAJOR_ABOVE)
    surcharge = np.where(is_minor, _MINOR, np.where(is_major, _MAJOR, _SEVERE))
    shortfall = np.where(is_broken(target, availability), target - availability, 0.0)
    return shortfall * seconds * cpus * (1.0 + surcharge)


def gini(values: Floats) -> float:
    """The Gini coefficient: 0 if all values are equal or there is none, towards 1 if one has everything."""
    count, total = len(values), float(values.sum())
    if total <= 0:
        return 0.0
    ranks = np.arange(1, count + 1)
    return float((2 * ranks - count - 1) @ np.sort(values) / (count * total))
