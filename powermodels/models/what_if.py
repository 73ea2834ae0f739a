"""Power that more load would add to a node: pure functions."""

from dataclasses import dataclass
from math import hypot

from powermodels.common.interface import Load, Model
from wire.resources import RESOURCES, Resource


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
    if all((ratio or 0.0) >= 0 for ratio in envelope.ratios):
        change_watts = max(0.0, change_watts)
    return Addition(
        before_watts=before.watts,
        after_watts=before.watts + change_watts,
        error_watts=hypot(model.error_ratio * change_watts, weight_error_ratio * cpu_watts),
        exceeded=tuple(
            resource for resource, ratio in zip(RESOURCES, together.ratios, strict=True) if (ratio or 0.0) > 1
        ),
    )


def _sum(load: Load, envelope: Load) -> Load:
    """Add loads; a value that the node does not report stays unknown."""
    memory_ratio, disk_ratio, network_ratio = (
        None if of_node is None else max(0.0, of_node + (of_envelope or 0.0))
        for of_node, of_envelope in zip(load.ratios[1:], envelope.ratios[1:], strict=True)
    )
    cpu_ratio = max(0.0, load.cpu_ratio + envelope.cpu_ratio)
    return Load(cpu_ratio, memory_ratio, disk_ratio, network_ratio, load.frequency_ratio)
