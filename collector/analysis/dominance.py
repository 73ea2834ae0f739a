"""The dominant resource of a service (DRAPS), since when, and with what confidence.

The mean use of one container, divided by the cluster's capacity of that resource: the largest ratio is
dominant. A new leader needs a clear lead: otherwise two similar resources would alternate, and every decision
with them.
"""

from collections.abc import Sequence
from math import nan

import msgspec
import numpy as np

from collector.analysis.histograms import Floats
from wire.resources import RESOURCES, Resource

_LEAD = 1.05
"""A resource becomes dominant when its share is this many times that of the one before."""
_HALF_SURE_SECONDS = 600.0
"""Observation time after which the confidence reaches half of its margin."""
_KEPT = 20


class Dominance(msgspec.Struct, frozen=True, gc=False):
    """A dominant resource, and since when."""

    resource: Resource
    since: float


class Dominant(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The dominant resource of a service."""

    history: tuple[Dominance, ...]
    """The last twenty, the present one at the end."""
    shares: tuple[float, float, float, float]
    """Mean use of one container by the cluster's capacity, per resource; NaN where either is unknown."""
    confidence: float
    """0-1: by its lead, and by the observation time."""
    explanation: str

    @property
    def resource(self) -> Resource:
        return self.history[-1].resource


_FEWEST = 3
"""Nodes from which on one of them can be compared with the others."""


def whole_of(capacity: Floats) -> list[float]:
    """The capacity of all nodes per resource; NaN if no node reports it.

    A node can claim any capacity, and what services use is compared with the whole: so one node counts for no
    more than all others together.
    """
    known = (~np.isnan(capacity)).sum(axis=0)
    total = np.nansum(capacity, axis=0)
    largest = np.fmax.reduce(capacity, axis=0, initial=0.0)
    bounded = np.where(known >= _FEWEST, np.minimum(total, 2 * (total - largest)), total)
    whole: list[float] = np.where(known > 0, bounded, np.nan).tolist()
    return whole


def shares_of(use: Sequence[float], whole: Sequence[float]) -> list[float]:
    """Mean use by capacity, per resource; NaN where either is unknown."""
    # Four numbers per service: plain Python is faster here than numpy.
    return [part / all_of_it if all_of_it > 0 else nan for part, all_of_it in zip(use, whole, strict=True)]


def dominant(
    shares: Sequence[float], observed_seconds: float, at: float, before: Dominant | None = None
) -> Dominant | None:
    """The dominant resource now; None while nothing is used."""
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
        history = (*history, Dominance(resource, at))[-_KEPT:]
    second = max(range(len(ratios)), key=lambda place: -1.0 if place == leader else ratios[place])
    margin = max(0.0, 1 - ratios[second] / ratios[leader])
    trust = observed_seconds / (observed_seconds + _HALF_SURE_SECONDS)
    cpu, memory, disk, network = shares
    return Dominant(
        history=history,
        shares=(cpu, memory, disk, network),
        confidence=margin * trust,
        explanation=(
            f"one container uses {ratios[leader]:.3%} of the cluster's {resource} and "
            f"{ratios[second]:.3%} of its {RESOURCES[second]}, the next: a lead of {margin:.0%}, "
            f"observed for {observed_seconds / 60:.0f} minutes"
        ),
    )
