"""Sums of the expected use of tasks, with a margin for their variance."""

import numpy as np

from collector.snapshot.power_curves import Floats
from wire.resources import RESOURCES, Quantities, Resource

CPU, MEMORY = RESOURCES.index(Resource.CPU), RESOURCES.index(Resource.MEMORY)


def needed(expected: Floats, variance: Floats, spread: Floats) -> Floats:
    """Return the expected use and as many deviations as `spread` keeps free of each resource."""
    need: Floats = np.maximum(variance, 0.0)
    np.sqrt(need, out=need)
    need *= spread
    need += expected
    return need


def amounts(row: Floats) -> Quantities:
    """Return a row of four amounts as quantities."""
    cpu, memory, disk, network = (float(each) for each in row)
    return Quantities(cpu, round(memory), disk, network)
