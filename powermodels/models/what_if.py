"""Power that more load would add to a node, and the power curve of a node. Pure functions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Power of a node at one CPU load."""

    cpu_ratio: float
    watts: float


def add(model: Model, load: Load, envelope: Load) -> Addition:
    """Add an envelope, as shares of the node's capacity, to the load of a node."""
    together = _sum(load, envelope)
    before_watts = model.terms(load).watts
    after_watts = max(before_watts, model.terms(together).watts)
    return Addition(
        before_watts=before_watts,
        after_watts=after_watts,
        error_watts=model.error_ratio * (after_watts - before_watts),
        exceeded=tuple(resource for resource, of in _RATIOS if (of(together) or 0.0) > 1),
    )


def power_curve(model: Model, load: Load, points: int = 11) -> tuple[CurvePoint, ...]:
    """Power of a node from no to full CPU load, with the other resources unchanged."""
    ratios = [index / (points - 1) for index in range(points)]
    return tuple(CurvePoint(ratio, model.terms(replace(load, cpu_ratio=ratio)).watts) for ratio in ratios)


def _sum(load: Load, envelope: Load) -> Load:
    return Load(
        cpu_ratio=load.cpu_ratio + envelope.cpu_ratio,
        memory_ratio=_sum_or_none(load.memory_ratio, envelope.memory_ratio),
        disk_ratio=_sum_or_none(load.disk_ratio, envelope.disk_ratio),
        network_ratio=_sum_or_none(load.network_ratio, envelope.network_ratio),
        frequency_ratio=load.frequency_ratio,
    )


def _sum_or_none(of_node: float | None, of_envelope: float | None) -> float | None:
    """Add values; a value that the node does not report stays unknown."""
    return None if of_node is None else of_node + (of_envelope or 0.0)
