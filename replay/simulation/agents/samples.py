"""What simulated agents observe: their containers, and samples of all hosts in columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import msgspec
import numpy as np

from agent.config import BottleneckConfig, ReportingConfig, SamplingConfig
from agent.sampling.node_sample import ContainerSample
from agent.sampling.rates import ContainerRates
from agent.sources.docker import ContainerInfo
from collector.common.arrays import Floats, Rows
from replay.setup.workload import Workload
from wire.messages import Pressure
from wire.resources import Quantities

DEFAULT_INTERVAL_SECONDS = SamplingConfig().interval_seconds
"""Time after which a live agent notices that a container started or ended."""
BEACON_SECONDS = ReportingConfig().beacon_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How agents sample and report."""

    sample_seconds: float
    reporting: ReportingConfig
    bottleneck: BottleneckConfig

    @classmethod
    def sampling_every(cls, seconds: float, *, every_window: bool = False) -> "AgentSettings":
        """The defaults, adapted to this interval; with `every_window`, unchanged windows are reported too."""
        reporting, bottleneck = ReportingConfig(), BottleneckConfig()
        return cls(
            sample_seconds=seconds,
            reporting=msgspec.structs.replace(
                reporting,
                threshold_points=0.0 if every_window else reporting.threshold_points,
            ),
            bottleneck=msgspec.structs.replace(
                bottleneck, samples=max(1, ceil(bottleneck.samples * DEFAULT_INTERVAL_SECONDS / seconds))
            ),
        )


_MEMORY = 1


@dataclass(slots=True)
class PlainHost:
    """The contents of the plain heartbeats of a host, which are the same until a container changes."""

    ids: list[str]
    infos: list[ContainerInfo]
    limits: list[Quantities]
    order: list[int]
    """The order of the containers in a heartbeat."""
    interval_seconds: float = 0.0
    """Interval of the last sample."""
    reports: int = 0
    """Number of reports that were made without its reporter."""


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """One sample of all hosts."""

    rows: list[int]
    """The containers, host after host."""
    starts: list[int]
    """The index of the first container of each host."""
    used: Floats
    by_node: Floats
    disk_busy: list[float]
    cpu_seconds_total: Floats


def quantities_of(row: Floats) -> Quantities:
    """The quantities of a row; NaN means unknown."""
    cpu, memory, disk, network = (None if value != value else value for value in row.tolist())  # noqa: PLR0124 - NaN
    return Quantities(cpu, None if memory is None else int(memory), disk, network)


def quantities_of_rows(amounts: Floats, known: Sequence[bool]) -> list[Quantities]:
    """The quantities of each row; resources that are not known are left out."""
    columns: list[list[float | None]] = [
        amounts[:, place].tolist() if is_known else [None] * len(amounts)
        for place, is_known in enumerate(known)
    ]
    if known[_MEMORY]:
        columns[_MEMORY] = amounts[:, _MEMORY].astype(np.int64).tolist()
    return [Quantities(*row) for row in zip(*columns, strict=True)]


RUNTIME = "docker"
NO_PRESSURE = Pressure()
_KINDS = ("service", "job", "daemon")
_RESTART_MARK = "~"
"""Separates the name of a container from its number of restarts, in its id; no trace has it in an id."""


class SimulatedContainers:
    """Ids, labels, limits and CPU time of containers, which are rows of the workload."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._ids = list(workload.ids)
        self._starts = [0] * workload.size
        self._info: dict[int, ContainerInfo] = {}
        self._limits = [quantities_of(row) for row in workload.requested]
        self._counted_at = np.zeros(workload.size)
        self.cpu_seconds_total = np.zeros(workload.size)
        self.changed: set[int] = set()
        """Containers that started, or whose limits changed, since the last sample."""

    def id_of(self, container: int) -> str:
        return self._ids[container]

    def name_of(self, container: int) -> str:
        """The name of a container, which stays the same over restarts."""
        return self._workload.ids[container]

    def start(self, container: int, now: float) -> str:
        """Start a container; returns its id, which is new each time, as with real engines."""
        workload = self._workload
        name, restarts = workload.ids[container], self._starts[container]
        self._starts[container] += 1
        self._ids[container] = f"{name}{_RESTART_MARK}{restarts}" if restarts else name
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
        self.cpu_seconds_total[container] = 0.0
        self._counted_at[container] = now
        self.changed.add(container)
        return self._ids[container]

    def set_limit(self, container: int, allocated: Floats) -> None:
        self._limits[container] = quantities_of(allocated)
        self.changed.add(container)

    def add_cpu_time(self, running: Rows, cores: Floats, now: float) -> None:
        """Count the CPU time of containers that used these cores since they were last counted."""
        self.cpu_seconds_total[running] += cores * (now - self._counted_at[running])
        self._counted_at[running] = now

    def sample(self, container: int, cpu_seconds_total: float, used: Quantities) -> ContainerSample:
        limit = self._limits[container]
        rates = ContainerRates(self._ids[container], RUNTIME, cpu_seconds_total, used, limit, NO_PRESSURE)
        return ContainerSample(rates, self._info[container])
