"""HTTP requests to containers of this host, which measure their response time."""

from typing import Annotated

from msgspec import Meta

from agent.features import FeatureSettings
from wire.messages import MAX_PROBE_SECONDS


class ProbeConfig(FeatureSettings, frozen=True):
    """Response times of containers with the label `wattpack.probe`, measured by HTTP requests to them."""

    enabled: bool = False
    """Whether to send GET requests to the containers of this host that have the label `wattpack.probe`, to no
    other address. Needs `docker.socket`, and containers on a bridge network or the network of the host."""
    interval_seconds: Annotated[float, Meta(ge=0.2, le=3600)] = 1.0
    """Time between two requests to the same container."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=MAX_PROBE_SECONDS)] = 5.0
    """Timeout of a request. A request that fails counts with this time."""
