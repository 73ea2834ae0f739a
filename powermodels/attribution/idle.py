"""Divides idle power among containers, in addition to their own power. Pure functions.

Idle power is the power of the machine without load, so no measurement can attribute it; a policy does. A new
policy is a function here and a line in `_WEIGHTS`.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from math import fsum

from powermodels.attribution.split import Split
from powermodels.common.interface import Load


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
