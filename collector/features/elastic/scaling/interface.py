"""The interface of an elasticity policy: a target and an observation in, a decision out."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from collector.policies.actions import SizeBounds


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """How much each part of the cost counts; ge-kube's defaults."""

    performance: float = 0.90
    """Weight of a broken target."""
    resources: float = 0.09
    """Weight of reserved CPU, relative to the most that the bounds allow."""
    adaptation: float = 0.01
    """Weight of a change of size."""


class Target(SizeBounds, frozen=True, kw_only=True):
    """The bound of the metric of a service, and the bounds of its size."""

    service: str
    metric_max: float
    """The bound of its metric: for a response time, in seconds."""
    cpu_step_cores: float = 0.1
    """Step between CPU limits; 0 keeps the CPU limit as it is."""
    weights: Weights = Weights()
    """Weights of the parts of the cost of a size."""
    decide_seconds: float = 180.0
    """Time between two decisions."""
    utilization_target: float = 0.8
    """Share of its CPU limit that a replica is to use, for policies that need it; HPA's default."""
    explore: bool = True
    """Whether a policy may try actions whose effect it does not know."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """A service at the time of a decision."""

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


class LearnedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table of what a policy learned."""

    state: str
    """A state of the service, in words."""
    action: str
    """The action of the policy in this state, or the metric that it expects."""
    cost: float
    """The cost that the policy expects; the lower the better."""
    observed: int
    """Number of observations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticPolicy:
    """An elasticity policy. Pure: the same arguments give the same decision."""

    name: str
    summary: str
    for_whom: str = ""
    """For which services; empty for a policy that is only there to compare with."""
    decide: Callable[[Target, Observation, bytes], ElasticDecision]
    """Decide for a service. The last argument is `learned` of its last decision, empty at first; data of
    another version counts as empty. The random numbers of exploration derive from the service and the time
    of the observation."""
    explain: Callable[[Target, bytes], tuple[LearnedRow, ...]]
    """Return what was learned so far, as a table."""
