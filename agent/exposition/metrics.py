"""The agent's Prometheus collector. Each scrape reads the last sample.

Nothing is stored between scrapes, so a container that ended has no series.
"""

from collections.abc import Iterator
from itertools import chain

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from agent.exposition import catalogue
from wire.metrics import metric_families
from wire.resources import RESOURCES

PASS_DURATION = (
    "wattpack_agent_pass_duration_seconds",
    "Time to sample the host and all containers once, in seconds.",
)
_PASS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 1, 3)


class AgentMetrics(Collector):
    """Collects all metrics from the agent's state, but for one histogram."""

    def __init__(self, state: catalogue.AgentState) -> None:
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
        yield from metric_families(catalogue.AGENT_METRICS, [state])
        alerts = [(each, each in state.alerts) for each in RESOURCES]
        yield from metric_families(catalogue.ALERT_METRICS, alerts)
        for collect in state.feature_metrics:
            yield from collect()
        if sample is None:
            return
        yield from metric_families(catalogue.NODE_METRICS, [sample])
        yield from metric_families(catalogue.DISK_METRICS, sample.rates.disks.items())
        yield from metric_families(catalogue.LINK_METRICS, sample.rates.links.items())
        yield from metric_families(catalogue.NODE_PRESSURE_METRICS, catalogue.resource_pressures(sample))
        yield from metric_families(catalogue.METER_METRICS, sample.meters)
        yield from metric_families(catalogue.GAP_METRICS, sample.gaps)
        yield from metric_families(catalogue.CONTAINER_METRICS, sample.containers)
        pressures = chain.from_iterable(map(catalogue.resource_pressures, sample.containers))
        yield from metric_families(catalogue.CONTAINER_PRESSURE_METRICS, pressures)
