"""Takes samples: reads the host and its containers, and computes rates, capacities and power."""

import time
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from agent.config import AgentConfig
from agent.sampling.node_sample import SHORT_ID, ContainerSample, NodeSample
from agent.sampling.power import PowerSampler
from agent.sampling.rates import HostRates, compute_rates
from agent.sources.docker import ContainerInfo, DockerWatcher
from agent.sources.reader import Reader
from agent.sources.readings import Reading
from wire.messages import Gap
from wire.resources import Resource

DISK_FLOOR_BYTES_PER_SECOND = 100e6
"""Sequential throughput of a single hard disk."""
NETWORK_FLOOR_BYTES_PER_SECOND = 125e6
"""A gigabit per second."""
_FLOORS = {Resource.DISK: DISK_FLOOR_BYTES_PER_SECOND, Resource.NETWORK: NETWORK_FLOOR_BYTES_PER_SECOND}


@dataclass(frozen=True, slots=True)
class Survey:
    """What the agent can and cannot measure on this host."""

    found: tuple[str, ...]
    missing: tuple[Gap, ...]


class Sampler:
    """Samples the host from kernel files, power meters and the container engine.

    Only the sampler of the agent is `persistent`; others on the same host do not change its energy counters.
    """

    def __init__(self, config: AgentConfig, *, persistent: bool = False) -> None:
        proc, sys = config.host.proc, config.host.sys
        self.names = DockerWatcher(Path(config.docker.socket)) if config.docker.socket else None
        self._reader = Reader(proc, sys, time.monotonic, time.time, subtree=config.host.cgroup)
        self._capacities = Capacities(config.host.disk_bytes_per_second, config.host.network_bytes_per_second)
        self._power = PowerSampler(
            config.power,
            proc,
            sys,
            model_file=config.storage.model,
            energy_file=config.storage.energy if persistent else None,
            is_slice=bool(config.host.cgroup),
        )
        self._last: Reading | None = None

    def take_sample(self) -> NodeSample | None:
        """Read everything once; returns None on the first call, which has no interval yet."""
        reading = self._reader.read()
        last, self._last = self._last, reading
        if last is None:
            self._power.begin(reading.monotonic_seconds)
            return None
        rates = self._capacities.complete(compute_rates(last, reading))
        infos = {each.id: self._info(each.id) for each in rates.containers}
        services = {
            name: info.service or info.name for name, info in infos.items() if info.service or info.name
        }
        power = self._power.measure(rates, reading.monotonic_seconds, services)
        return NodeSample(
            monotonic_seconds=reading.monotonic_seconds,
            rates=rates,
            power=power.node,
            containers=tuple(
                ContainerSample(each, infos[each.id], power.containers.get(each.id))
                for each in rates.containers
            ),
            gaps=self._gaps(reading),
            meters=power.meters,
            power_curve=power.curve,
        )

    def close(self) -> None:
        """Save what the next run continues with."""
        self._power.close()

    def survey(self) -> Survey:
        """What can be measured on this host and what cannot, as text."""
        reading = self._last or self._reader.read()
        has_names = self.names is not None and self.names.gap is None
        found = (
            *self._reader.describe(),
            *(["container names from the Docker engine"] if has_names else []),
            *self._power.describe(),
        )
        return Survey(found, self._gaps(reading))

    def _gaps(self, reading: Reading) -> tuple[Gap, ...]:
        name_gaps = (self.names.gap,) if self.names is not None and self.names.gap is not None else ()
        return (*reading.gaps, *name_gaps, *self._power.gaps)

    def _info(self, container_id: str) -> ContainerInfo:
        info = self.names.get(container_id) if self.names is not None else None
        return info or ContainerInfo(container_id[:SHORT_ID])


class Capacities:
    """Adds the capacities that the kernel does not report, from settings or learned. A setting of 0 is unset.

    Disks do not report their throughput, and links of virtual machines do not report their speed. Such a
    capacity is learned: it starts at the throughput of an old disk or a common link and rises to the highest
    usage observed. It never shrinks, and it is marked as learned. So the first byte after the start is not a
    full disk, and a ratio is too low only if the hardware is slower than that start value. The disk's busy
    ratio does not depend on it.
    """

    def __init__(self, disk_bytes_per_second: float = 0.0, network_bytes_per_second: float = 0.0) -> None:
        self._configured = {Resource.DISK: disk_bytes_per_second, Resource.NETWORK: network_bytes_per_second}
        self._highest: dict[Resource, float] = {}

    def complete(self, rates: HostRates) -> HostRates:
        """The same rates with a capacity for each resource whose usage was observed."""
        fixed: dict[Resource, float | None] = {}
        for resource, floor in _FLOORS.items():
            used = rates.used.of(resource)
            if used is not None:
                self._highest[resource] = max(self._highest.get(resource, floor), used)
            fixed[resource] = self._configured[resource] or rates.capacity.of(resource) or None
        disk, network = (value or self._highest.get(resource) for resource, value in fixed.items())
        return replace(
            rates,
            capacity=replace(rates.capacity, disk_bytes_per_second=disk, network_bytes_per_second=network),
            learned_capacities=tuple(
                each for each in _FLOORS if fixed[each] is None and each in self._highest
            ),
        )
