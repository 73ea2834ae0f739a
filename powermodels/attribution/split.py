"""Who draws what: a node's watts split into idle, system and containers. Pure functions.

Each term of the model is shared out by use of that term's resource: CPU watts by CPU time, memory watts by
memory held, and so on. What no container uses is the system's. Idle power is nobody's and stays apart; how
much of it each container is to answer for is a matter of policy (`idle`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import fsum, hypot
from operator import attrgetter

from powermodels.common.interface import Load, Scope, Terms

_RESOURCES: tuple[tuple[Callable[[Terms], float], Callable[[Load], float | None]], ...] = (
    (attrgetter("cpu_watts"), attrgetter("cpu_ratio")),
    (attrgetter("memory_watts"), attrgetter("memory_ratio")),
    (attrgetter("disk_watts"), attrgetter("disk_ratio")),
    (attrgetter("network_watts"), attrgetter("network_ratio")),
)

# Equal use is not equal power: processes of equal CPU time differ by a factor of two and more. Of two that
# draw 1 and 2, each is given 1.5: a third off.
_UNEQUAL_USE_ERROR = 1 / 3
# An error beyond this says no more than that the number is hardly known.
_LARGEST_CONTAINER_ERROR = 1.0


@dataclass(frozen=True, slots=True)
class Split:
    """`idle_watts + system_watts + sum(containers)` is the sum of the terms; nobody is negative."""

    idle_watts: float
    system_watts: float
    containers: Mapping[str, float]


def split(terms: Terms, load: Load, containers: Mapping[str, Load]) -> Split:
    """Share the terms out by use, the host's use as a whole in `load`."""
    watts = [0.0] * len(containers)
    for term_of, use_of in _RESOURCES:
        term_watts, host_ratio = term_of(terms), use_of(load)
        if term_watts <= 0 or host_ratio is None:
            continue
        uses = [max(0.0, use_of(each) or 0.0) for each in containers.values()]
        # Host and containers are not read at the same instant: containers may seem to use more than all.
        whole = max(host_ratio, fsum(uses))
        if whole > 0:
            watts = [so_far + term_watts * (use / whole) for so_far, use in zip(watts, uses, strict=True)]
    return Split(
        idle_watts=terms.idle_watts,
        system_watts=max(0.0, terms.dynamic_watts - fsum(watts)),
        containers=dict(zip(containers, watts, strict=True)),
    )


def fit_to_meter(terms: Terms, metered_watts: float, scope: Scope, model_scope: Scope = Scope.NODE) -> Terms:
    """The model's terms, made to add up to what was metered.

    A meter that sees what the model tells of leaves the model's idle power as it is, as far as it goes, and
    corrects what comes on top. Between different scopes nobody knows how much of the model's idle power the
    meter sees, so all terms in the meter's scope are corrected alike; the others are no part of its watts.
    """
    if scope is model_scope:
        idle_watts = min(terms.idle_watts, metered_watts)
        return _scaled(
            (terms.cpu_watts, terms.memory_watts, terms.disk_watts, terms.network_watts),
            metered_watts - idle_watts,
            idle_watts,
        )
    memory_watts = terms.memory_watts if scope is not Scope.CPU else 0.0
    disk_watts, network_watts = (terms.disk_watts, terms.network_watts) if scope is Scope.NODE else (0.0, 0.0)
    seen = (terms.cpu_watts, memory_watts, disk_watts, network_watts)
    seen_watts = terms.idle_watts + fsum(seen)
    if seen_watts <= 0:
        return Terms(idle_watts=metered_watts, cpu_watts=0.0)
    idle_watts = metered_watts * (terms.idle_watts / seen_watts)
    return _scaled(seen, metered_watts - idle_watts, idle_watts)


def container_error_ratio(terms: Terms, error_ratio: float) -> float:
    """The expected relative error of a container's watts, given the node's.

    All of the node's error in watts may lie in its dynamic part, which is smaller than the whole; to it comes
    the error of sharing by use. Never less than the node's own.
    """
    if terms.dynamic_watts <= 0:
        return max(error_ratio, _LARGEST_CONTAINER_ERROR)
    carried = terms.watts * error_ratio / terms.dynamic_watts
    return max(error_ratio, min(_LARGEST_CONTAINER_ERROR, hypot(carried, _UNEQUAL_USE_ERROR)))


def _scaled(dynamic: tuple[float, float, float, float], to_watts: float, idle_watts: float) -> Terms:
    whole = fsum(dynamic)
    if whole <= 0:
        # The model sees no load where the meter does: the CPU's, and with nobody using it the system's.
        return Terms(idle_watts=idle_watts, cpu_watts=to_watts)
    cpu_watts, memory_watts, disk_watts, network_watts = (to_watts * (part / whole) for part in dynamic)
    return Terms(idle_watts, cpu_watts, memory_watts, disk_watts, network_watts)
