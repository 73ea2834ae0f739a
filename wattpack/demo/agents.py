"""The agents of the demo cluster: the real reporter and bottleneck detector of each node."""

import msgspec

from agent.bottlenecks.detector import BottleneckDetector
from agent.config import BottleneckConfig, ReportingConfig
from agent.reporting.reporter import Reporter
from wattpack.demo.cluster import DemoCluster
from wire.messages import Report


class DemoAgents:
    """The agents of all nodes."""

    def __init__(self, cluster: DemoCluster, sample_seconds: float) -> None:
        """Windows are at least one sample long; everything else has the agent's defaults."""
        self.cluster = cluster
        settings = ReportingConfig()
        reporting = msgspec.structs.replace(
            settings,
            host_window_seconds=max(settings.host_window_seconds, sample_seconds),
            container_window_seconds=max(settings.container_window_seconds, sample_seconds),
        )
        shop = cluster.shop
        self._reporters = [
            Reporter(each.name, f"demo-{place}", reporting, sample_seconds)
            for place, each in enumerate(shop.nodes)
        ]
        self._detectors = [BottleneckDetector(BottleneckConfig()) for _ in shop.nodes]

    def sample(self, now: float, interval_seconds: float) -> list[Report]:
        """Let all agents sample; return the reports that are due."""
        reports = []
        for node, sample in self.cluster.sample(now, interval_seconds):
            alerts = self._detectors[node].update(sample)
            report = self._reporters[node].report(sample, (), alerts)
            if report is not None:
                reports.append(report)
        return reports
