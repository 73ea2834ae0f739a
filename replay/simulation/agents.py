"""The agents of the simulated hosts: the real detector and reporter of each, fed with the load of its host.

An agent samples as often as the trace has values. Its windows are at least one sample long, and an alert
needs as many seconds above a limit as live; everything else has the agent's defaults.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

import msgspec
import numpy as np

from agent.bottlenecks.detector import BottleneckDetector
from agent.config import BottleneckConfig, ReportingConfig, SamplingConfig
from agent.reporting.reporter import Reporter
from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sampling.rates import ContainerRates, HostRates
from agent.sources.docker import ContainerInfo, RuntimeEvent
from collector.snapshot.power_curves import Floats, Rows
from replay.setup.hosts import Hosts
from replay.setup.workload import Workload
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

    reporter: Reporter
    detector: BottleneckDetector
    sampled_at: float


class SimulatedAgents:
    """One agent per host that has power."""

    def __init__(
        self,
        hosts: Hosts,
        workload: Workload,
        settings: AgentSettings,
        *,
        boot: str = "boot",
        all_resources: bool = False,
    ) -> None:
        """`boot` is the prefix of the names of the agents' runs.

        Resources that the trace does not have are unknown, or with `all_resources` not used.
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

    # --- Changes of hosts and containers -------------------------------------------------------------

    def boot(self, host: int, now: float) -> Report | None:
        """Start the agent of an empty host; return its first report."""
        self._boots[host] += 1
        self._agents[host] = _Agent(
            Reporter(
                self._hosts.names[host],
                f"{self._boot}-{self._boots[host]}",
                self._settings.reporting,
                self._settings.sample_seconds,
            ),
            BottleneckDetector(self._settings.bottleneck),
            now - DEFAULT_INTERVAL_SECONDS,
        )
        return self._sample(host, now, self._idle(host), 0.0, [])

    def shut_down(self, host: int, now: float) -> Report | None:
        """Stop the agent of an empty host; return its last report."""
        report = self._sample(host, now, self._idle(host), 0.0, [])
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
        return self._ids[container]

    def limit(self, container: int, allocated: Floats) -> None:
        """Set the limit of a container."""
        self._limit[container] = quantities(allocated)

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
        starts = np.searchsorted(on, np.arange(self._hosts.size + 1)).tolist()
        self._cpu_seconds[running] += load.used[order, _CPU] * (now - self._counted_at[running])
        self._counted_at[running] = now
        used = _values(load.used[order], self._known)
        of_hosts = _values(load.by_node, self._known)
        busy = np.minimum(load.by_node[:, _DISK] / self._hosts.capacity[:, _DISK], 1.0).tolist()
        totals, rows = self._cpu_seconds[running].tolist(), running.tolist()
        reports = []
        for host in sorted(self._agents):
            begin, end = starts[host], starts[host + 1]
            containers = [
                self._container(*each)
                for each in zip(rows[begin:end], totals[begin:end], used[begin:end], strict=True)
            ]
            reports.append(self._sample(host, now, of_hosts[host], busy[host], containers))
        return [report for report in reports if report is not None]

    def look(self, now: float, running: Rows, node: Rows, hosts: Iterable[int]) -> list[Report]:
        """Let the agents of some hosts list their containers, without a sample; return the reports due.

        What containers use is unknown then: a sample stands for the whole time between two of them.
        """
        reports = []
        for host in sorted(self._agents.keys() & set(hosts)):
            agent = self._agents[host]
            rows = running[node == host].tolist()
            containers = [self._container(row, float(self._cpu_seconds[row]), _UNKNOWN) for row in rows]
            sample = self._node_sample(host, now, 0.0, _UNKNOWN, None, containers)
            reports.append(agent.reporter.report(sample, self._killed.pop(host, ()), ()))
        return [report for report in reports if report is not None]

    def _container(self, container: int, cpu_seconds_total: float, used: Quantities) -> ContainerSample:
        info = self._info[container]
        limit = self._limit[container]
        rates = ContainerRates(self._ids[container], _RUNTIME, cpu_seconds_total, used, limit, _NO_PRESSURE)
        return ContainerSample(rates, info)

    def _sample(
        self, host: int, now: float, used: Quantities, disk_busy: float, containers: list[ContainerSample]
    ) -> Report | None:
        agent = self._agents[host]
        busy = None if disk_busy != disk_busy else disk_busy  # noqa: PLR0124 - NaN
        sample = self._node_sample(host, now, now - agent.sampled_at, used, busy, containers)
        agent.sampled_at = now
        return agent.reporter.report(sample, self._killed.pop(host, ()), agent.detector.update(sample))

    def _node_sample(  # noqa: PLR0913, PLR0917 - what a sample has
        self,
        host: int,
        now: float,
        interval_seconds: float,
        used: Quantities,
        disk_busy: float | None,
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
                disk_busy_ratio=disk_busy,
            ),
            containers=tuple(containers),
            power_curve=self._curves[host],
        )


def quantities(row: Floats) -> Quantities:
    """A row of a column; NaN is absent."""
    cpu, memory, disk, network = (None if value != value else value for value in row.tolist())  # noqa: PLR0124 - NaN
    return Quantities(cpu, None if memory is None else int(memory), disk, network)


def _values(amounts: Floats, known: Sequence[bool]) -> list[Quantities]:
    """Each row, without the resources that the trace does not have."""
    columns: list[list[float | None]] = [
        amounts[:, place].tolist() if is_known else [None] * len(amounts)
        for place, is_known in enumerate(known)
    ]
    if known[_MEMORY]:
        columns[_MEMORY] = amounts[:, _MEMORY].astype(np.int64).tolist()
    return [Quantities(*row) for row in zip(*columns, strict=True)]
