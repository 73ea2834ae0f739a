"""The dominant resource of a service (DRAPS), with its history and confidence.

The mean usage of one container is divided by the cluster's capacity; the resource with the largest ratio is
dominant. A new leader needs a clear lead: otherwise two similar resources would alternate, and every decision
with them.
"""

from collections.abc import Sequence
from math import nan

import msgspec
import numpy as np

from collector.common.arrays import Floats
from wire.resources import RESOURCES, Resource

_LEAD = 1.05
"""A resource becomes dominant when its share is this many times that of the current one."""
_HALF_CONFIDENCE_SECONDS = 600.0
"""Observation time after which the confidence reaches half of its margin."""
_MAX_HISTORY = 20


class Dominance(msgspec.Struct, frozen=True, gc=False):
    """A dominant resource, and since when."""

    resource: Resource
    since: float


class ServiceDominance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The dominant resource of a service."""

    history: tuple[Dominance, ...]
    """The last twenty dominant resources, the current one last."""
    shares: tuple[float, float, float, float]
    """Mean usage of one container divided by the cluster's capacity, per resource; NaN if unknown."""
    confidence: float
    """0-1: rises with the lead over other resources and with the observation time."""
    explanation: str

    @property
    def resource(self) -> Resource:
        return self.history[-1].resource


_MIN_NODES = 3
"""With fewer nodes, the capacity of one is not compared with the others."""


def cluster_capacity(capacity: Floats) -> list[float]:
    """The capacity of all nodes per resource; NaN if no node reports it.

    A node can report any capacity. So that one wrong report does not distort all shares, a node counts for no
    more than all others together.
    """
    known = (~np.isnan(capacity)).sum(axis=0)
    total = np.nansum(capacity, axis=0)
    largest = np.fmax.reduce(capacity, axis=0, initial=0.0)
    bounded = np.where(known >= _MIN_NODES, np.minimum(total, 2 * (total - largest)), total)
    capacities: list[float] = np.where(known > 0, bounded, np.nan).tolist()
    return capacities


def capacity_shares(used: Sequence[float], capacity: Sequence[float]) -> list[float]:
    """Mean usage divided by capacity, per resource; NaN where either is unknown."""
    # Four numbers per service: plain Python is faster here than numpy.
    return [part / whole if whole > 0 else nan for part, whole in zip(used, capacity, strict=True)]


def update_dominance(
    shares: Sequence[float], observed_seconds: float, at: float, before: ServiceDominance | None = None
) -> ServiceDominance | None:
    """The dominant resource now; None until something is used."""
    ratios = [0.0 if share != share else share for share in shares]  # noqa: PLR0124 - NaN
    leader = max(range(len(ratios)), key=ratios.__getitem__)
    if ratios[leader] <= 0:
        return before
    history = () if before is None else before.history
    if history:
        holder = RESOURCES.index(history[-1].resource)
        if ratios[leader] < _LEAD * ratios[holder]:
            leader = holder
    resource = RESOURCES[leader]
    if not history or history[-1].resource is not resource:
        history = (*history, Dominance(resource, at))[-_MAX_HISTORY:]
    second = max(range(len(ratios)), key=lambda place: -1.0 if place == leader else ratios[place])
    margin = max(0.0, 1 - ratios[second] / ratios[leader])
    trust = observed_seconds / (observed_seconds + _HALF_CONFIDENCE_SECONDS)
    cpu, memory, disk, network = shares
    return ServiceDominance(
        history=history,
        shares=(cpu, memory, disk, network),
        confidence=margin * trust,
        explanation=(
            f"one container uses {ratios[leader]:.3%} of the cluster's {resource} and "
            f"{ratios[second]:.3%} of its {RESOURCES[second]}, the next resource (lead {margin:.0%}, "
            f"observed for {observed_seconds / 60:.0f} minutes)"
        ),
    )
