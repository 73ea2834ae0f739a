"""A fast stable sort, since sorting is much of the cost of ranking ten thousand nodes."""

import numpy as np

from collector.common.arrays import Floats, Rows

_FEW = 1500
"""Below this size, comparing is faster."""
_SIGN = np.int64(-(2**63))
_LAST = np.int64(2**63 - 1)
_DIGIT_BITS = 16


def stable_argsort(values: Floats) -> Rows:
    """Return the indices of values in ascending order, stable, NaN last.

    Does what numpy's stable argsort does in a third of its time: numpy compares floats, but sorts 16-bit
    integers by radix. So each float is sorted as four digits of 16 bits, the least significant first.
    """
    if values.size < _FEW:
        return np.argsort(values, kind="stable")
    bits = (values + 0.0).view(np.int64)  # Adding 0.0 turns -0.0 into 0.0.
    bits[np.isnan(values)] = _LAST
    # Unsigned bits sort like their floats if the sign bit of positive floats is set, and all bits of negative
    # ones are flipped.
    keys = bits ^ ((bits >> 63) | _SIGN)
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT_BITS, 64, _DIGIT_BITS):
        digits = (keys >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order
