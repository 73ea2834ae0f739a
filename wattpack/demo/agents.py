"""The agents of the demo cluster: the real reporter and bottleneck detector of each node."""

from collections import defaultdict
from math import floor

import numpy as np

from agent.bottlenecks.detector import BottleneckDetector
from agent.config import BottleneckConfig, ReportingConfig
from agent.reporting.reporter import Addition, Reporter
from wattpack.demo.cluster import DemoCluster
from wattpack.demo.load import response_seconds
from wire.messages import ContainerProbe, Report
from wire.sketch import Sketch

_PROBE_SECONDS, _TIMEOUT_SECONDS, _REPORT_SECONDS = 1.0, 5.0, 10.0
"""How agents probe: the time between two requests, their timeout, and the time between two reports."""
_STREAM = 4
"""The stream of random numbers for response times."""


class DemoAgents:
    """The agents of all nodes."""

    def __init__(self, cluster: DemoCluster, sample_seconds: float) -> None:
        self.cluster = cluster
        shop = cluster.shop
        self._reporters = [
            Reporter(each.name, f"demo-{place}", ReportingConfig(), sample_seconds)
            for place, each in enumerate(shop.nodes)
        ]
        self._detectors = [BottleneckDetector(BottleneckConfig()) for _ in shop.nodes]
        self._report_seconds = _REPORT_SECONDS - sample_seconds / 2
        self._times: list[defaultdict[str, list[float]]] = [defaultdict(list) for _ in shop.nodes]
        """Per node and container: response times since the last report."""
        self._taken_at = [0.0 for _ in shop.nodes]

    def sample(self, now: float, interval_seconds: float) -> list[Report]:
        """Let all agents sample; return the reports that are due."""
        reports = []
        for node, sample in self.cluster.sample(now, interval_seconds):
            alerts = self._detectors[node].update(sample)
            probes = self._probe(node, now, interval_seconds)
            containers = frozenset(each.container for each in probes)
            additions = [Addition({"probes": probes}, containers)] if probes else []
            report = self._reporters[node].report(sample, (), alerts, additions=additions)
            if report is not None:
                reports.append(report)
        return reports

    def _probe(self, node: int, now: float, interval_seconds: float) -> tuple[ContainerProbe, ...]:
        """Simulate the probes of a node's agent; return the results that are due."""
        probed = self.cluster.probed(node)
        if not probed:
            return ()
        rng = np.random.default_rng([self.cluster.shop.seed, _STREAM, floor(now), node])
        requests = max(1, round(interval_seconds / _PROBE_SECONDS))
        for container, busy in probed:
            self._times[node][container] += response_seconds(busy, requests, rng).tolist()
        if now - self._taken_at[node] < self._report_seconds:
            return ()
        self._taken_at[node] = now
        taken, self._times[node] = self._times[node], defaultdict(list)
        return tuple(_response_times(*each) for each in sorted(taken.items()))


def _response_times(container: str, times: list[float]) -> ContainerProbe:
    sketch = Sketch()
    for seconds in times:
        sketch.add(min(seconds, _TIMEOUT_SECONDS))
    failed = sum(seconds >= _TIMEOUT_SECONDS for seconds in times)
    return ContainerProbe(container=container, seconds=sketch, failed=failed)
