"""The dominant resource of a service (DRAPS), with its history and confidence.

The mean usage of one container is divided by the cluster's capacity; the resource with the largest ratio is
dominant. A new leader needs a clear lead: otherwise two similar resources would alternate, and every decision
with them. While the capacity of the leader is not known, no resource becomes dominant: which one would be
arbitrary.
"""

from collections.abc import Sequence
from math import nan

import msgspec

from collector.common.ratios import Ratios, ratios_of
from wire.resources import RESOURCES, Resource

LEAD = 1.05
"""A resource becomes dominant when its share is this many times that of the current one."""
_HALF_CONFIDENCE_SECONDS = 600.0
"""Observation time after which the confidence reaches half of its margin."""
_MAX_HISTORY = 20
_ALL_KNOWN = (True,) * len(RESOURCES)


class DominantSince(msgspec.Struct, frozen=True, gc=False):
    """A dominant resource, and the time at which it became dominant."""

    resource: Resource
    since: float


class DominantResource(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The resource of which one container needs the largest share of the cluster's capacity."""

    resource: Resource
    confidence: float
    """0-1: rises with the lead over other resources and with the observation time."""
    shares: Ratios
    explanation: str
    history: tuple[DominantSince, ...]
    """The last dominant resources, the current one last."""


def capacity_shares(used: Sequence[float], capacity: Sequence[float]) -> list[float]:
    """Mean usage divided by capacity, per resource; NaN where either is unknown."""
    # Four numbers per service: plain Python is faster here than numpy.
    return [part / whole if whole > 0 else nan for part, whole in zip(used, capacity, strict=True)]


def dominant_before(now: DominantResource | None, since: float | None) -> DominantResource | None:
    """The dominant resource before a time, at least the first one that is known."""
    if now is None or since is None:
        return None
    history = tuple(each for each in now.history if each.since < since) or now.history[:1]
    return msgspec.structs.replace(now, resource=history[-1].resource, history=history)


def update_dominance(
    shares: Sequence[float],
    observed_seconds: float,
    at: float,
    before: DominantResource | None = None,
    known: Sequence[bool] = _ALL_KNOWN,
) -> DominantResource | None:
    """The dominant resource now; None until something is used, and the largest share is known.

    A share that is not `known` is at most this large, so a known one above it leads in any case.
    """
    ratios = [0.0 if share != share else share for share in shares]  # noqa: PLR0124 - NaN
    leader = max(range(len(ratios)), key=ratios.__getitem__)
    if ratios[leader] <= 0:
        return before
    if before is not None:
        holder = RESOURCES.index(before.resource)
        if ratios[leader] < LEAD * ratios[holder]:
            leader = holder
    if not known[leader]:
        return before
    resource, history = RESOURCES[leader], () if before is None else before.history
    if before is None or before.resource is not resource:
        history = (*history, DominantSince(resource, at))[-_MAX_HISTORY:]
    second = max(range(len(ratios)), key=lambda place: -1.0 if place == leader else ratios[place])
    margin = max(0.0, 1 - ratios[second] / ratios[leader])
    at_most = "" if known[second] else "at most "
    trust = observed_seconds / (observed_seconds + _HALF_CONFIDENCE_SECONDS)
    return DominantResource(
        resource=resource,
        confidence=margin * trust,
        shares=ratios_of([share if sure else nan for share, sure in zip(shares, known, strict=True)]),
        explanation=(
            f"one container uses {ratios[leader]:.3%} of the cluster's {resource} and "
            f"{at_most}{ratios[second]:.3%} of its {RESOURCES[second]}, the next resource "
            f"(lead {margin:.0%}, observed for {observed_seconds / 60:.0f} minutes)"
        ),
        history=history,
    )
