"""The interface of an elasticity policy: a target and an observation in, a decision out.

Below it are the rules of all policies: bounds of the size of a service, its cool-down, and exploration.
"""

from collections.abc import Callable, Sequence
from math import ceil, isfinite
from typing import Annotated, TypeVar
from zlib import crc32

import msgspec
from msgspec import Meta

from collector.decide.policies.actions import SizeBounds
from wire.errors import UserError
from wire.settings import Section

_ROUNDING = 1e-9
_CHECKSUM_BYTES = 4
_DIGITS = 6
"""CPU limits are rounded to a millionth of a core, so that equal limits compare equal."""
_MOST_SIZES = 10_000
"""Most sizes (replicas times CPU limits) that policies compare: about a second of CPU time. Labels of a
service set its bounds, and they must not exhaust the collector's time or memory."""
USAGE_UNKNOWN = "CPU usage of the service is unknown"
_Weight = Annotated[float, Meta(ge=0, le=1e6)]


class Weights(Section, frozen=True, kw_only=True):
    """How much each part of the cost of a size counts; ge-kube's defaults. Their sum need not be 1."""

    performance: _Weight = 0.90
    """Weight of a broken target."""
    resources: _Weight = 0.09
    """Weight of reserved CPU, relative to the most that the bounds allow."""
    adaptation: _Weight = 0.01
    """Weight of a change of size."""


class Target(SizeBounds, frozen=True, kw_only=True):
    """The bound of the metric of a service, the bounds of its size, and how both are kept."""

    metric_max: Annotated[float, Meta(gt=0, le=1e12)]
    """The bound of its metric: with probes, of the 95th percentile of response times, in seconds."""
    query: str = ""
    """PromQL query of the metric, sent to `store.url`. Of several series, the highest value counts. Empty
    uses the response times that agents measure."""
    cpu_step_cores: Annotated[float, Meta(ge=0, le=1e4)] = 0.0
    """Step between CPU limits. 0 keeps the limit, because a change replaces every task of a Swarm service."""
    weights: Weights = Weights()
    """Weights of the parts of the cost of a size."""
    decide_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 30.0
    """Time between two decisions."""
    utilization_target: Annotated[float, Meta(gt=0, le=1)] = 0.8
    """Share of its CPU limit that a replica is to use, for policies that need it; HPA's default."""
    explore: bool = True
    """Whether a policy may try a size whose effect it does not know, while the metric keeps its bound."""
    policy: str = "queueing"
    """The policy that decides."""

    def __post_init__(self) -> None:
        for low, high in (("replicas_min", "replicas_max"), ("cpu_min_cores", "cpu_max_cores")):
            smallest, largest = getattr(self, low), getattr(self, high)
            if smallest > largest:
                raise UserError(f"{low} ({smallest:g}) must not be above {high} ({largest:g})")


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """A service at the time of a decision."""

    service: str = ""
    at_seconds: float
    """Unix time."""
    replicas: int
    """Replicas that run."""
    cpu_limit_cores: float | None
    """CPU limit of a replica; None without a limit, and policies then set none."""
    cpu_used_cores: float | None
    """CPU time of all replicas, in cores, since the last decision; None if unknown."""
    metric: float | None
    """The metric since the last decision; None if unknown."""
    requests: int | None = None
    """Probed requests that the metric is computed from; None if it comes from a query."""
    failed: int | None = None
    """How many of these requests failed."""
    changed_at_seconds: float | None = None
    """When the last change began; None if there was none."""
    effect_seconds: float | None = None
    """Time from the start of a change until new replicas answer requests; None if unknown."""
    used_core_watts: float | None = None
    """Additional power of the nodes per core in use; None if unknown."""
    reserved_core_watts: float | None = None
    """Idle power of the nodes per core of their capacity; None if unknown."""


class ElasticDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a service from now on."""

    replicas: int
    cpu_limit_cores: float | None
    reasons: tuple[str, ...]
    learned: bytes
    """What the policy learned, for its next decision. Versioned by the policy; opaque to others."""
    explored: bool = False
    """Whether the policy tries an action to learn its effect."""


ElasticPolicy = Callable[[Target, Observation, bytes], ElasticDecision]
"""Decides for a service. Pure: the same arguments give the same decision. The last argument is `learned` of
its last decision, empty at first; data of another version counts as empty. The random numbers of exploration
derive from the service and the time of the observation."""


_State = TypeVar("_State", bound=msgspec.Struct)


def encode_learned(version: str, state: msgspec.Struct) -> bytes:
    """Encode what a policy learned; `version` names the policy and the layout of its state."""
    packed = msgspec.msgpack.encode((version, state))
    return _checksum(packed) + packed


def decode_learned(learned: bytes, version: str, kind: type[_State]) -> _State:
    """Decode it; returns an empty state if the bytes are damaged, or of another policy or version."""
    checksum, packed = learned[:_CHECKSUM_BYTES], learned[_CHECKSUM_BYTES:]
    if not packed or checksum != _checksum(packed):
        return kind()
    found_version, state = msgspec.msgpack.decode(packed, type=tuple[str, msgspec.Raw])
    return msgspec.msgpack.decode(state, type=kind) if found_version == version else kind()


def _checksum(packed: bytes) -> bytes:
    return crc32(packed).to_bytes(_CHECKSUM_BYTES, "big")


def cpu_levels(target: Target, limit_cores: float | None) -> tuple[float, ...]:
    """The CPU limits that a replica may have, ascending; one level if the limit stays as it is.

    If there are more levels than policies can compare, only every second, third and so on is returned.
    """
    if limit_cores is None:
        return (target.cpu_max_cores,)
    if target.cpu_step_cores <= 0 or target.cpu_max_cores <= target.cpu_min_cores:
        return (limit_cores,)
    step = max(target.cpu_step_cores, 10.0**-_DIGITS)
    count = int((target.cpu_max_cores - target.cpu_min_cores) / step + _ROUNDING) + 1
    most = max(2, _MOST_SIZES // max(1, target.replicas_max - target.replicas_min + 1))
    return tuple(
        round(target.cpu_min_cores + place * step, _DIGITS) for place in range(0, count, ceil(count / most))
    )


def nearest_level(levels: Sequence[float], cores: float | None) -> int:
    """The index of the level nearest to a limit; without a limit, that of the highest."""
    if cores is None:
        return len(levels) - 1
    return min(range(len(levels)), key=lambda place: abs(levels[place] - cores))


def utilization(observed: Observation, limit_cores: float) -> float | None:
    """Share of their CPU limits that the replicas use; None if it is unknown."""
    capacity = observed.replicas * limit_cores
    used = observed.cpu_used_cores
    if used is None or not isfinite(used) or used < 0 or capacity <= 0:
        return None
    return used / capacity


def valid_metric(observed: Observation) -> float | None:
    """The metric if it is finite and not negative; else None."""
    metric = observed.metric
    return None if metric is None or not isfinite(metric) or metric < 0 else metric


def breaks_target(target: Target, observed: Observation) -> bool:
    """Whether the metric is known and above its bound."""
    metric = valid_metric(observed)
    return metric is not None and metric > target.metric_max


def may_explore(target: Target, observed: Observation) -> bool:
    """Whether a policy may try an unknown action: only while the metric is known and meets its target."""
    return target.explore and valid_metric(observed) is not None and not breaks_target(target, observed)


def is_cooling(target: Target, observed: Observation) -> bool:
    """Whether the last change is too recent for another one; a change in the future does not count."""
    if observed.changed_at_seconds is None:
        return False
    return 0 <= observed.at_seconds - observed.changed_at_seconds < target.cool_down_seconds - _ROUNDING


def bounded(target: Target, replicas: int) -> int:
    """The number of replicas within the bounds of the target."""
    return max(target.replicas_min, min(target.replicas_max, replicas))


def changes_size(decision: ElasticDecision, observed: Observation) -> bool:
    """Whether a decision changes the replicas or the CPU limit of a service."""
    return (decision.replicas, decision.cpu_limit_cores) != (observed.replicas, observed.cpu_limit_cores)


def decide_within(  # noqa: PLR0913 - the fields of a decision
    target: Target,
    observed: Observation,
    replicas: int,
    limit_cores: float | None,
    reasons: Sequence[str],
    *,
    learned: bytes,
    explored: bool = False,
) -> ElasticDecision:
    """A decision for this size that keeps the bounds of the target and the cool-down."""
    replicas = bounded(target, replicas)
    if limit_cores is None or observed.cpu_limit_cores is None or target.cpu_step_cores <= 0:
        limit_cores = observed.cpu_limit_cores
    if limit_cores is not None and target.cpu_step_cores > 0:
        limit_cores = max(target.cpu_min_cores, min(target.cpu_max_cores, limit_cores))
    changes = replicas != observed.replicas or limit_cores != observed.cpu_limit_cores
    if changes and is_cooling(target, observed):
        since = observed.at_seconds - (observed.changed_at_seconds or 0.0)
        wait = f"the last change began {since:.0f} s ago, the cool-down is {target.cool_down_seconds:.0f} s"
        return ElasticDecision(
            replicas=observed.replicas,
            cpu_limit_cores=observed.cpu_limit_cores,
            reasons=(wait, *reasons),
            learned=learned,
        )
    return ElasticDecision(
        replicas=replicas,
        cpu_limit_cores=limit_cores,
        reasons=tuple(reasons),
        learned=learned,
        explored=explored and changes,
    )
