"""The containers of a workload, as container engines and the kernel report them to agents."""

import numpy as np

from agent.sampling.node_sample import ContainerSample
from agent.sampling.rates import ContainerRates
from agent.sources.docker import ContainerInfo
from collector.common.arrays import Floats, Rows
from replay.setup.workload import Workload
from replay.simulation.agents.samples import quantities_of
from wire.messages import Pressure
from wire.resources import Quantities

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
        """The current id of a container."""
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
        """Set the limit of a container."""
        self._limits[container] = quantities_of(allocated)
        self.changed.add(container)

    def add_cpu_time(self, running: Rows, cores: Floats, now: float) -> None:
        """Count the CPU time of containers that used these cores since they were last counted."""
        self.cpu_seconds_total[running] += cores * (now - self._counted_at[running])
        self._counted_at[running] = now

    def sample(self, container: int, cpu_seconds_total: float, used: Quantities) -> ContainerSample:
        """A sample of a container."""
        limit = self._limits[container]
        rates = ContainerRates(self._ids[container], RUNTIME, cpu_seconds_total, used, limit, NO_PRESSURE)
        return ContainerSample(rates, self._info[container])
