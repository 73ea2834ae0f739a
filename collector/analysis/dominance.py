"""The resource that a service takes the largest share of (DRAPS), since when, and how sure that is.

The average use of one container, divided by what the cluster has of the resource: the largest is dominant.
It changes with time. A newcomer that leads by next to nothing is no change: two resources side by side would
take turns for ever, and every decision with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from collector.analysis.histograms import Floats
from wire.resources import RESOURCES, Resource

_LEAD = 1.05
"""A resource becomes dominant when its share is so many times that of the one before."""
_HALF_SURE_SECONDS = 600.0
"""Of watching: so long, and a service is trusted half."""
_REMEMBERED = 20


@dataclass(frozen=True, slots=True)
class Dominance:
    """What dominates, and since when."""

    resource: Resource
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Dominant:
    """The dominant resource of a service."""

    history: tuple[Dominance, ...]
    """From the first to the one that holds; the last twenty."""
    shares: tuple[float, float, float, float]
    """What one container takes of all there is, per resource; NaN where either is not known."""
    confidence: float
    """0-1: how far it leads, and how long it was watched."""
    explanation: str

    @property
    def resource(self) -> Resource:
        return self.history[-1].resource


def whole_of(capacity: Floats) -> list[float]:
    """What all nodes (a row each) have together, per resource; NaN where it is not known of any."""
    known = ~np.isnan(capacity)
    whole: list[float] = np.where(known.any(axis=0), np.nansum(capacity, axis=0), np.nan).tolist()
    return whole


def shares_of(use: Sequence[float], whole: Sequence[float]) -> list[float]:
    """Average use by what there is, per resource; NaN where either is not known."""
    # Four numbers, for very many services: plain Python is faster here than numpy.
    return [part / all_of_it if all_of_it > 0 else nan for part, all_of_it in zip(use, whole, strict=True)]


def dominant(
    shares: Sequence[float], watched_seconds: float, at: float, before: Dominant | None = None
) -> Dominant | None:
    """What dominates now, after what did before; None while nothing is used at all."""
    known = [0.0 if share != share else share for share in shares]  # noqa: PLR0124 - NaN
    leader = max(range(len(known)), key=known.__getitem__)
    if known[leader] <= 0:
        return before
    history = () if before is None else before.history
    if history:
        holder = RESOURCES.index(history[-1].resource)
        if known[leader] < _LEAD * known[holder]:
            leader = holder
    resource = RESOURCES[leader]
    if not history or history[-1].resource is not resource:
        history = (*history, Dominance(resource, at))[-_REMEMBERED:]
    second = max(range(len(known)), key=lambda place: -1.0 if place == leader else known[place])
    margin = max(0.0, 1 - known[second] / known[leader])
    trust = watched_seconds / (watched_seconds + _HALF_SURE_SECONDS)
    cpu, memory, disk, network = shares
    return Dominant(
        history=history,
        shares=(cpu, memory, disk, network),
        confidence=margin * trust,
        explanation=(
            f"one container takes {known[leader]:.3%} of the cluster's {resource}, and of the next, "
            f"{RESOURCES[second]}, {known[second]:.3%}: a lead of {margin:.0%}, "
            f"watched for {watched_seconds / 60:.0f} minutes"
        ),
    )
