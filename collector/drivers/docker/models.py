"""Responses of an engine about containers. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.common.labels import ALLOWED, DAEMON, KIND_LABEL, MOVE_LABEL, NEVER, NO_MOVE_LABEL
from collector.drivers.docker.allow_list import refusals
from collector.drivers.docker.client import Json
from collector.drivers.interface import MOST_STOP_SECONDS, Mode, ServiceView, TaskView
from wire.resources import Quantities

SWARM_SERVICE = "com.docker.swarm.service.id"
"""The label of a container that a Swarm manages."""
_NANOCPUS = 1e9
_STOP_SECONDS = 10.0
"""Default of the engine."""
_PERIOD_MICROSECONDS = 100_000


class Listed(msgspec.Struct, rename="pascal", frozen=True):
    """One of `GET /containers/json`."""

    id: str
    names: list[str] | None = None
    labels: dict[str, str] | None = None

    @property
    def name(self) -> str:
        return (self.names or [self.id])[0].removeprefix("/")

    @property
    def is_swarm_task(self) -> bool:
        return SWARM_SERVICE in (self.labels or {})

    @property
    def is_daemon(self) -> bool:
        """Whether it runs for its node, and ends with it."""
        return (self.labels or {}).get(KIND_LABEL) == DAEMON


class HealthCheck(msgspec.Struct, rename="pascal", frozen=True):
    """The result of a container's health check."""

    status: str = "none"


class ContainerStatus(msgspec.Struct, rename="pascal", frozen=True):
    """The state of a container."""

    status: str = ""
    health: HealthCheck | None = None
    exit_code: int = 0
    error: str = ""

    @property
    def is_healthy(self) -> bool | None:
        """Whether it runs and is healthy; None while its health check has no result."""
        if self.status != "running" or (self.health and self.health.status == "unhealthy"):
            return False
        return None if self.health and self.health.status == "starting" else True


_Count = Annotated[int, Meta(ge=-1, le=2**63 - 1)] | None


class _ReadConfig(msgspec.Struct, rename="pascal"):
    labels: dict[str, str] | None = None
    stop_timeout: _Count = None


class _ReadHostConfig(msgspec.Struct, rename="pascal"):
    nano_cpus: _Count = None
    cpu_quota: _Count = None
    cpu_period: _Count = None
    memory: _Count = None


class DockerContainer(msgspec.Struct, rename="pascal", frozen=True):
    """The answer to `GET /containers/{id}/json`."""

    id: str
    name: str = ""
    image: str = ""
    """The image's id."""
    restart_count: int = 0
    state: ContainerStatus = ContainerStatus()
    config: Json = {}
    host_config: Json = {}
    mounts: list[Json] = []
    network_settings: Json = {}

    def __post_init__(self) -> None:
        # An engine may be compromised. What is read here has to be valid, and the rest only travels.
        msgspec.convert(self.config, _ReadConfig)
        msgspec.convert(self.host_config, _ReadHostConfig)

    @property
    def plain_name(self) -> str:
        return self.name.removeprefix("/")

    @property
    def labels(self) -> Mapping[str, str]:
        return self.config.get("Labels") or {}

    @property
    def is_swarm_task(self) -> bool:
        return SWARM_SERVICE in self.labels

    @property
    def stop_seconds(self) -> float:
        """How long it may take to stop."""
        timeout = self.config.get("StopTimeout")
        if timeout is None:
            return _STOP_SECONDS
        return MOST_STOP_SECONDS if timeout < 0 else min(float(timeout), MOST_STOP_SECONDS)


class _MemoryStats(msgspec.Struct, frozen=True):
    usage: int = 0
    stats: dict[str, int] = {}


class Stats(msgspec.Struct, frozen=True):
    """The answer to `GET /containers/{id}/stats`."""

    memory_stats: _MemoryStats = _MemoryStats()

    @property
    def working_set_bytes(self) -> int:
        """Memory use without inactive page cache, which has different names in cgroup v1 and v2."""
        memory = self.memory_stats
        inactive = memory.stats.get("total_inactive_file", memory.stats.get("inactive_file", 0))
        return max(0, memory.usage - inactive)


def service_names(containers: Sequence[tuple[str, DockerContainer]]) -> list[str]:
    """Return a name for each container of some hosts that no other host's container has.

    That is its own, or `NAME@HOST` if several hosts have it: labels of one must not apply to the other.
    """
    hosts: dict[str, set[str]] = {}
    for host, container in containers:
        hosts.setdefault(container.plain_name, set()).add(host)
    return [
        f"{name}@{host}" if len(hosts[name]) > 1 or "@" in name else name
        for host, name in ((host, container.plain_name) for host, container in containers)
    ]


def service_view(
    container: DockerContainer, grants: Collection[str] = (), name: str | None = None
) -> ServiceView:
    """Return a single container as a service; `grants` are those of any host that it could move to."""
    return ServiceView(
        name=container.plain_name if name is None else name,
        mode=Mode.ALONE,
        limit=limit_of(container.host_config),
        image=str(container.config.get("Image", "")),
        labels=container.labels,
        stays=next(_reasons(container, grants), None),
    )


def task_view(container: DockerContainer, node: str, service: str) -> TaskView:
    """Return a container as the task of its service."""
    return TaskView(container=container.id, service=service, node=node, state=container.state.status)


def limit_of(host_config: Json) -> Quantities:
    """Return the limits of a container."""
    memory = host_config.get("Memory") or None
    if nano := host_config.get("NanoCpus"):
        return Quantities(nano / _NANOCPUS, memory)
    quota = host_config.get("CpuQuota") or 0
    period = host_config.get("CpuPeriod") or _PERIOD_MICROSECONDS
    return Quantities(quota / period if quota > 0 else None, memory)


def _reasons(container: DockerContainer, grants: Collection[str]) -> Iterator[str]:
    """Return why a container must not move, the strongest reason first."""
    label = container.labels.get(MOVE_LABEL)
    network = str(container.host_config.get("NetworkMode", ""))
    if label == NEVER:
        yield f"its label {MOVE_LABEL} is {NEVER}"
    if container.is_swarm_task:
        yield "a Swarm manages it"
    for mount in container.mounts:
        if mount.get("Type") != "tmpfs":
            yield f"it has data on this host, in {mount.get('Name') or mount.get('Source')}"
    if network.startswith("container:"):
        yield "it shares the network of another container"
    yield from refusals(container.host_config, grants)
    if container.host_config.get("AutoRemove"):
        yield "it is removed when it stops, so that the move could not be undone"
    if label != ALLOWED:
        yield f"it has one replica {NO_MOVE_LABEL}"
