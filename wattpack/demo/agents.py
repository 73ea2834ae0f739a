"""The agents of the demo cluster: the real reporter and bottleneck detector of each node."""

from math import floor

import msgspec
import numpy as np

from agent.bottlenecks.detector import BottleneckDetector
from agent.config import BottleneckConfig, ProbeConfig, ReportingConfig
from agent.probing.prober import ResponseTimes
from agent.reporting.reporter import Reporter
from wattpack.demo.cluster import DemoCluster
from wattpack.demo.load import response_seconds
from wire.messages import Report, ServiceProbe

_STREAM = 4
"""The stream of random numbers for response times."""


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
        self._probing = ProbeConfig()
        self._report_seconds = self._probing.report_seconds - sample_seconds / 2
        self._times = [ResponseTimes() for _ in shop.nodes]
        self._taken_at = [0.0 for _ in shop.nodes]

    def sample(self, now: float, interval_seconds: float) -> list[Report]:
        """Let all agents sample; return the reports that are due."""
        reports = []
        for node, sample in self.cluster.sample(now, interval_seconds):
            alerts = self._detectors[node].update(sample)
            probes = self._probe(node, now, interval_seconds)
            report = self._reporters[node].report(sample, (), alerts, probes=probes)
            if report is not None:
                reports.append(report)
        return reports

    def _probe(self, node: int, now: float, interval_seconds: float) -> tuple[ServiceProbe, ...]:
        """Simulate the probes of a node's agent; return the results that are due."""
        probed = self.cluster.probed(node)
        if not probed:
            return ()
        rng = np.random.default_rng([self.cluster.shop.seed, _STREAM, floor(now), node])
        requests = max(1, round(interval_seconds / self._probing.interval_seconds))
        for service, busy in probed:
            for seconds in response_seconds(busy, requests, rng).tolist():
                failed = seconds >= self._probing.timeout_seconds
                self._times[node].add(service, min(seconds, self._probing.timeout_seconds), failed=failed)
        if now - self._taken_at[node] < self._report_seconds:
            return ()
        self._taken_at[node] = now
        return self._times[node].take()
