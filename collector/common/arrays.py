"""Names of the arrays that columns consist of."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Codes = NDArray[np.int8]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]
