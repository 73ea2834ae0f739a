"""The agent's Prometheus collector. Each scrape reads the last sample.

Nothing is stored between scrapes, so a container that ended has no series.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from agent.exposition.catalogue import (
    AGENT_METRICS,
    ALERT_METRICS,
    CONTAINER_METRICS,
    CONTAINER_PRESSURE_METRICS,
    DISK_METRICS,
    GAP_METRICS,
    LINK_METRICS,
    METER_METRICS,
    NODE_METRICS,
    NODE_PRESSURE_METRICS,
    AgentState,
    resource_pressures,
)
from wire.metrics import metric_families
from wire.resources import RESOURCES

PASS_DURATION = (
    "wattpack_agent_pass_duration_seconds",
    "Time to sample the host and all containers once, in seconds.",
)
_PASS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 1, 3)


class AgentMetrics(Collector):
    """Collects all metrics from the agent's state, but for one histogram."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        self.pass_duration = Histogram(*PASS_DURATION, buckets=_PASS_BUCKETS, registry=self.registry)

    def describe(self) -> Iterator[Metric]:
        """No metrics: the registry would otherwise collect once to find their names."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        state, sample = self._state, self._state.sample
        yield from metric_families(AGENT_METRICS, [state])
        yield from metric_families(ALERT_METRICS, [(each, each in state.alerts) for each in RESOURCES])
        for collect in state.feature_metrics:
            yield from collect()
        if sample is None:
            return
        yield from metric_families(NODE_METRICS, [sample])
        yield from metric_families(DISK_METRICS, sample.rates.disks.items())
        yield from metric_families(LINK_METRICS, sample.rates.links.items())
        yield from metric_families(NODE_PRESSURE_METRICS, resource_pressures(sample))
        yield from metric_families(METER_METRICS, sample.meters)
        yield from metric_families(GAP_METRICS, sample.gaps)
        yield from metric_families(CONTAINER_METRICS, sample.containers)
        pressures = (pressure for each in sample.containers for pressure in resource_pressures(each))
        yield from metric_families(CONTAINER_PRESSURE_METRICS, pressures)
