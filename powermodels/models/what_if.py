"""Power that more load would add to a node: pure functions."""

from collections.abc import Callable
from dataclasses import dataclass
from math import hypot
from operator import attrgetter

from powermodels.common.interface import Load, Model
from wire.resources import Resource

_RATIOS: tuple[tuple[Resource, Callable[[Load], float | None]], ...] = (
    (Resource.CPU, attrgetter("cpu_ratio")),
    (Resource.MEMORY, attrgetter("memory_ratio")),
    (Resource.DISK, attrgetter("disk_ratio")),
    (Resource.NETWORK, attrgetter("network_ratio")),
)


@dataclass(frozen=True, slots=True)
class Addition:
    """Power of a node with and without an envelope."""

    before_watts: float
    after_watts: float
    error_watts: float
    """Expected error of the difference; a wrong offset cancels out."""
    exceeded: tuple[Resource, ...]
    """Resources that would exceed the capacity of the node; their power is that of full usage."""

    @property
    def added_watts(self) -> float:
        return self.after_watts - self.before_watts


def add(
    model: Model, load: Load, envelope: Load, *, power_weight: float = 1.0, weight_error_ratio: float = 0.0
) -> Addition:
    """Add an envelope, as shares of the node's capacity, to the load of a node; a negative one removes load.

    The dynamic power of applications on one machine adds up, and idle power is shared. `power_weight` is the
    power of the envelope's CPU time relative to the average, and `weight_error_ratio` the error of that.
    """
    together = _sum(load, envelope)
    before, after = model.terms(load), model.terms(together)
    cpu_watts = power_weight * (after.cpu_watts - before.cpu_watts)
    change_watts = cpu_watts + (after.watts - after.cpu_watts) - (before.watts - before.cpu_watts)
    if all((of(envelope) or 0.0) >= 0 for _, of in _RATIOS):
        change_watts = max(0.0, change_watts)
    return Addition(
        before_watts=before.watts,
        after_watts=before.watts + change_watts,
        error_watts=hypot(model.error_ratio * change_watts, weight_error_ratio * cpu_watts),
        exceeded=tuple(resource for resource, of in _RATIOS if (of(together) or 0.0) > 1),
    )


def _sum(load: Load, envelope: Load) -> Load:
    return Load(
        cpu_ratio=max(0.0, load.cpu_ratio + envelope.cpu_ratio),
        memory_ratio=_sum_or_none(load.memory_ratio, envelope.memory_ratio),
        disk_ratio=_sum_or_none(load.disk_ratio, envelope.disk_ratio),
        network_ratio=_sum_or_none(load.network_ratio, envelope.network_ratio),
        frequency_ratio=load.frequency_ratio,
    )


def _sum_or_none(of_node: float | None, of_envelope: float | None) -> float | None:
    """Add values; a value that the node does not report stays unknown."""
    return None if of_node is None else max(0.0, of_node + (of_envelope or 0.0))
