"""The collector of a simulation: the real registry, analysis and reservations, on a simulated clock."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

import msgspec

from collector.analysis.analysis import LatestAnalysis
from collector.common.arrays import Floats
from collector.common.orchestrator import NodeView
from collector.config import CollectorConfig, PlacementConfig
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.policies.interface import ApplicationPlacement
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.question import PlacementQuestion, build_request
from collector.decide.ranking import Placement, place_container
from collector.decide.reservations import Reservations
from collector.features.network.mesh.delays import Delays
from collector.history.interface import UsageKey
from collector.observe.registry import Registry
from collector.observe.updates import Allocation
from collector.runtime.analysis import AnalysisPass
from collector.snapshot.tables import Snapshot
from wire.messages import Report

_TIDY_SECONDS = 60.0
_SNAPSHOT_SECONDS = PlacementConfig().snapshot_seconds
"""Maximum age of a snapshot, as live. Results do not depend on it, since every report ends a snapshot."""


class SimulatedCollector:
    """Receives reports, and returns snapshots and placements. Times are Unix times."""

    def __init__(
        self, config: CollectorConfig, *, seed: int = 0, round_trip_seconds: Floats | None = None
    ) -> None:
        # The tables must not cache a snapshot: this class knows when it is out of date.
        placement = msgspec.structs.replace(config.placement, snapshot_seconds=0.0)
        self.config, self._seed = msgspec.structs.replace(config, placement=placement), seed
        self.registry = Registry(self.config)
        self.reservations = Reservations()
        self.admission: AdmissionRule | None = None
        """None admits every placement of a policy, as the papers do."""
        self.latest = LatestAnalysis()
        self._analysis = AnalysisPass(self.registry, self.config)
        self._delays = None
        if round_trip_seconds is not None:
            # Nodes in a snapshot are in the order of their names, as hosts are.
            self._delays = Delays.of_matrix(round_trip_seconds)
        self._analysed_at = self._tidied_at = -inf
        self._snapshot: Snapshot | None = None

    def receive(self, reports: Sequence[Report], now: float) -> None:
        if reports:
            self._snapshot = None
        heartbeats = []
        for report in reports:
            self.registry.apply(report, now)
            if report.heartbeat is not None and report.heartbeat.usage:
                key = UsageKey.of(report, now)
                heartbeats.append((key, report.heartbeat.usage))
        self.registry.usage.add_all(heartbeats)

    def apply_beacons(self, nodes: Sequence[str], at: float) -> None:
        """Apply the beacons of nodes that have nothing to report."""
        self.registry.apply_beacons(nodes, at)
        self._snapshot = None

    def run_due_jobs(self, now: float) -> None:
        """Run the periodic work that is due: the analysis, and the removal of ended containers."""
        if now - self._analysed_at >= self.config.analysis.interval_seconds:
            self._analysed_at = now
            self.analyse(now)
        if now - self._tidied_at >= _TIDY_SECONDS:
            self._tidied_at = now
            self.registry.drop_old(now)

    def analyse(self, now: float) -> None:
        full, nodes = self._analysis.due(now)
        observed = {node: self.registry.usage.observed_containers(node) for node in nodes}
        self.latest.latest = self._analysis.run(observed, self.latest.latest, now, full=full)
        self._snapshot = None
        if self.admission is not None:
            self.admission.record.observe(self.snapshot(now))

    def put_statuses(self, statuses: Iterable[NodeView]) -> None:
        for status in statuses:
            self.registry.tables.put_status(status)
        self._snapshot = None

    def put_allocations(self, allocations: Iterable[Allocation]) -> None:
        self.registry.tables.put_allocations(allocations)
        self._snapshot = None

    def snapshot(self, now: float) -> Snapshot:
        """The collector's view of the cluster, with placements that agents have not reported yet."""
        taken = self._snapshot
        if taken is None or not 0 <= now - taken.at < _SNAPSHOT_SECONDS:
            taken = self.registry.tables.snapshot(now)
            if self._seed:
                taken = replace(taken, seed=self._seed)
            if self._delays is not None:
                taken = taken.with_part(self._delays)
            self._snapshot = taken
        return self.reservations.fold(taken, now)

    def place_together(
        self, questions: Sequence[PlacementQuestion], chosen: PolicyChoice, now: float
    ) -> ApplicationPlacement:
        """Choose nodes for containers of an application as a whole, and reserve them."""
        snapshot = self.snapshot(now)
        requests = [
            build_request(each, snapshot, self.config.placement.default_class)[0] for each in questions
        ]
        placement = chosen.place_all(snapshot, requests)
        for question, request, node in zip(
            questions, requests, placement.nodes, strict=bool(placement.nodes)
        ):
            self.reservations.place(snapshot, request, node, now=now, seconds=question.reserve_seconds)
        return placement

    def place(self, question: PlacementQuestion, chosen: PolicyChoice, now: float) -> Placement:
        """Choose a node for a container, and reserve it."""
        return place_container(
            self.snapshot(now),
            question,
            chosen,
            self.reservations,
            default_class=self.config.placement.default_class,
            now=now,
            admission=self.admission,
        )
