"""Names of the arrays that columns consist of, and their values for the API."""

from math import isnan

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Codes = NDArray[np.int8]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]


def known(values: Floats) -> list[float | None]:
    """The values; None where they are unknown."""
    return [None if isnan(each) else each for each in values.tolist()]
