"""Builders of samples and runtime events."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sampling.rates import ContainerRates, HostRates
from agent.sources.docker import ContainerInfo, RuntimeEvent
from wire.messages import ContainerPower, NodePower, PowerSource, Pressure
from wire.resources import Quantities

UNIX_SECONDS = 1_700_000_000.0
MONOTONIC_SECONDS = 1000.0
CAPACITY = Quantities(
    cpu_cores=4.0, memory_bytes=8000, disk_bytes_per_second=1e6, network_bytes_per_second=1e6
)
IDLE = Quantities(cpu_cores=0.0, memory_bytes=0, disk_bytes_per_second=0.0, network_bytes_per_second=0.0)
LIMIT = Quantities(cpu_cores=1.0, memory_bytes=1000)


@dataclass
class Container:
    """A container of a test, with defaults for everything that the test is not about."""

    used: Quantities = IDLE
    limit: Quantities = LIMIT
    info: ContainerInfo | None = None
    cpu_seconds_total: float = 5.0
    oom_kills_total: int | None = None
    watts: float | None = None
    pressure: Pressure = field(default_factory=Pressure)


def cpu(cores: float | None, memory_bytes: int | None = 0) -> Quantities:
    return Quantities(
        cpu_cores=cores,
        memory_bytes=memory_bytes,
        disk_bytes_per_second=None if cores is None else 0.0,
        network_bytes_per_second=None if cores is None else 0.0,
    )


class Clock:
    """Both clocks of a node, which change only by `advance` and `set`."""

    def __init__(self) -> None:
        self.monotonic_seconds = MONOTONIC_SECONDS
        self.unix_seconds = UNIX_SECONDS
        self.interval_seconds = 3.0

    def advance(self, seconds: float = 3.0) -> None:
        self.interval_seconds = seconds
        self.monotonic_seconds += seconds
        self.unix_seconds += seconds

    def set(self, by_seconds: float) -> None:
        self.unix_seconds += by_seconds


def node_sample(
    clock: Clock,
    containers: Mapping[str, Container] | None = None,
    used: Quantities = IDLE,
    capacity: Quantities = CAPACITY,
    watts: float | None = None,
) -> NodeSample:
    built = tuple(_container(name, container) for name, container in (containers or {}).items())
    return NodeSample(
        monotonic_seconds=clock.monotonic_seconds,
        rates=HostRates(
            unix_seconds=clock.unix_seconds,
            interval_seconds=clock.interval_seconds,
            used=used,
            capacity=capacity,
            pressure=Pressure(),
            containers=tuple(each.rates for each in built),
        ),
        power=None if watts is None else NodePower(watts, watts, 0.0, PowerSource.PRIOR, 0.5, 1.0),
        containers=built,
    )


def _container(container_id: str, container: Container) -> ContainerSample:
    return ContainerSample(
        ContainerRates(
            id=container_id,
            runtime="docker",
            cpu_seconds_total=container.cpu_seconds_total,
            used=container.used,
            limit=container.limit,
            pressure=container.pressure,
            oom_kills_total=container.oom_kills_total,
        ),
        container.info or ContainerInfo(container_id[:12]),
        None if container.watts is None else ContainerPower(container.watts, PowerSource.PRIOR, 0.6, 1.0),
    )


def start(
    container_id: str, clock: Clock, ago_seconds: float = 1.0, startup: float | None = 0.5
) -> RuntimeEvent:
    at = clock.unix_seconds - ago_seconds
    return RuntimeEvent("start", container_id, f"the-{container_id}", at, startup_seconds=startup)


def die(container_id: str, clock: Clock, ago_seconds: float = 0.5, code: int | None = 0) -> RuntimeEvent:
    at = clock.unix_seconds - ago_seconds
    return RuntimeEvent("die", container_id, f"the-{container_id}", at, exit_code=code)


def oom(container_id: str, clock: Clock, ago_seconds: float = 0.7) -> RuntimeEvent:
    return RuntimeEvent("oom", container_id, f"the-{container_id}", clock.unix_seconds - ago_seconds)
