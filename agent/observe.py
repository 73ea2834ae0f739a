"""From the files to a report: one pass over host and containers, with everything it needs to remember."""

import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from agent.config import AgentConfig
from agent.docker import ContainerInfo, DockerNames
from agent.power import PowerMeter
from agent.read import Reader
from agent.readings import Reading
from agent.report import Reporter
from agent.sample import sample
from powermodels.estimator import Estimator
from wire.messages import Gap, Report


@dataclass(frozen=True, slots=True)
class Survey:
    """What the agent found on this host when it started, and what it did not."""

    node: str
    found: tuple[str, ...]
    missing: tuple[Gap, ...]


class Observer:
    """Knows the host by its files, its meters and its engine."""

    def __init__(self, config: AgentConfig) -> None:
        proc, sys = Path(config.roots.proc), Path(config.roots.sys)
        self.names = DockerNames(Path(config.docker.socket)) if config.docker.enabled else None
        self._node = config.node or socket.gethostname()
        self._reader = Reader(proc, sys, time.monotonic, time.time)
        self._estimator = Estimator.for_host(proc, sys)
        self._power = PowerMeter(self._estimator)
        self._reporter = Reporter(self._node, secrets.token_hex(8), self._info)
        self._last: Reading | None = None

    def look(self) -> Report | None:
        """Read everything once; from the second time on there is something to report."""
        reading = self._reader.read()
        last, self._last = self._last, reading
        if last is None:
            self._estimator.begin(reading.monotonic_seconds)
            return None
        taken = sample(last, reading)
        power = self._power.measure(taken, reading.monotonic_seconds)
        return self._reporter.report(taken, power, self._gaps(reading))

    def survey(self) -> Survey:
        """What is there and what is not, in plain words."""
        reading = self._last or self._reader.read()
        named = self.names is not None and self.names.gap is None
        found = (
            *self._reader.describe(),
            *(["container names from the Docker engine"] if named else []),
            *self._estimator.describe(),
        )
        return Survey(self._node, found, self._gaps(reading))

    def _gaps(self, reading: Reading) -> tuple[Gap, ...]:
        unnamed = (self.names.gap,) if self.names is not None and self.names.gap is not None else ()
        return (*reading.gaps, *unnamed, *self._estimator.gaps)

    def _info(self, container_id: str) -> ContainerInfo | None:
        return self.names.get(container_id) if self.names is not None else None
