"""The agents of the simulated hosts: the real detector and reporter of each, fed with the load of its host.

An agent samples as often as the trace has values. Its windows are at least one sample long, and an alert
needs as many seconds above a limit as live; everything else has the agent's defaults.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from agent.bottlenecks.detector import BottleneckDetector
from agent.reporting.reporter import Reporter
from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sampling.rates import ContainerRates, HostRates
from agent.sources.docker import RuntimeEvent
from collector.common.arrays import Floats, Rows
from replay.setup.hosts import Hosts
from replay.setup.workload import Workload
from replay.simulation.agents.heartbeats import HeartbeatMaker, SampledColumns
from replay.simulation.agents.samples import (
    DEFAULT_INTERVAL_SECONDS,
    NO_PRESSURE,
    RUNTIME,
    AgentSettings,
    ClusterSample,
    PlainHost,
    SimulatedContainers,
    quantities_of,
    quantities_of_rows,
)
from wire.messages import Report
from wire.resources import RESOURCES, Quantities

_CPU, _DISK = 0, 2
_UNKNOWN = Quantities()
_KILLED = 137


@dataclass(frozen=True, eq=False, kw_only=True)
class HostLoad:
    """The load of all hosts at one time."""

    running: Rows
    """Containers, as rows of the workload."""
    node: Rows
    """The host of each."""
    used: Floats
    """The usage of each."""
    by_node: Floats
    """The total usage of each host."""


@dataclass(slots=True)
class _Agent:
    """One run of one host's agent."""

    name: str
    """The name of the run."""
    reporter: Reporter
    detector: BottleneckDetector
    sampled_at: float
    observed_at: float = -inf
    """When it last sampled, or listed its containers."""
    rows: list[int] = field(default_factory=list)
    """The containers that it last listed."""
    has_events: bool = False
    """Whether its engine ever reported an event."""
    plain: PlainHost | None = None
    """The contents of a plain heartbeat, if its next report may be one."""


class SimulatedAgents:
    """One agent per host that has power."""

    def __init__(  # noqa: PLR0913 - hosts, containers, and how agents report
        self,
        hosts: Hosts,
        workload: Workload,
        settings: AgentSettings,
        *,
        boot: str = "boot",
        all_resources: bool = False,
        one_by_one: bool = False,
    ) -> None:
        """`boot` is the prefix of the names of the agents' runs.

        Resources that the trace does not have are unknown; with `all_resources`, their usage is 0. With
        `one_by_one`, no report is made in bulk; the reports are the same.
        """
        self._hosts, self._settings = hosts, settings
        self.containers = SimulatedContainers(workload)
        self._boot = boot
        self._agents: dict[int, _Agent] = {}
        self._boots: defaultdict[int, int] = defaultdict(int)
        self._capacity = [quantities_of(row) for row in hosts.capacity]
        self._killed: defaultdict[int, list[RuntimeEvent]] = defaultdict(list)
        known = len(RESOURCES) if all_resources else workload.use.resources
        self._known = [place < known for place in range(len(RESOURCES))]
        self._last: ClusterSample | None = None
        self._one_by_one = one_by_one
        self._heartbeats = HeartbeatMaker(settings.reporting, settings.sample_seconds)
        self._alert_ratio = settings.bottleneck.usage_ratio

    # --- Hosts and containers -----------------------------------------------------------------------

    def boot(self, host: int, now: float) -> Report | None:
        """Start the agent of an empty host; return its first report."""
        self._boots[host] += 1
        name = f"{self._boot}-{self._boots[host]}"
        self._agents[host] = _Agent(
            name,
            Reporter(
                self._hosts.names[host],
                name,
                self._settings.reporting,
                self._settings.sample_seconds,
            ),
            BottleneckDetector(self._settings.bottleneck),
            now - DEFAULT_INTERVAL_SECONDS,
        )
        return self._report(host, now, self._idle(host), 0.0, [], [])

    def shut_down(self, host: int, now: float) -> Report | None:
        """Stop the agent of an empty host; return its last report."""
        self._catch_up(host)
        report = self._report(host, now, self._idle(host), 0.0, [], [])
        del self._agents[host]
        return report

    def _idle(self, host: int) -> Quantities:
        return quantities_of(np.where(self._known, self._hosts.system[host], np.nan))

    @property
    def running(self) -> Iterable[int]:
        return self._agents.keys()

    def kill(self, container: int, host: int, now: float) -> None:
        """Report that the kernel killed a container because memory is short."""
        name, container_id = self.containers.name_of(container), self.containers.id_of(container)
        self._killed[host] += [
            RuntimeEvent("oom", container_id, name, now),
            RuntimeEvent("die", container_id, name, now, exit_code=_KILLED),
        ]

    # --- Samples ------------------------------------------------------------------------------------

    def sample(self, now: float, load: HostLoad) -> list[Report]:
        """Let all agents sample; return the reports that are due."""
        order = np.argsort(load.node, kind="stable")
        running, on = load.running[order], load.node[order]
        sampled = self._cluster_sample(now, load, running, on, load.used[order])
        busy = self._hosts_near_alert(sampled) | self._changed_hosts(running, on)
        plain = {
            host
            for host, agent in self._agents.items()
            if host not in busy and self._is_plain(host, agent, sampled, now)
        }
        of_hosts = quantities_of_rows(load.by_node, self._known)
        columns = self._columns(sampled, on, plain, now)
        reports = []
        for host in sorted(self._agents):
            if host in plain:
                reports.append(self._plain_report(host, now, of_hosts[host], sampled, columns))
            elif (
                report := self._sample_host(host, now, of_hosts[host], sampled, is_busy=host in busy)
            ) is not None:
                reports.append(report)
        self._last = sampled
        return reports

    def _cluster_sample(
        self, now: float, load: HostLoad, running: Rows, on: Rows, used: Floats
    ) -> ClusterSample:
        """The sample of all hosts; containers are in the order of their hosts."""
        self.containers.add_cpu_time(running, used[:, _CPU], now)
        return ClusterSample(
            rows=running.tolist(),
            starts=np.searchsorted(on, np.arange(self._hosts.size + 1)).tolist(),
            used=used,
            by_node=load.by_node,
            disk_busy=np.minimum(load.by_node[:, _DISK] / self._hosts.capacity[:, _DISK], 1.0).tolist(),
            cpu_seconds_total=self.containers.cpu_seconds_total[running],
        )

    def _changed_hosts(self, running: Rows, on: Rows) -> set[int]:
        """The hosts with containers that started, or whose limits changed, since the last sample."""
        changed = list(self.containers.changed)
        self.containers.changed.clear()
        return set(on[np.isin(running, changed)].tolist()) if changed else set()

    def _sample_host(
        self, host: int, now: float, used: Quantities, sampled: ClusterSample, *, is_busy: bool
    ) -> Report | None:
        """Let the reporter of a host report its sample; the next report may then be a plain heartbeat."""
        self._catch_up(host)
        agent = self._agents[host]
        rows, containers = self._containers_of(host, sampled)
        may_be_plain = not is_busy and agent.rows == rows and agent.reporter.all_due(agent.observed_at, now)
        report = self._report(host, now, used, sampled.disk_busy[host], containers, rows)
        if report is not None and may_be_plain:
            agent.plain = self._plain_host(agent, report, containers)
        return report

    def _hosts_near_alert(self, sampled: ClusterSample) -> set[int]:
        """The hosts whose detector could open an alert."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = sampled.by_node / self._hosts.capacity
        ratios[:, _DISK] = sampled.disk_busy
        above = (ratios >= self._alert_ratio) & (self._alert_ratio > 0) & self._known
        return set(np.flatnonzero(above.any(axis=1)).tolist())

    def _is_plain(self, host: int, agent: _Agent, sampled: ClusterSample, now: float) -> bool:
        """Whether a host reports a heartbeat of the same containers, with one sample in each window."""
        return (
            agent.plain is not None
            and not self._one_by_one
            and host not in self._killed
            and agent.rows == sampled.rows[sampled.starts[host] : sampled.starts[host + 1]]
            and now > agent.sampled_at
            and agent.reporter.all_due(agent.observed_at, now)
        )

    def _columns(
        self, sampled: ClusterSample, on: Rows, plain: set[int], now: float
    ) -> SampledColumns | None:
        if not plain:
            return None
        sampled_at = np.full(self._hosts.size, -np.inf)
        for host, agent in self._agents.items():
            sampled_at[host] = agent.sampled_at
        return SampledColumns.of(sampled.used, now - sampled_at[on], self._known, sampled.cpu_seconds_total)

    def _plain_report(
        self, host: int, now: float, used: Quantities, sampled: ClusterSample, columns: SampledColumns | None
    ) -> Report:
        agent = self._agents[host]
        plain = agent.plain
        assert plain is not None
        assert columns is not None
        plain.interval_seconds = now - agent.sampled_at
        plain.reports += 1
        agent.sampled_at = agent.observed_at = now
        sample = self._node_sample(host, now, plain.interval_seconds, used, sampled.disk_busy[host], [])
        return self._heartbeats.make(
            Report(
                node=self._hosts.names[host],
                boot=agent.name,
                sequence=agent.reporter.sequence + plain.reports,
                at=now,
            ),
            sample,
            plain,
            columns,
            sampled.starts[host],
        )

    @staticmethod
    def _plain_host(agent: _Agent, report: Report, containers: list[ContainerSample]) -> PlainHost | None:
        """The contents of plain heartbeats after this report, if it was one itself; else None."""
        if (
            report.heartbeat is None
            or report.gone
            or report.events
            or report.alerts
            or agent.has_events
            or agent.detector.open_alerts
        ):
            return None
        places = {each.id: place for place, each in enumerate(containers)}
        names = [each.id for each in report.heartbeat.usage]
        if places.keys() != set(names):
            return None
        return PlainHost(
            ids=[each.id for each in containers],
            infos=[each.info for each in containers],
            limits=[each.rates.limit for each in containers],
            order=[places[name] for name in names],
        )

    def _catch_up(self, host: int) -> None:
        """Pass the last sample of a host to its reporter, if it did not make the last reports itself."""
        agent = self._agents[host]
        plain, agent.plain = agent.plain, None
        if plain is None or not plain.reports:
            return
        last = self._last
        assert last is not None
        begin, end = last.starts[host], last.starts[host + 1]
        containers = [
            ContainerSample(ContainerRates(name, RUNTIME, total, used, limit, NO_PRESSURE), info)
            for name, info, limit, total, used in zip(
                plain.ids,
                plain.infos,
                plain.limits,
                last.cpu_seconds_total[begin:end].tolist(),
                quantities_of_rows(last.used[begin:end], self._known),
                strict=True,
            )
        ]
        [used] = quantities_of_rows(last.by_node[host : host + 1], self._known)
        busy = last.disk_busy[host]
        sample = self._node_sample(host, agent.sampled_at, plain.interval_seconds, used, busy, containers)
        agent.reporter.report(sample, (), ())
        agent.reporter.skip(plain.reports - 1)

    def _containers_of(self, host: int, sampled: ClusterSample) -> tuple[list[int], list[ContainerSample]]:
        begin, end = sampled.starts[host], sampled.starts[host + 1]
        rows = sampled.rows[begin:end]
        totals = sampled.cpu_seconds_total[begin:end].tolist()
        used = quantities_of_rows(sampled.used[begin:end], self._known)
        return rows, [self.containers.sample(*each) for each in zip(rows, totals, used, strict=True)]

    def list_containers(self, now: float, running: Rows, node: Rows, hosts: Iterable[int]) -> list[Report]:
        """Let the agents of some hosts list their containers, without a sample; return the reports due.

        The usage of the containers is unknown, since a sample covers the whole time between two samples.
        """
        reports = []
        for host in sorted(self._agents.keys() & set(hosts)):
            self._catch_up(host)
            agent = self._agents[host]
            rows = running[node == host].tolist()
            totals = self.containers.cpu_seconds_total[rows].tolist()
            containers = [
                self.containers.sample(row, total, _UNKNOWN) for row, total in zip(rows, totals, strict=True)
            ]
            sample = self._node_sample(host, now, 0.0, _UNKNOWN, np.nan, containers)
            agent.observed_at, agent.rows = now, rows
            reports.append(agent.reporter.report(sample, self._events(host), ()))
        return [report for report in reports if report is not None]

    def _report(  # noqa: PLR0913, PLR0917 - the fields of a sample
        self,
        host: int,
        now: float,
        used: Quantities,
        disk_busy: float,
        containers: list[ContainerSample],
        rows: list[int],
    ) -> Report | None:
        agent = self._agents[host]
        sample = self._node_sample(host, now, now - agent.sampled_at, used, disk_busy, containers)
        agent.sampled_at = agent.observed_at = now
        agent.rows = rows
        return agent.reporter.report(sample, self._events(host), agent.detector.update(sample))

    def _events(self, host: int) -> Sequence[RuntimeEvent]:
        events = self._killed.pop(host, ())
        self._agents[host].has_events |= bool(events)
        return events

    def _node_sample(  # noqa: PLR0913, PLR0917 - the fields of a sample
        self,
        host: int,
        now: float,
        interval_seconds: float,
        used: Quantities,
        disk_busy: float,
        containers: list[ContainerSample],
    ) -> NodeSample:
        return NodeSample(
            monotonic_seconds=now,
            rates=HostRates(
                unix_seconds=now,
                interval_seconds=interval_seconds,
                used=used,
                capacity=self._capacity[host],
                pressure=NO_PRESSURE,
                disk_busy_ratio=None if disk_busy != disk_busy else disk_busy,  # noqa: PLR0124 - NaN
            ),
            containers=tuple(containers),
            power_curve=self._hosts.curves[host],
        )
