"""The agent's current state, for `/metrics`."""

from collections.abc import Callable, Iterable

from prometheus_client.core import Metric

from agent.delivery.sender import ReportSender
from agent.sampling.node_sample import NodeSample
from wire.resources import Resource


class AgentState:
    """The last sample, the open alerts, and counters of the agent itself."""

    def __init__(self, sender: ReportSender) -> None:
        self.sample: NodeSample | None = None
        self.alerts: frozenset[Resource] = frozenset()
        """Resources with an open alert."""
        self.samples = 0
        self.missed = 0
        self.sender = sender
        self.feature_metrics: list[Callable[[], Iterable[Metric]]] = []
        """Collect the metrics of the started features."""
