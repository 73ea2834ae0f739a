"""From the files to a picture: one pass over host and containers, with everything it needs to remember."""

import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent.config import AgentConfig
from agent.sampling.capacity import Capacities
from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sampling.power import PowerSampler
from agent.sampling.rates import compute_rates
from agent.sources.docker import ContainerInfo, DockerWatcher
from agent.sources.reader import Reader
from agent.sources.readings import Reading
from wire.messages import Gap

_SHORT_ID = 12


@dataclass(frozen=True, slots=True)
class Survey:
    """What the agent found on this host when it started, and what it did not."""

    found: tuple[str, ...]
    missing: tuple[Gap, ...]


class Sampler:
    """Knows the host by its files, its meters and its engine.

    Only the agent itself `remembers` from run to run; whoever takes a look beside it leaves no trace.
    """

    def __init__(self, config: AgentConfig, *, remembers: bool = False) -> None:
        proc, sys = Path(config.roots.proc), Path(config.roots.sys)
        self.names = DockerWatcher(Path(config.docker.socket)) if config.docker.enabled else None
        self._reader = Reader(proc, sys, time.monotonic, time.time, subtree=config.host.cgroup)
        self._capacities = Capacities(config.host.disk_bytes_per_second, config.host.network_bytes_per_second)
        power = config.power if remembers else msgspec.structs.replace(config.power, energy_file="")
        self._power = PowerSampler(power, proc, sys)
        self._last: Reading | None = None

    def take_sample(self) -> NodeSample | None:
        """Read everything once; from the second time on there is a picture."""
        reading = self._reader.read()
        last, self._last = self._last, reading
        if last is None:
            self._power.begin(reading.monotonic_seconds)
            return None
        taken = self._capacities.complete(compute_rates(last, reading))
        power = self._power.measure(taken, reading.monotonic_seconds)
        return NodeSample(
            monotonic_seconds=reading.monotonic_seconds,
            rates=taken,
            power=power.node,
            containers=tuple(
                ContainerSample(each, self._info(each.id), power.containers.get(each.id))
                for each in taken.containers
            ),
            gaps=self._gaps(reading),
            meters=power.meters,
            power_curve=power.curve,
        )

    def close(self) -> None:
        """Keep what is to outlast this run."""
        self._power.close()

    def survey(self) -> Survey:
        """What is there and what is not, in plain words."""
        reading = self._last or self._reader.read()
        named = self.names is not None and self.names.gap is None
        found = (
            *self._reader.describe(),
            *(["container names from the Docker engine"] if named else []),
            *self._power.describe(),
        )
        return Survey(found, self._gaps(reading))

    def _gaps(self, reading: Reading) -> tuple[Gap, ...]:
        unnamed = (self.names.gap,) if self.names is not None and self.names.gap is not None else ()
        return (*reading.gaps, *unnamed, *self._power.gaps)

    def _info(self, container_id: str) -> ContainerInfo:
        known = self.names.get(container_id) if self.names is not None else None
        return known or ContainerInfo(container_id[:_SHORT_ID])
