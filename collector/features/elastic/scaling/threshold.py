"""The rule of Kubernetes' Horizontal Pod Autoscaler: as many replicas as bring utilization to a target.

With the defaults of its controller: a tolerance of a tenth; a reduction waits until no higher number was
recommended for five minutes; at most twice as many replicas, or four more, at once. CPU limits stay.
"""

from math import ceil

import msgspec

from collector.features.elastic.scaling.interface import (
    USAGE_UNKNOWN,
    ElasticDecision,
    Observation,
    Target,
    bounded,
    decide_within,
    decode_learned,
    encode_learned,
    utilization,
)

_VERSION = "threshold/2"
_TOLERANCE = 0.1
_STABILIZATION_SECONDS = 300.0
_MORE_AT_ONCE = 4
_ROUNDING = 1e-9


class _Recent(msgspec.Struct, frozen=True):
    recommendations: tuple[tuple[float, int], ...] = ()
    """The time of each, and the replicas."""


def decide(target: Target, observed: Observation, learned: bytes) -> ElasticDecision:
    """Decide for a service; an `ElasticPolicy`."""
    recent = decode_learned(learned, _VERSION, _Recent).recommendations
    recent = tuple(
        each for each in recent if 0 <= observed.at_seconds - each[0] < _STABILIZATION_SECONDS
    ) or ((observed.at_seconds, observed.replicas),)
    limit = target.cpu_max_cores if observed.cpu_limit_cores is None else observed.cpu_limit_cores
    used = utilization(observed, limit)
    if used is None:
        kept = encode_learned(_VERSION, _Recent(recent))
        return decide_within(target, observed, observed.replicas, None, (USAGE_UNKNOWN,), learned=kept)
    ratio = used / target.utilization_target
    wanted = observed.replicas
    if abs(ratio - 1) > _TOLERANCE + _ROUNDING:
        wanted = ceil(ratio * observed.replicas - _ROUNDING)
    wanted = min(bounded(target, wanted), max(2 * observed.replicas, observed.replicas + _MORE_AT_ONCE))
    recent = (*recent, (observed.at_seconds, wanted))
    highest = max(replicas for _, replicas in recent)
    chosen = wanted if wanted >= observed.replicas else min(observed.replicas, highest)
    reasons = [f"{used:.0%} of the CPU limit is used, the target is {target.utilization_target:.0%}"]
    if chosen > wanted:
        reasons.append(f"{highest} replicas were recommended within the last {_STABILIZATION_SECONDS:.0f} s")
    kept = encode_learned(_VERSION, _Recent(recent))
    return decide_within(target, observed, chosen, None, reasons, learned=kept)
