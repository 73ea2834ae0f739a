"""The functions of load in regressions, each of one resource.

All take ratios of a fixed capacity, so a coefficient is the watts of that function at full usage, and stays
valid. All increase with load from 0 to 1, so with non-negative coefficients power never decreases with load.
I/O wait is not load: it needs no power, and counting it as busy adds two points of error on metered servers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite, sqrt

from powermodels.common.interface import Load, Terms
from wire.resources import Resource


@dataclass(frozen=True, slots=True)
class Basis:
    """One function of load, and its resource."""

    resource: Resource
    of: Callable[[Load], float]


def unit(ratio: float | None) -> float:
    """Limit a ratio to 0-1; unknown values and NaN count as 0."""
    return 0.0 if ratio is None or not isfinite(ratio) else min(1.0, max(0.0, ratio))


def cpu(load: Load) -> float:
    """Used share of CPU time."""
    return unit(load.cpu_ratio)


def cycles(load: Load) -> float:
    """Used share of CPU cycles at the maximum frequency, which is assumed if unknown."""
    return cpu(load) * (1.0 if load.frequency_ratio is None else unit(load.frequency_ratio))


BASES: Mapping[str, Basis] = {
    "cpu": Basis(Resource.CPU, cpu),
    # The first busy core wakes shared parts: power rises steeply from idle, then flattens.
    "cpu_sqrt": Basis(Resource.CPU, lambda load: sqrt(cpu(load))),
    "cycles": Basis(Resource.CPU, cycles),
    "cycles_sqrt": Basis(Resource.CPU, lambda load: sqrt(cycles(load))),
    "memory": Basis(Resource.MEMORY, lambda load: unit(load.memory_ratio)),
    "disk": Basis(Resource.DISK, lambda load: unit(load.disk_ratio)),
    "disk_sqrt": Basis(Resource.DISK, lambda load: sqrt(unit(load.disk_ratio))),
    "network": Basis(Resource.NETWORK, lambda load: unit(load.network_ratio)),
    # Little traffic already keeps cores out of deep sleep; more adds less.
    "network_sqrt": Basis(Resource.NETWORK, lambda load: sqrt(unit(load.network_ratio))),
}


def row(features: Iterable[str], load: Load) -> tuple[float, ...]:
    """Values of the named functions for one load."""
    return tuple(BASES[name].of(load) for name in features)


def weighted_terms(idle_watts: float, coefficients: Mapping[str, float], load: Load) -> Terms:
    """Idle power, and the sum of function times coefficient by resource."""
    watts = dict.fromkeys(Resource, 0.0)
    for name, coefficient_watts in coefficients.items():
        basis = BASES[name]
        watts[basis.resource] += coefficient_watts * basis.of(load)
    return Terms(idle_watts, *watts.values())
