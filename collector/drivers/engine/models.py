"""Responses of an engine about containers. Pure."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.common.labels import DAEMON, KIND_LABEL
from collector.drivers.engine.client import Json
from collector.drivers.interface import MAX_STOP_SECONDS

SWARM_SERVICE = "com.docker.swarm.service.id"
"""The label of a container that a Swarm manages."""
_STOP_SECONDS = 10.0
"""Default of the engine."""


class ListedContainer(msgspec.Struct, rename="pascal", frozen=True):
    """A container in the response to `GET /containers/json`."""

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
        """Whether it is a daemon, which runs as long as its node."""
        return (self.labels or {}).get(KIND_LABEL) == DAEMON


class HealthCheck(msgspec.Struct, rename="pascal", frozen=True):
    """The result of a container's health check."""

    status: str = "none"


class ContainerStatus(msgspec.Struct, rename="pascal", frozen=True):
    """The state of a container."""

    status: str = ""
    health: HealthCheck | None = None

    @property
    def is_healthy(self) -> bool | None:
        """Whether it runs and is healthy; None while its health check has no result."""
        if self.status != "running" or (self.health and self.health.status == "unhealthy"):
            return False
        return None if self.health and self.health.status == "starting" else True


_Integer = Annotated[int, Meta(ge=-1, le=2**63 - 1)] | None


class _ReadConfig(msgspec.Struct, rename="pascal"):
    labels: dict[str, str] | None = None
    stop_timeout: _Integer = None


class _ReadHostConfig(msgspec.Struct, rename="pascal"):
    nano_cpus: _Integer = None
    cpu_quota: _Integer = None
    cpu_period: _Integer = None
    memory: _Integer = None


class DockerContainer(msgspec.Struct, rename="pascal", frozen=True):
    """The response to `GET /containers/{id}/json`."""

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
        # An engine may be compromised. The fields that are read have to be valid; the others are only copied.
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
        return MAX_STOP_SECONDS if timeout < 0 else min(float(timeout), MAX_STOP_SECONDS)


class _MemoryStats(msgspec.Struct, frozen=True):
    usage: int = 0
    stats: dict[str, int] = {}


class ContainerStats(msgspec.Struct, frozen=True):
    """The response to `GET /containers/{id}/stats`."""

    memory_stats: _MemoryStats = _MemoryStats()

    @property
    def working_set_bytes(self) -> int:
        """Memory use without inactive page cache, which has different names in cgroup v1 and v2."""
        memory = self.memory_stats
        inactive = memory.stats.get("total_inactive_file", memory.stats.get("inactive_file", 0))
        return max(0, memory.usage - inactive)
