"""A simulated node, for benchmarks that need days of samples in minutes."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import cycle

from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sampling.rates import ContainerRates, HostRates
from agent.sources.docker import ContainerInfo
from wire.messages import ContainerPower, NodePower, PowerSource, Pressure
from wire.resources import Quantities

Used = tuple[float, float, float, float]
"""Cores, bytes, and bytes per second of disk and network, in the order of `wire.resources.RESOURCES`."""

SCATTER = 0.2
"""Standard deviation of a sample, relative to its level."""
MEMORY_SCATTER = SCATTER / 20
BEGIN_SECONDS = 1_699_920_000.0
"""Unix time at which simulated time begins: a midnight."""

_FACTORS = 10_007
"""Number of random values that are drawn once and then reused; a prime, to avoid patterns."""
_IDLE_WATTS, _WATTS_PER_CORE = 80.0, 7.0


@dataclass(slots=True)
class _Container:
    id: str
    info: ContainerInfo
    limit: Quantities
    scatter: Iterator[float]
    cpu_seconds_total: float = 0.0

    def sample(self, level: Used, seconds: float) -> ContainerSample:
        """Sample the container after it used about `level` for some seconds."""
        cpu, memory, disk, network = level
        scatter = self.scatter
        cores = cpu * max(0.0, 1 + SCATTER * next(scatter))
        self.cpu_seconds_total += cores * seconds
        return ContainerSample(
            ContainerRates(
                id=self.id,
                runtime="docker",
                cpu_seconds_total=self.cpu_seconds_total,
                used=Quantities(
                    cores,
                    int(memory * (1 + MEMORY_SCATTER * next(scatter))),
                    disk * max(0.0, 1 + SCATTER * next(scatter)),
                    network * max(0.0, 1 + SCATTER * next(scatter)),
                ),
                limit=self.limit,
                pressure=Pressure(cpu_ratio=cores / 100, memory_ratio=0.0, disk_ratio=0.0),
            ),
            self.info,
            ContainerPower(
                _WATTS_PER_CORE * cores,
                PowerSource.PRIOR,
                0.6,
                joules_total=_WATTS_PER_CORE * self.cpu_seconds_total,
            ),
        )


class SimulatedNode:
    """Containers whose samples scatter around given levels; its clock counts ticks."""

    def __init__(
        self,
        limits: Mapping[str, Quantities],
        capacity: Quantities,
        sample_seconds: float,
        *,
        id_prefix: str = "",
    ) -> None:
        rng = random.Random(",".join(limits))  # noqa: S311 - reproducible, not a secret
        factors = [rng.gauss(0.0, 1.0) for _ in range(_FACTORS)]
        self._containers = []
        for number, (name, limit) in enumerate(limits.items()):
            begin = rng.randrange(_FACTORS)
            scatter = cycle(factors[begin:] + factors[:begin])
            name_id = id_prefix + container_id(name)[len(id_prefix) :]
            self._containers.append(_Container(name_id, _info(name, number), limit, scatter))
        self._capacity = capacity
        self._sample_seconds = sample_seconds

    def sample(self, tick: int, levels: Sequence[Used]) -> NodeSample:
        """Sample the node at a tick, with one level per container."""
        elapsed_seconds = tick * self._sample_seconds
        containers = tuple(
            [
                container.sample(level, self._sample_seconds)
                for container, level in zip(self._containers, levels, strict=True)
            ]
        )
        used = [each.rates.used for each in containers]
        cores = sum([each.cpu_cores or 0.0 for each in used])
        watts = _WATTS_PER_CORE * cores
        return NodeSample(
            monotonic_seconds=elapsed_seconds,
            rates=HostRates(
                unix_seconds=BEGIN_SECONDS + elapsed_seconds,
                interval_seconds=self._sample_seconds,
                used=Quantities(
                    cpu_cores=cores,
                    memory_bytes=sum([each.memory_bytes or 0 for each in used]),
                    disk_bytes_per_second=sum([each.disk_bytes_per_second or 0.0 for each in used]),
                    network_bytes_per_second=sum([each.network_bytes_per_second or 0.0 for each in used]),
                ),
                capacity=self._capacity,
                pressure=Pressure(cpu_ratio=0.01, memory_ratio=0.0, disk_ratio=0.0),
            ),
            power=NodePower(
                _IDLE_WATTS + watts, _IDLE_WATTS, 0.0, PowerSource.PRIOR, 0.5, _IDLE_WATTS * elapsed_seconds
            ),
            containers=containers,
        )


def container_id(name: str) -> str:
    """Make an id as long and as hard to compress as those of container runtimes."""
    return sha256(name.encode()).hexdigest()


def _info(name: str, number: int) -> ContainerInfo:
    project, service = "shop", f"service-{number % 12}"
    return ContainerInfo(
        name=name,
        image=f"registry.example/{project}/{service}:1.{number % 7}",
        service=f"{project}/{service}",
        started_at=BEGIN_SECONDS - 1000.25 * number,
        labels={"com.docker.compose.project": project, "com.docker.compose.service": service},
        restarts=0,
    )
