"""Putting nodes in order, which is much of what ranking ten thousand of them costs."""

import numpy as np

from collector.snapshot.power_curves import Floats, Rows

_FEW = 1500
"""So few are sorted sooner by comparing them."""
_SIGN = np.int64(-(2**63))
_LAST = np.int64(2**63 - 1)
_DIGIT_BITS = 16


def rising(values: Floats) -> Rows:
    """The places of values, the lowest first; of equals, the one that comes first. What is no number is last.

    As numpy's stable argsort, in a third of its time: that one compares floats, but counts numbers of 16
    bits. So a float is sorted as four digits of 16 bits, the least significant first.
    """
    if values.size < _FEW:
        return np.argsort(values, kind="stable")
    bits = (values + 0.0).view(np.int64)  # Adding nothing makes one of the two zeros that floats have.
    bits[np.isnan(values)] = _LAST
    # As whole numbers without a sign, bits are in the order of their floats once the sign of what is positive
    # is set, and all of what is negative are turned over.
    keys = bits ^ ((bits >> 63) | _SIGN)
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT_BITS, 64, _DIGIT_BITS):
        digits = (keys >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order
