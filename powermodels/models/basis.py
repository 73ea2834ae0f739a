"""The functions of load that regressions are made of, each belonging to one resource.

All take ratios of a fixed capacity, so a coefficient is that function's watts at full use and a model fitted
yesterday means the same today. All grow with load from 0 to 1, so non-negative coefficients make watts that
never fall when load rises. Time spent waiting for disks is not load: it burns nothing, and counting it as
busy costs two points of error on metered servers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite, sqrt

from powermodels.common.interface import Load, Terms
from wire.resources import Resource


@dataclass(frozen=True, slots=True)
class Basis:
    """One function of load, and whose watts it explains."""

    resource: Resource
    of: Callable[[Load], float]


def unit(ratio: float | None) -> float:
    """A ratio within 0-1; what is not known, or no number, adds nothing."""
    return 0.0 if ratio is None or not isfinite(ratio) else min(1.0, max(0.0, ratio))


def cpu(load: Load) -> float:
    """CPU time used, of all there is."""
    return unit(load.cpu_ratio)


def cycles(load: Load) -> float:
    """CPU cycles used, of those there are at the top frequency, which is assumed where none is known."""
    return cpu(load) * (1.0 if load.frequency_ratio is None else unit(load.frequency_ratio))


BASES: Mapping[str, Basis] = {
    "cpu": Basis(Resource.CPU, cpu),
    # The first busy core wakes what all share: power rises steeply from idle, then flattens.
    "cpu_sqrt": Basis(Resource.CPU, lambda load: sqrt(cpu(load))),
    "cycles": Basis(Resource.CPU, cycles),
    "cycles_sqrt": Basis(Resource.CPU, lambda load: sqrt(cycles(load))),
    "memory": Basis(Resource.MEMORY, lambda load: unit(load.memory_ratio)),
    "disk": Basis(Resource.DISK, lambda load: unit(load.disk_ratio)),
    "disk_sqrt": Basis(Resource.DISK, lambda load: sqrt(unit(load.disk_ratio))),
    "network": Basis(Resource.NETWORK, lambda load: unit(load.network_ratio)),
    # A little traffic already keeps cores from sleeping deeply; more of it adds less.
    "network_sqrt": Basis(Resource.NETWORK, lambda load: sqrt(unit(load.network_ratio))),
}


def row(features: Iterable[str], load: Load) -> tuple[float, ...]:
    """The functions' values for one load, in the order asked for."""
    return tuple(BASES[name].of(load) for name in features)


def weighted_terms(idle_watts: float, coefficients: Mapping[str, float], load: Load) -> Terms:
    """Idle power plus each function times its watts, summed by resource."""
    watts = dict.fromkeys(Resource, 0.0)
    for name, coefficient_watts in coefficients.items():
        basis = BASES[name]
        watts[basis.resource] += coefficient_watts * basis.of(load)
    return Terms(
        idle_watts,
        watts[Resource.CPU],
        watts[Resource.MEMORY],
        watts[Resource.DISK],
        watts[Resource.NETWORK],
    )


def bounded(terms: Terms, floor_watts: float, ceiling_watts: float) -> Terms:
    """The same terms with a total within bounds; idle power does not depend on load, so it stays first."""
    idle_watts = min(max(terms.idle_watts, floor_watts), ceiling_watts)
    dynamic_watts = terms.dynamic_watts
    allowed_watts = min(max(terms.watts, idle_watts), ceiling_watts) - idle_watts
    if dynamic_watts <= 0:
        return Terms(idle_watts, 0.0)
    share = allowed_watts / dynamic_watts
    return Terms(
        idle_watts,
        terms.cpu_watts * share,
        terms.memory_watts * share,
        terms.disk_watts * share,
        terms.network_watts * share,
    )
