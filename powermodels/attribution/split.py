"""Splits the power of a node into idle, system and containers. Pure functions.

Each term of the model is divided by usage of its resource: CPU watts by CPU time, memory watts by memory in
use, and so on. CPU time counts with the weight of its service, if one is learned. Usage outside containers is
the system's.

Idle power is the power of the machine without load, so no measurement can attribute it; a policy does, in
addition to the containers' own power. A new policy is a function here and a line in `_WEIGHTS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum, hypot

from powermodels.common.interface import Load, Scope, Terms
from wire.resources import RESOURCES, Resource

# Equal usage is not equal power: processes of equal CPU time differ by a factor of two and more. Of two with
# 1 W and 2 W, each gets 1.5 W: an error of a third.
UNEQUAL_USE_ERROR = 1 / 3
# A larger error has no further meaning.
_LARGEST_CONTAINER_ERROR = 1.0


@dataclass(frozen=True, slots=True)
class Split:
    """`idle_watts + system_watts + sum(containers)` is the sum of the terms; no value is negative."""

    idle_watts: float
    system_watts: float
    containers: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PowerWeights:
    """Power of CPU time, relative to the average of the node."""

    containers: Mapping[str, float] = field(default_factory=dict)
    """1 for a container that is missing."""
    system: float = 1.0


_EQUAL = PowerWeights()


def split(terms: Terms, load: Load, containers: Mapping[str, Load], weights: PowerWeights = _EQUAL) -> Split:
    """Divide the terms by usage, CPU watts by weighted usage; `load` is the usage of the whole host."""
    watts = [0.0] * len(containers)
    ratios = [each.ratios for each in containers.values()]
    for place, (term_watts, host_ratio) in enumerate(zip(terms.dynamic, load.ratios, strict=True)):
        if term_watts <= 0 or host_ratio is None:
            continue
        uses = [max(0.0, each[place] or 0.0) for each in ratios]
        # Host and containers are not read at the same instant: the sum of containers may exceed the host.
        system = max(0.0, host_ratio - fsum(uses))
        if RESOURCES[place] is Resource.CPU:
            uses = [
                use * weights.containers.get(name, 1.0) for name, use in zip(containers, uses, strict=True)
            ]
            system *= weights.system
        whole = system + fsum(uses)
        if whole > 0:
            watts = [so_far + term_watts * (use / whole) for so_far, use in zip(watts, uses, strict=True)]
    return Split(
        idle_watts=terms.idle_watts,
        system_watts=max(0.0, terms.dynamic_watts - fsum(watts)),
        containers=dict(zip(containers, watts, strict=True)),
    )


def fit_to_meter(terms: Terms, metered_watts: float, scope: Scope, model_scope: Scope = Scope.NODE) -> Terms:
    """Scale the terms of the model to the metered watts.

    With the same scope, the idle power of the model stays, up to the metered watts, and the rest is scaled.
    With different scopes, it is unknown how much of the idle power the meter includes, so all terms in its
    scope are scaled alike; the others are not part of its watts.
    """
    if scope is model_scope:
        idle_watts = min(terms.idle_watts, metered_watts)
        return _scaled(terms.dynamic, metered_watts - idle_watts, idle_watts)
    # CPU comes first, then memory, then what only a meter of the whole machine measures.
    count = {Scope.NODE: 4, Scope.CPU: 1}.get(scope, 2)
    in_scope = terms.dynamic[:count]
    in_scope_watts = terms.idle_watts + fsum(in_scope)
    if in_scope_watts <= 0:
        return Terms(idle_watts=metered_watts, cpu_watts=0.0)
    idle_watts = metered_watts * (terms.idle_watts / in_scope_watts)
    return _scaled(in_scope, metered_watts - idle_watts, idle_watts)


def container_error_ratio(terms: Terms, error_ratio: float, unequal_share: float = 1.0) -> float:
    """The expected relative error of a container's watts, given the node's.

    All of the node's error may be in its dynamic power, which is smaller than the total; the error of
    dividing by usage is added, or the share of it that learned weights leave. Never less than the node's own.
    """
    if terms.dynamic_watts <= 0:
        return max(error_ratio, _LARGEST_CONTAINER_ERROR)
    carried = terms.watts * error_ratio / terms.dynamic_watts
    return max(error_ratio, min(_LARGEST_CONTAINER_ERROR, hypot(carried, unequal_share * UNEQUAL_USE_ERROR)))


def _scaled(dynamic: Sequence[float], to_watts: float, idle_watts: float) -> Terms:
    whole = fsum(dynamic)
    if whole <= 0:
        # The meter measures load that the model does not have: it counts as CPU, and so as system.
        return Terms(idle_watts=idle_watts, cpu_watts=to_watts)
    return Terms(idle_watts, *(to_watts * (part / whole) for part in dynamic))


class IdlePolicy(StrEnum):
    """How the idle power of the node is divided among containers."""

    NONE = "none"
    EQUAL = "equal"
    """The same share for each container."""
    BY_USE = "by-use"
    """In proportion to the power of each container; the system has its share."""
    BY_RESERVATION = "by-reservation"
    """The share of the host that each reserves, of CPU or memory the larger one; the rest is not divided."""


def share_idle(policy: IdlePolicy, parts: Split, reserved: Mapping[str, Load]) -> dict[str, float]:
    """Share of each container in the idle power; the sum never exceeds it."""
    weights, whole = _WEIGHTS[policy](parts, reserved)
    if whole <= 0:
        return dict.fromkeys(parts.containers, 0.0)
    return {name: parts.idle_watts * (weight / whole) for name, weight in weights.items()}


_Weights = tuple[dict[str, float], float]
"""Weight of each container, and the weight of the whole idle power."""


def _no_share(parts: Split, _: Mapping[str, Load]) -> _Weights:
    return dict.fromkeys(parts.containers, 0.0), 0.0


def _equally(parts: Split, _: Mapping[str, Load]) -> _Weights:
    return dict.fromkeys(parts.containers, 1.0), float(len(parts.containers))


def _by_use(parts: Split, _: Mapping[str, Load]) -> _Weights:
    return dict(parts.containers), parts.system_watts + fsum(parts.containers.values())


def _by_reservation(parts: Split, reserved: Mapping[str, Load]) -> _Weights:
    weights = {name: _dominant_ratio(reserved.get(name)) for name in parts.containers}
    # Reservations may exceed the host.
    return weights, max(1.0, fsum(weights.values()))


_WEIGHTS: Mapping[IdlePolicy, Callable[[Split, Mapping[str, Load]], _Weights]] = {
    IdlePolicy.NONE: _no_share,
    IdlePolicy.EQUAL: _equally,
    IdlePolicy.BY_USE: _by_use,
    IdlePolicy.BY_RESERVATION: _by_reservation,
}


def _dominant_ratio(reserved: Load | None) -> float:
    if reserved is None:
        return 0.0
    return max(0.0, reserved.cpu_ratio, reserved.memory_ratio or 0.0)
