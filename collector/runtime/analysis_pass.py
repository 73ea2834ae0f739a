"""One incremental pass of the analysis over the registry, for the collector and for replay."""

from collections.abc import Collection, Mapping, Sequence
from math import inf

from collector.analysis.analysis import Analysis, analyse
from collector.analysis.services import RunningServices, service_table
from collector.analysis.usage import ObservedContainer, UsageWeights
from collector.config import CollectorConfig
from collector.observe.registry import Registry


class AnalysisPass:
    """Analyses the nodes that changed since the last pass, and from time to time all of them.

    `due` belongs to the thread of the registry; `run` may run in another one.
    """

    def __init__(self, registry: Registry, config: CollectorConfig) -> None:
        self._registry, self._settings = registry, config.analysis
        self._weights = UsageWeights.of(config.envelopes)
        self._running: RunningServices | None = None
        self._full_pass_at = -inf

    def due(self, now: float) -> tuple[bool, Collection[str]]:
        """Return whether a full pass is due, which corrects missed changes, and the nodes to analyse."""
        changed = self._registry.usage.take_changed_nodes()
        if self._running is None or not 0 <= now - self._full_pass_at < self._settings.full_pass_seconds:
            self._full_pass_at = now
            return True, self._registry.names()
        return False, changed

    def run(
        self, observed: Mapping[str, Sequence[ObservedContainer]], before: Analysis, now: float, *, full: bool
    ) -> Analysis:
        """Analyse, and write services and groups into the live tables."""
        # A pass that fails could leave half of its changes, so its state is kept only once it is done.
        running, self._running = self._running, None
        if running is None or full:
            running = RunningServices(self._weights)
        tables = self._registry.tables
        snapshot = tables.snapshot(now)
        for node, containers in observed.items():
            running.put(node, containers)
        found = analyse(snapshot, running.pool(snapshot.at), before, self._settings)
        # Profiles that did not change are the same objects.
        if found.services != before.services:
            tables.put_services(service_table(found.services))
        tables.put_groups(found.changed_groups)
        self._running = running
        return found
