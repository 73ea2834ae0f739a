"""One incremental pass of the analysis over the registry, for the collector and for replay."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf

from collector.analysis.analysis import Analysis, ServiceProfile, analyse
from collector.analysis.running import RunningServices
from collector.analysis.usage import ObservedContainer, UsageWeights
from collector.config import CollectorConfig
from collector.live.registry import Registry
from collector.snapshot.columns import ServiceFacts


class AnalysisPass:
    """Analyses the nodes that changed since the last pass, and from time to time all of them.

    `due` and `gather` belong to the thread of the registry; `run` may run in another one.
    """

    def __init__(self, registry: Registry, config: CollectorConfig) -> None:
        self._registry, self._settings = registry, config.analysis
        self._weights = UsageWeights.of(config.envelopes)
        self._running: RunningServices | None = None
        self._full_pass_at = -inf
        self._facts: dict[str, tuple[ServiceProfile, ServiceFacts]] = {}
        """Facts of the last pass, with the profiles that they come from."""

    def due(self, now: float) -> tuple[bool, Collection[str]]:
        """Return whether a full pass is due, which corrects missed changes, and the nodes to analyse."""
        changed = self._registry.usage.take_changed_nodes()
        if self._running is None or not 0 <= now - self._full_pass_at < self._settings.full_pass_seconds:
            self._full_pass_at = now
            return True, self._registry.names()
        return False, changed

    def gather(self, node: str) -> list[ObservedContainer]:
        """Return the containers of services on a node, with their usage."""
        return self._registry.usage.observed_containers(node)

    def _facts_of(self, profile: ServiceProfile) -> tuple[ServiceProfile, ServiceFacts]:
        """Return a profile with its facts; those of the last pass if it did not change."""
        known = self._facts.get(profile.name)
        return known if known is not None and known[0] is profile else (profile, profile.facts())

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
        found = replace(found, left_out=tuple(sorted(running.left_out)))
        facts = {name: self._facts_of(profile) for name, profile in found.services.items()}
        if len(facts) != len(self._facts) or any(
            name not in self._facts or (each is not self._facts[name] and each[1] != self._facts[name][1])
            for name, each in facts.items()
        ):
            tables.put_services([each for _, each in facts.values()])
        self._facts = facts
        tables.put_groups(found.changed_groups)
        self._running = running
        return found
