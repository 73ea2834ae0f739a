"""The collector of a simulation: the real registry, analysis and reservations, on a simulated clock.

`Exchange` passes it the reports of agents and of the orchestrator, and `report_earlier` those of an earlier
recording.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

import msgspec
import numpy as np

from collector.analysis.analysis import AnalysisPass, LatestAnalysis, merged
from collector.common.arrays import Floats
from collector.common.orchestrator import NodeView
from collector.common.reported_alerts import AlertState
from collector.config import CollectorConfig, PlacementConfig
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.policies.interface import ApplicationPlacement
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.question import PlacementQuestion, build_request
from collector.decide.ranking import Placement, place_container, place_together
from collector.decide.reservations import Reservations
from collector.features.network.mesh.delays import Delays
from collector.history.interface import UsageKey
from collector.observe.registry import Registry
from collector.observe.updates import Allocation
from collector.observe.windows import BUCKET_SECONDS, BUCKETS
from collector.runtime.analysis import PassSchedule, apply
from collector.snapshot.columns import sum_by_node
from collector.snapshot.experience import Experience
from collector.snapshot.tables import NOWHERE, Snapshot
from replay.setup.hosts import Hosts
from replay.setup.workload import Workload
from replay.simulation.agents.agents import HostLoad, SimulatedAgents
from replay.simulation.agents.samples import BEACON_SECONDS, DEFAULT_INTERVAL_SECONDS, AgentSettings
from replay.simulation.cluster import SOON, Cluster, Load, unix
from replay.simulation.driver import SimulatedDriver
from wire.messages import Report

_DAY_SECONDS = 86_400.0
_SILENT_SECONDS = BUCKETS * BUCKET_SECONDS
"""Time between the recording and the run, after which all windows are empty."""
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
        self._schedule, self._analysis = PassSchedule(self.registry, self.config), AnalysisPass()
        self._delays = None
        if round_trip_seconds is not None:
            # Nodes in a snapshot are in the order of their names, as hosts are.
            self._delays = Delays.of_matrix(round_trip_seconds)
        self._analysed_at = self._tidied_at = -inf
        self._snapshot: Snapshot | None = None
        self.reports_received = 0
        self._has_alert: bool | None = None
        """None after a report, until somebody asks."""

    @property
    def has_alert(self) -> bool:
        """Whether an alert is open."""
        if self._has_alert is None:
            self._has_alert = self.registry.alert_count()[AlertState.OPEN] > 0
        return self._has_alert

    def receive(self, reports: Sequence[Report], now: float) -> None:
        if reports:
            self._snapshot = self._has_alert = None
            self.reports_received += len(reports)
        heartbeats = []
        for report in reports:
            self.registry.apply(report, now)
            if report.heartbeat is not None and report.heartbeat.usage:
                key = UsageKey.received(report, now)
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
        full, nodes = self._schedule.due(now)
        if full:
            next(self._analysis.begin(self.config.analysis, self.config.envelopes))
        next(self._analysis.put({node: self.registry.usage.observed_containers(node) for node in nodes}))
        changes = list(self._analysis.run(self.registry.tables.snapshot(now)))
        self.latest.latest = merged(self.latest.latest, changes)
        for each in changes:
            apply(self.registry, each)
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

    def put_experience(self, experience: Experience) -> None:
        self.registry.tables.put_experience(experience)
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
        placement = place_together(snapshot, requests, chosen, admission=self.admission)
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


class Exchange:
    """Passes the reports of agents to the collector when they are due. Times are seconds of the trace."""

    def __init__(  # noqa: PLR0913 - all parts that report
        self,
        cluster: Cluster,
        agents: SimulatedAgents,
        driver: SimulatedDriver,
        collector: SimulatedCollector,
        *,
        start: float,
        sample_seconds: float,
        exact: bool,
    ) -> None:
        self._cluster, self._agents, self._driver, self._collector = cluster, agents, driver, collector
        self._sample_seconds, self._exact = sample_seconds, exact
        self._sampled_at = start
        self._samples_at = start + sample_seconds
        # Windows close a tenth of a sample early. One that closes without a sample is reported as unknown.
        self._early_seconds = 0.1 * sample_seconds + 2 * DEFAULT_INTERVAL_SECONDS
        self._listings: dict[int, float] = {}
        """The times at which agents list their containers, by host: one started or ended there."""

    @property
    def next_at(self) -> float:
        """The time at which agents sample or list their containers next."""
        return min(self._samples_at, min(self._listings.values(), default=np.inf))

    def report_all_hosts(self, now: float) -> None:
        """Report every host once. Hosts that are off now were on before."""
        cluster = self._cluster
        everywhere = range(cluster.hosts.size)
        reports = [self._agents.boot(host, unix(now)) for host in everywhere]
        self._collector.receive([each for each in reports if each is not None], unix(now))
        for host in everywhere:
            if not cluster.on[host]:
                self._agents.shut_down(host, unix(now))
        self._report_hosts(everywhere)

    def sample(self, now: float, load: Load) -> None:
        """Let all agents sample, or some of them list their containers, if that is due."""
        if now >= self._samples_at - SOON:
            self._collector.receive(self._agents.sample(unix(now), self._measured_load(load)), unix(now))
            self._sampled_at = now
            self._samples_at += self._sample_seconds
            self._listings.clear()
            self._report_reservations()
            # CloudSim's policies do not use the analysis of services.
            if not self._exact:
                self._collector.run_due_jobs(unix(now))
        elif due := [host for host, at in self._listings.items() if at <= now + SOON]:
            node = self._cluster.node[load.running]
            self._collector.receive(
                self._agents.list_containers(unix(now), load.running, node, due), unix(now)
            )
            for host in due:
                del self._listings[host]
            self._report_reservations(set(due))

    def _measured_load(self, load: Load) -> HostLoad:
        """The load that agents measure: the usage of containers, or their demand as in CloudSim."""
        cluster = self._cluster
        return HostLoad(
            running=load.running,
            node=cluster.node[load.running],
            used=load.demand if self._exact else cluster.usage(load),
            by_node=load.by_node if self._exact else np.fmin(load.by_node, cluster.hosts.capacity),
        )

    def report_changes(self, now: float) -> None:
        """Schedule agents to list changed containers, and report to the collector which hosts have power."""
        driver = self._driver
        if driver.reports:
            self._collector.receive([each for each in driver.reports if each is not None], unix(now))
            driver.reports.clear()
        if driver.successions:
            self._collector.registry.add_successions(driver.successions)
            driver.successions.clear()
        if driver.switched:
            self._report_hosts(sorted(driver.switched))
            driver.switched.clear()
        if driver.changed:
            soon = now + DEFAULT_INTERVAL_SECONDS
            if not self._exact and soon < self._samples_at - self._early_seconds:
                for host in driver.changed:
                    self._listings.setdefault(host, soon)
            driver.changed.clear()

    def _report_hosts(self, hosts: Iterable[int]) -> None:
        names, labels = self._cluster.hosts.names, self._cluster.hosts.labels
        on = self._cluster.on | self._cluster.booting
        self._collector.put_statuses(
            NodeView(name=names[host], on=bool(on[host]), labels=labels[host]) for host in hosts
        )

    def _report_reservations(self, hosts: set[int] | None = None) -> None:
        """Report the reservations of containers that started or changed, once agents have reported them."""
        cluster, reallocated = self._cluster, self._driver.reallocated
        rows = [row for row in reallocated if hosts is None or int(cluster.node[row]) in hosts]
        if not rows:
            return
        reallocated.difference_update(rows)
        requested, allocated = self._cluster.workload.requested, cluster.allocated
        self._collector.put_allocations(
            Allocation(
                node=cluster.hosts.names[int(cluster.node[row])],
                container=self._agents.containers.id_of(row),
                requested=_columns(requested[row]),
                allocated=_columns(allocated[row]),
                came_from=self._driver.came_from(row),
                first_started_at=unix(float(self._cluster.workload.arrival_seconds[row])),
            )
            for row in sorted(rows)
            if cluster.node[row] != NOWHERE
        )

    def send_beacons(self, now: float) -> None:
        """Apply the beacons that agents sent since their last sample."""
        sent = (now - self._sampled_at) // BEACON_SECONDS
        if sent > 0:
            names = self._cluster.hosts.names
            at = unix(self._sampled_at + sent * BEACON_SECONDS)
            self._collector.apply_beacons([names[host] for host in self._agents.running], at)


def _columns(row: Floats) -> tuple[float, float, float, float]:
    cpu, memory, disk, network = row.tolist()
    return cpu, memory, disk, network


def report_earlier(
    collector: SimulatedCollector, hosts: Hosts, earlier: Workload, settings: AgentSettings, start: float
) -> None:
    """Let agents report the last day of a recording, with its containers distributed over all hosts."""
    agents = SimulatedAgents(hosts, earlier, settings, boot="earlier")
    node = np.arange(earlier.size) % hosts.size
    ends = earlier.arrival_seconds + earlier.lifetime_seconds
    shift = start - earlier.duration_seconds - _SILENT_SECONDS
    first_seconds = max(0.0, earlier.duration_seconds - _DAY_SECONDS)
    times = np.arange(first_seconds, earlier.duration_seconds, settings.sample_seconds).tolist()
    for host in range(hosts.size):
        begin = unix(times[0] + shift) - settings.sample_seconds
        first = agents.boot(host, begin)
        collector.receive([] if first is None else [first], begin)
    started = np.zeros(earlier.size, dtype=np.bool_)
    for seconds in times:
        running = np.flatnonzero((earlier.arrival_seconds <= seconds) & (seconds < ends))
        now = unix(seconds + shift)
        for row in running[~started[running]].tolist():
            agents.containers.start(row, now)
        started[running] = True
        used = earlier.use.at(seconds, running, earlier.arrival_seconds[running])
        by_node = np.fmin(sum_by_node(node[running], used, hosts.size), hosts.capacity)
        collector.receive(
            agents.sample(now, HostLoad(running=running, node=node[running], used=used, by_node=by_node)), now
        )
        collector.run_due_jobs(now)
