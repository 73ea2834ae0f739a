"""The interface of an elasticity policy: a target and an observation in, a decision out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from collector.features.elastic.settings import Target


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticPolicy:
    """An elasticity policy. Pure: the same arguments give the same decision."""

    name: str
    decide: Callable[[Target, Observation, bytes], ElasticDecision]
    """Decide for a service. The last argument is `learned` of its last decision, empty at first; data of
    another version counts as empty. The random numbers of exploration derive from the service and the time
    of the observation."""


_State = TypeVar("_State", bound=msgspec.Struct)


def encode_learned(version: str, state: msgspec.Struct) -> bytes:
    """Encode what a policy learned; `version` names the policy and the layout of its state."""
    return msgspec.msgpack.encode((version, state))


def decode_learned(learned: bytes, version: str, kind: type[_State]) -> _State:
    """Decode it; returns an empty state if the bytes are damaged, or of another policy or version."""
    if not learned:
        return kind()
    try:
        found: tuple[str, _State] = msgspec.msgpack.decode(learned, type=tuple[str, kind])  # type: ignore[valid-type]
    except (msgspec.DecodeError, ValueError, OverflowError):
        return kind()
    return found[1] if found[0] == version else kind()
