"""The elastic service of a scenario: its target, its requests and how its replicas start."""

from typing import Annotated

import msgspec
from msgspec import Meta

from collector.decide.policies.actions import SizeBounds
from collector.features.elastic.scaling.interface import Target, Weights

_Positive = Annotated[float, Meta(gt=0)]
_NotNegative = Annotated[float, Meta(ge=0)]
MILLI = 1000.0


class ElasticService(SizeBounds, frozen=True, kw_only=True):
    """A service with a response time to keep. Its requests come from a generator or a file."""

    service: Annotated[str, Meta(min_length=1)]
    response_max_ms: _Positive
    """The bound of the mean response time, or of `percentile`."""
    percentile: Annotated[float, Meta(gt=0, lt=100)] | None = None
    """Percentile of the response time that must keep the bound; by default the mean."""
    service_ms: _Positive
    """CPU time that a request needs on average; it is distributed exponentially."""
    round_trips: _NotNegative = 0.0
    """Round trips between the host of the first replica and that of the replica, per request."""
    delay_max_ms: _Positive | None = None
    """Maximum round-trip time between two hosts that it uses, for policies that place its replicas."""
    replicas: Annotated[int, Meta(ge=1)] = 1
    """Replicas at the start; the next key is their CPU limit at the start."""
    cpu_limit_cores: _Positive = 1.0
    cpu_step_cores: _NotNegative = 0.1
    cool_down_seconds: _NotNegative = 180.0
    explore: bool = True
    weights: Weights = Weights()
    startup_seconds: _NotNegative = 4.5
    """Start-up time of a new replica. The default is the mean of `other_host_seconds` in `[startup]`."""
    ready_check: bool = True
    """Whether requests go to a replica only once it has started. If not, they wait there, as in Kubernetes
    without readiness probes."""
    patience_seconds: _Positive = 5.0
    """Maximum waiting time of a request. A longer one is not served; this is then its response time."""
    arrivals: dict[str, object] = msgspec.field(default_factory=dict)
    """Settings of the generator of arrivals."""
    arrivals_file: str | None = None
    """A CSV with seconds and requests_per_second, relative to the scenario, instead of a generator."""

    def __post_init__(self) -> None:
        if self.replicas_min > self.replicas_max or self.cpu_min_cores > self.cpu_max_cores:
            raise ValueError("the lower bounds of an elastic service must not be above the upper ones")
        if bool(self.arrivals) == (self.arrivals_file is not None):
            raise ValueError("an elastic service needs arrivals or arrivals_file, and only one of them")

    @property
    def metric_max(self) -> float:
        """The bound of the response time, in seconds."""
        return self.response_max_ms / MILLI

    def target(self, decide_seconds: float, utilization_target: float | None) -> Target:
        """The target of the service for the policies."""
        shared = {name: getattr(self, name) for name in Target.__struct_fields__ if hasattr(self, name)}
        if utilization_target is not None:
            shared["utilization_target"] = utilization_target
        return Target(**shared, decide_seconds=decide_seconds)
