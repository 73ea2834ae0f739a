"""What an engine says of its containers. Pure."""

from collections.abc import Iterator, Mapping

import msgspec

from collector.common.labels import ALLOWED, MOVE_LABEL, NEVER, NO_MOVE_LABEL
from collector.drivers.docker.client import Json
from collector.drivers.interface import Mode, ServiceView, TaskView
from wire.resources import Quantities

SWARM_SERVICE = "com.docker.swarm.service.id"
"""The label of a container that a Swarm keeps."""
_NANOCPUS = 1e9
_STOP_SECONDS = 10.0
"""What an engine takes where nothing is told."""
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
    def is_swarms(self) -> bool:
        return SWARM_SERVICE in (self.labels or {})


class HealthCheck(msgspec.Struct, rename="pascal", frozen=True):
    """What a container's own check says."""

    status: str = "none"


class ContainerStatus(msgspec.Struct, rename="pascal", frozen=True):
    """How a container is doing."""

    status: str = ""
    health: HealthCheck | None = None
    exit_code: int = 0
    error: str = ""

    @property
    def is_well(self) -> bool | None:
        """None while that is not known yet: it has a check that has not come to an end."""
        if self.status != "running" or (self.health and self.health.status == "unhealthy"):
            return False
        return None if self.health and self.health.status == "starting" else True


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

    @property
    def called(self) -> str:
        return self.name.removeprefix("/")

    @property
    def labels(self) -> Mapping[str, str]:
        return self.config.get("Labels") or {}

    @property
    def is_swarms(self) -> bool:
        return SWARM_SERVICE in self.labels

    @property
    def stop_seconds(self) -> float:
        """How long it is given to end."""
        told = self.config.get("StopTimeout")
        return _STOP_SECONDS if told is None else float(told)


class _MemoryStats(msgspec.Struct, frozen=True):
    usage: int = 0
    stats: dict[str, int] = {}


class Stats(msgspec.Struct, frozen=True):
    """The answer to `GET /containers/{id}/stats`."""

    memory_stats: _MemoryStats = _MemoryStats()

    @property
    def working_set_bytes(self) -> int:
        """What it uses less the page cache that the kernel drops at once; v1 and v2 call that differently."""
        told = self.memory_stats
        inactive = told.stats.get("total_inactive_file", told.stats.get("inactive_file", 0))
        return max(0, told.usage - inactive)


def service_view(container: DockerContainer) -> ServiceView:
    """A lone container is a service of one."""
    return ServiceView(
        name=container.called,
        mode=Mode.ALONE,
        limit=limit_of(container.host_config),
        image=str(container.config.get("Image", "")),
        labels=container.labels,
        stays=next(_reasons(container), None),
    )


def task_view(container: DockerContainer, node: str) -> TaskView:
    """And its one task."""
    return TaskView(container=container.id, service=container.called, node=node, state=container.state.status)


def limit_of(host_config: Json) -> Quantities:
    """What a container may use at most."""
    memory = host_config.get("Memory") or None
    if nano := host_config.get("NanoCpus"):
        return Quantities(nano / _NANOCPUS, memory)
    quota = host_config.get("CpuQuota") or 0
    period = host_config.get("CpuPeriod") or _PERIOD_MICROSECONDS
    return Quantities(quota / period if quota > 0 else None, memory)


def _reasons(container: DockerContainer) -> Iterator[str]:
    """Why a container may not be moved, the weightiest first."""
    leave = container.labels.get(MOVE_LABEL)
    network = str(container.host_config.get("NetworkMode", ""))
    if leave == NEVER:
        yield f"its label {MOVE_LABEL} is {NEVER}"
    if container.is_swarms:
        yield "a Swarm keeps it"
    for mount in container.mounts:
        if mount.get("Type") != "tmpfs":
            yield f"its data is on this host, in {mount.get('Name') or mount.get('Source')}"
    if network.startswith("container:"):
        yield "it shares the network of another container"
    if container.host_config.get("AutoRemove"):
        yield "it is to be removed when it ends, so that nothing would be left to go back to"
    if leave != ALLOWED:
        yield f"there is one of it {NO_MOVE_LABEL}"
