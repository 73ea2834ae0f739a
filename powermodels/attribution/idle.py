"""Idle power and who answers for it: a number beside each container's own watts. Pure functions.

Idle power is what the machine would draw with nobody on it, so no measurement can say whose it is; a policy
can. A new one is a function here and a line in `_WEIGHTS`.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from math import fsum

from powermodels.attribution.split import Split
from powermodels.common.interface import Load


class IdlePolicy(StrEnum):
    """How much of the node's idle power each container answers for."""

    NONE = "none"
    EQUAL = "equal"
    """All of it, the same for each."""
    BY_USE = "by-use"
    """In proportion to what each draws; the system bears its part."""
    BY_RESERVATION = "by-reservation"
    """As much as it has reserved of the host, of CPU or memory the larger part; the rest is nobody's."""


def share_idle(policy: IdlePolicy, parts: Split, reserved: Mapping[str, Load]) -> dict[str, float]:
    """Each container's part of the idle watts; together never more than there are."""
    weights, whole = _WEIGHTS[policy](parts, reserved)
    if whole <= 0:
        return dict.fromkeys(parts.containers, 0.0)
    return {name: parts.idle_watts * (weight / whole) for name, weight in weights.items()}


_Weights = tuple[dict[str, float], float]
"""What each container weighs, and what all of the idle power weighs."""


def _nobody(parts: Split, _: Mapping[str, Load]) -> _Weights:
    return dict.fromkeys(parts.containers, 0.0), 0.0


def _equally(parts: Split, _: Mapping[str, Load]) -> _Weights:
    return dict.fromkeys(parts.containers, 1.0), float(len(parts.containers))


def _by_use(parts: Split, _: Mapping[str, Load]) -> _Weights:
    return dict(parts.containers), parts.system_watts + fsum(parts.containers.values())


def _by_reservation(parts: Split, reserved: Mapping[str, Load]) -> _Weights:
    weights = {name: _dominant_ratio(reserved.get(name)) for name in parts.containers}
    # More may be promised than there is.
    return weights, max(1.0, fsum(weights.values()))


_WEIGHTS: Mapping[IdlePolicy, Callable[[Split, Mapping[str, Load]], _Weights]] = {
    IdlePolicy.NONE: _nobody,
    IdlePolicy.EQUAL: _equally,
    IdlePolicy.BY_USE: _by_use,
    IdlePolicy.BY_RESERVATION: _by_reservation,
}


def _dominant_ratio(reserved: Load | None) -> float:
    if reserved is None:
        return 0.0
    return max(0.0, reserved.cpu_ratio, reserved.memory_ratio or 0.0)
