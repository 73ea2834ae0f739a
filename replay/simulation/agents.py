"""The agents of the simulated hosts: the real detector and reporter of each, fed with the load of its host.

An agent samples as often as the trace has values. Its windows are at least one sample long, and an alert
needs as many seconds above a limit as live; everything else has the agent's defaults.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

import msgspec
import numpy as np

from agent.bottlenecks.detector import BottleneckDetector
from agent.config import BottleneckConfig, ReportingConfig, SamplingConfig
from agent.reporting.messages import ContainerFacts
from agent.reporting.reporter import Reporter
from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sampling.rates import ContainerRates, HostRates
from agent.sources.docker import ContainerInfo, RuntimeEvent
from collector.snapshot.power_curves import Floats, Rows
from replay.setup.hosts import Hosts
from replay.setup.workload import Workload
from replay.simulation.bulk.heartbeats import HeartbeatMaker, SampledColumns
from replay.simulation.bulk.samples import Plain, Sampled, quantities, values
from wire.messages import PowerCurve, Pressure, Report
from wire.resources import RESOURCES, Quantities

DEFAULT_INTERVAL_SECONDS = SamplingConfig().interval_seconds
"""Time after which a live agent notices that a container started or ended."""
BEACON_SECONDS = ReportingConfig().beacon_seconds
_CPU, _MEMORY, _DISK = 0, 1, 2
_RUNTIME = "docker"
_KINDS = ("service", "job", "daemon")
_NO_PRESSURE = Pressure()
_UNKNOWN = Quantities()
_KILLED = 137
_AGAIN = "~"
"""Before how often a container had started before, in its id; no trace has it in an id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How agents sample and report."""

    sample_seconds: float
    reporting: ReportingConfig
    bottleneck: BottleneckConfig

    @classmethod
    def sampling_every(cls, seconds: float, *, every_window: bool = False) -> "AgentSettings":
        """The defaults, adapted to this interval; `every_window` reports windows that did not change too."""
        reporting, bottleneck = ReportingConfig(), BottleneckConfig()
        return cls(
            sample_seconds=seconds,
            reporting=msgspec.structs.replace(
                reporting,
                host_window_seconds=max(reporting.host_window_seconds, seconds),
                container_window_seconds=max(reporting.container_window_seconds, seconds),
                threshold_points=0.0 if every_window else reporting.threshold_points,
            ),
            bottleneck=msgspec.structs.replace(
                bottleneck, samples=max(1, ceil(bottleneck.samples * DEFAULT_INTERVAL_SECONDS / seconds))
            ),
        )


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
    """Of the run."""
    reporter: Reporter
    detector: BottleneckDetector
    sampled_at: float
    seen_at: float = -inf
    """When it last sampled, or looked what runs."""
    rows: list[int] = field(default_factory=list)
    """The containers that ran then."""
    has_events: bool = False
    """Whether its engine ever reported an event."""
    plain: Plain | None = None
    """Its containers, if its next report may be a plain heartbeat."""


class SimulatedAgents:
    """One agent per host that has power."""

    def __init__(  # noqa: PLR0913 - what agents see, and how they report
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

        Resources that the trace does not have are unknown, or with `all_resources` not used. With
        `one_by_one`, no report is made in bulk; the reports are the same.
        """
        self._hosts, self._workload, self._settings = hosts, workload, settings
        self._boot = boot
        self._agents: dict[int, _Agent] = {}
        self._boots: defaultdict[int, int] = defaultdict(int)
        self._capacity = [quantities(row) for row in hosts.capacity]
        self._limit = [quantities(row) for row in workload.requested]
        self._curves: Sequence[PowerCurve] = hosts.curves
        self._cpu_seconds = np.zeros(workload.size)
        self._counted_at = np.zeros(workload.size)
        self._info: dict[int, ContainerInfo] = {}
        self._starts = [0] * workload.size
        self._ids = list(workload.ids)
        self._killed: defaultdict[int, list[RuntimeEvent]] = defaultdict(list)
        known = len(RESOURCES) if all_resources else workload.use.resources
        self._known = [place < known for place in range(len(RESOURCES))]
        self._changed: set[int] = set()
        """Containers that started, or whose limits changed, since the last sample."""
        self._last: Sampled | None = None
        self._one_by_one = one_by_one
        self.reports_in_bulk = 0
        self._heartbeats = HeartbeatMaker(settings.reporting, settings.sample_seconds)
        limits = settings.bottleneck
        self._alert_ratios = np.array(
            [limits.cpu_ratio, limits.memory_ratio, limits.disk_ratio, limits.network_ratio]
        )

    # --- Changes of hosts and containers -------------------------------------------------------------

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
        return quantities(np.where(self._known, self._hosts.system[host], np.nan))

    @property
    def running(self) -> Iterable[int]:
        """The hosts whose agent runs."""
        return self._agents.keys()

    def id_of(self, container: int) -> str:
        """The id that a container of the workload has now."""
        return self._ids[container]

    def start(self, container: int, now: float) -> str:
        """A container starts on a host; returns its id, which is a new one each time, as engines do."""
        workload = self._workload
        name, again = workload.ids[container], self._starts[container]
        self._starts[container] += 1
        self._ids[container] = f"{name}{_AGAIN}{again}" if again else name
        self._cpu_seconds[container] = 0.0
        self._info[container] = ContainerInfo(
            name=name,
            service=workload.services[container],
            started_at=now,
            labels={
                **(workload.labels[container] if workload.labels else {}),
                "wattpack.class": str(int(workload.task_class[container])),
                "wattpack.kind": _KINDS[int(workload.kind[container])],
            },
        )
        self._counted_at[container] = now
        self._changed.add(container)
        return self._ids[container]

    def limit(self, container: int, allocated: Floats) -> None:
        """Set the limit of a container."""
        self._limit[container] = quantities(allocated)
        self._changed.add(container)

    def kill(self, container: int, host: int, now: float) -> None:
        """The kernel kills a container because memory is short."""
        name, container_id = self._workload.ids[container], self._ids[container]
        self._killed[host] += [
            RuntimeEvent("oom", container_id, name, now),
            RuntimeEvent("die", container_id, name, now, exit_code=_KILLED),
        ]

    # --- Samples ------------------------------------------------------------------------------------

    def sample(self, now: float, load: HostLoad) -> list[Report]:
        """Let all agents sample; return the reports that are due."""
        order = np.argsort(load.node, kind="stable")
        running, on = load.running[order], load.node[order]
        used = load.used[order]
        self._cpu_seconds[running] += used[:, _CPU] * (now - self._counted_at[running])
        self._counted_at[running] = now
        sampled = Sampled(
            rows=running.tolist(),
            starts=np.searchsorted(on, np.arange(self._hosts.size + 1)).tolist(),
            used=used,
            by_node=load.by_node,
            disk_busy=np.minimum(load.by_node[:, _DISK] / self._hosts.capacity[:, _DISK], 1.0).tolist(),
            cpu_seconds_total=self._cpu_seconds[running],
        )
        hot = self._hot(sampled)
        changed = set(on[np.isin(running, list(self._changed))].tolist()) if self._changed else set()
        self._changed.clear()
        plain = {
            host
            for host, agent in self._agents.items()
            if host not in hot and host not in changed and self._is_plain(host, agent, sampled, now)
        }
        of_hosts = values(load.by_node, self._known)
        columns = self._columns(sampled, on, plain, now)
        reports = []
        for host in sorted(self._agents):
            if host in plain:
                reports.append(self._plain_report(host, now, of_hosts[host], sampled, columns))
                continue
            self._catch_up(host)
            rows, containers = self._containers_of(host, sampled)
            before = self._agents[host].rows
            is_due = self._agents[host].reporter.all_due(self._agents[host].seen_at, now)
            report = self._report(host, now, of_hosts[host], sampled.disk_busy[host], containers, rows)
            if report is not None:
                reports.append(report)
                if is_due and before == rows and host not in hot and host not in changed:
                    self._agents[host].plain = self._plain_from(host, report, containers)
        self._last = sampled
        return reports

    def _hot(self, sampled: Sampled) -> set[int]:
        """The hosts with a ratio at which their detector could open an alert."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = sampled.by_node / self._hosts.capacity
        ratios[:, _DISK] = sampled.disk_busy
        above = (ratios >= self._alert_ratios) & (self._alert_ratios > 0) & self._known
        return set(np.flatnonzero(above.any(axis=1)).tolist())

    def _is_plain(self, host: int, agent: _Agent, sampled: Sampled, now: float) -> bool:
        """Whether a host reports a heartbeat of the same containers, with one sample in each window."""
        return (
            agent.plain is not None
            and not self._one_by_one
            and host not in self._killed
            and agent.rows == sampled.rows[sampled.starts[host] : sampled.starts[host + 1]]
            and now > agent.sampled_at
            and agent.reporter.all_due(agent.seen_at, now)
        )

    def _columns(self, sampled: Sampled, on: Rows, plain: set[int], now: float) -> SampledColumns | None:
        if not plain:
            return None
        sampled_at = np.full(self._hosts.size, -np.inf)
        for host, agent in self._agents.items():
            sampled_at[host] = agent.sampled_at
        return SampledColumns.of(sampled.used, now - sampled_at[on], self._known, sampled.cpu_seconds_total)

    def _plain_report(
        self, host: int, now: float, used: Quantities, sampled: Sampled, columns: SampledColumns | None
    ) -> Report:
        agent = self._agents[host]
        plain = agent.plain
        assert plain is not None
        assert columns is not None
        plain.interval_seconds = now - agent.sampled_at
        plain.reports += 1
        self.reports_in_bulk += 1
        agent.sampled_at = agent.seen_at = now
        sample = self._node_sample(host, now, plain.interval_seconds, used, sampled.disk_busy[host], [])
        return self._heartbeats.make(
            self._hosts.names[host],
            agent.name,
            agent.reporter.sequence + plain.reports,
            sample,
            plain.facts,
            plain.limits,
            columns,
            sampled.starts[host],
            plain.order,
        )

    def _plain_from(self, host: int, report: Report, containers: list[ContainerSample]) -> Plain | None:
        """What plain heartbeats after this report have, if it was one itself."""
        agent = self._agents[host]
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
        return Plain(
            facts=[ContainerFacts.of(each.id, each.info) for each in containers],
            infos=[each.info for each in containers],
            limits=[each.rates.limit for each in containers],
            order=[places[name] for name in names],
        )

    def _catch_up(self, host: int) -> None:
        """Let the reporter of a host see the last sample, if its reports were made without it."""
        agent = self._agents[host]
        plain, agent.plain = agent.plain, None
        if plain is None or not plain.reports:
            return
        last = self._last
        assert last is not None
        begin, end = last.starts[host], last.starts[host + 1]
        containers = [
            ContainerSample(ContainerRates(each.id, _RUNTIME, total, used, limit, _NO_PRESSURE), info)
            for each, info, limit, total, used in zip(
                plain.facts,
                plain.infos,
                plain.limits,
                last.cpu_seconds_total[begin:end].tolist(),
                values(last.used[begin:end], self._known),
                strict=True,
            )
        ]
        [used] = values(last.by_node[host : host + 1], self._known)
        busy = last.disk_busy[host]
        sample = self._node_sample(host, agent.sampled_at, plain.interval_seconds, used, busy, containers)
        agent.reporter.report(sample, (), ())
        agent.reporter.skip(plain.reports - 1)

    def _containers_of(self, host: int, sampled: Sampled) -> tuple[list[int], list[ContainerSample]]:
        begin, end = sampled.starts[host], sampled.starts[host + 1]
        rows = sampled.rows[begin:end]
        totals = sampled.cpu_seconds_total[begin:end].tolist()
        used = values(sampled.used[begin:end], self._known)
        return rows, [self._container(*each) for each in zip(rows, totals, used, strict=True)]

    def look(self, now: float, running: Rows, node: Rows, hosts: Iterable[int]) -> list[Report]:
        """Let the agents of some hosts list their containers, without a sample; return the reports due.

        What containers use is unknown then: a sample stands for the whole time between two of them.
        """
        reports = []
        for host in sorted(self._agents.keys() & set(hosts)):
            self._catch_up(host)
            agent = self._agents[host]
            rows = running[node == host].tolist()
            containers = [self._container(row, float(self._cpu_seconds[row]), _UNKNOWN) for row in rows]
            sample = self._node_sample(host, now, 0.0, _UNKNOWN, np.nan, containers)
            agent.seen_at, agent.rows = now, rows
            reports.append(agent.reporter.report(sample, self._events(host), ()))
        return [report for report in reports if report is not None]

    def _container(self, container: int, cpu_seconds_total: float, used: Quantities) -> ContainerSample:
        info = self._info[container]
        limit = self._limit[container]
        rates = ContainerRates(self._ids[container], _RUNTIME, cpu_seconds_total, used, limit, _NO_PRESSURE)
        return ContainerSample(rates, info)

    def _report(  # noqa: PLR0913, PLR0917 - what a sample has
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
        agent.sampled_at = agent.seen_at = now
        agent.rows = rows
        return agent.reporter.report(sample, self._events(host), agent.detector.update(sample))

    def _events(self, host: int) -> Sequence[RuntimeEvent]:
        events = self._killed.pop(host, ())
        self._agents[host].has_events |= bool(events)
        return events

    def _node_sample(  # noqa: PLR0913, PLR0917 - what a sample has
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
                pressure=_NO_PRESSURE,
                disk_busy_ratio=None if disk_busy != disk_busy else disk_busy,  # noqa: PLR0124 - NaN
            ),
            containers=tuple(containers),
            power_curve=self._curves[host],
        )
