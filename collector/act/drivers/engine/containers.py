"""Containers of a Docker engine, and changes of their limits.

For an engine, 0 means no change. It has two settings for CPU, and a container keeps the one that it was
created with. A container without a CPU limit gets a quota and period, since only these can be removed again.
A memory limit cannot be removed: it is raised to the memory of the host.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.act.drivers.engine.client import Engine, Json
from collector.act.drivers.interface import MAX_STOP_SECONDS, ActionResult, DriverError, RefusedError
from collector.common.labels import DAEMON, KIND_LABEL
from collector.decide.policies.actions import Cut, describe_amounts, megabytes
from wire.resources import Quantities

SWARM_SERVICE = "com.docker.swarm.service.id"
"""The label of a container that a Swarm manages."""
_STOP_SECONDS = 10.0
"""Default of the engine."""
LIMIT_KEYS = ("NanoCpus", "CpuQuota", "CpuPeriod", "Memory", "MemorySwap")
"""The fields that limit a container."""
_NANOCPUS = 1e9
_PERIOD_MICROSECONDS = 100_000
_SHORTEST_QUOTA_MICROSECONDS = 1000
_UNLIMITED = -1


class ListedContainer(msgspec.Struct, rename="pascal", frozen=True):
    """A container in the response to `GET /containers/json`."""

    id: str
    names: list[str] | None = None
    labels: dict[str, str] | None = None
    created: float = 0.0

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
    finished_at: str = ""
    """When it ended last, as an ISO 8601 time; the year 1 if it never ended."""
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
    size_rw: _Integer = None
    """Bytes that it wrote to its own files, if the request asks for `size`."""
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


class _Info(msgspec.Struct, frozen=True):
    memory_bytes: int = msgspec.field(name="MemTotal", default=0)


def current_limits(host_config: Json) -> Json:
    """Return the current limits."""
    return {key: host_config.get(key) or 0 for key in LIMIT_KEYS}


def limit_of(host_config: Json) -> Quantities:
    """Return the limits of a container."""
    memory = host_config.get("Memory") or None
    if nano := host_config.get("NanoCpus"):
        return Quantities(nano / _NANOCPUS, memory)
    quota = host_config.get("CpuQuota") or 0
    period = host_config.get("CpuPeriod") or _PERIOD_MICROSECONDS
    return Quantities(quota / period if quota > 0 else None, memory)


def limit_changes(now: Json, allocated: Quantities) -> Json:
    """Return the update that sets these limits; empty if they are set."""
    cpu = {} if allocated.cpu_cores is None else _cpu(now, allocated.cpu_cores)
    memory = {} if allocated.memory_bytes is None else _memory(now, allocated.memory_bytes)
    return cpu | memory


def restore_changes(now: Json, before: Json, host_memory_bytes: int) -> Json:
    """Return the update that restores earlier limits."""
    changes: Json = {}
    if (cores := limit_of(before).cpu_cores) is not None:
        changes |= _cpu(now, cores)
    elif now["CpuQuota"] > 0:
        changes["CpuQuota"] = _UNLIMITED
    if before["Memory"]:
        changes |= _differing(now, Memory=before["Memory"], MemorySwap=before["MemorySwap"])
    elif now["Memory"]:
        changes |= {"Memory": host_memory_bytes, "MemorySwap": _UNLIMITED}
    return changes


def _cpu(now: Json, cores: float) -> Json:
    if now["NanoCpus"]:
        return _differing(now, NanoCpus=round(cores * _NANOCPUS))
    period = now["CpuPeriod"] or _PERIOD_MICROSECONDS
    quota = max(_SHORTEST_QUOTA_MICROSECONDS, round(cores * period))
    return {} if now["CpuQuota"] == quota else {"CpuPeriod": period, "CpuQuota": quota}


def _memory(now: Json, memory_bytes: int) -> Json:
    """Return the update of the memory limit, which keeps the amount of swap."""
    if not now["Memory"] or now["MemorySwap"] == _UNLIMITED:
        swap = _UNLIMITED
    elif not now["MemorySwap"]:
        swap = 2 * memory_bytes  # the engine's default
    else:
        swap = memory_bytes + max(0, now["MemorySwap"] - now["Memory"])
    return {} if now["Memory"] == memory_bytes else {"Memory": memory_bytes, "MemorySwap": swap}


def _differing(now: Json, **wanted: int) -> Json:
    return wanted if any(now[key] != value for key, value in wanted.items()) else {}


async def cut(engine: Engine, action: Cut) -> ActionResult:
    """Limit a container, but never to less memory than it uses."""
    path = f"/containers/{action.task}"
    now = current_limits((await engine.get(f"{path}/json", DockerContainer)).host_config)
    changes = limit_changes(now, action.allocated)
    if not changes:
        return ActionResult(what=f"{action.title} already has these limits", nothing_to_do=True)
    memory_bytes = changes.get("Memory")
    if memory_bytes is not None and (not now["Memory"] or memory_bytes < now["Memory"]):
        stats = await engine.get(f"{path}/stats", ContainerStats, stream="false", **{"one-shot": "true"})
        if stats.working_set_bytes >= memory_bytes:
            used, left = megabytes(stats.working_set_bytes), megabytes(memory_bytes)
            raise DriverError(
                f"{action.title} on {action.node} uses {used} of memory: a limit of {left} would kill it"
            )
    await engine.post(f"{path}/update", changes)
    return ActionResult(what=_limited(action), before=msgspec.json.encode(now))


def _limited(action: Cut) -> str:
    return f"limited {action.title} on {action.node} to {describe_amounts(action.allocated)}"


async def recover_cut(engine: Engine, action: Cut, before: bytes) -> ActionResult | None:
    """Return the result of an interrupted cut; None if it was not carried out: it is a single request."""
    found = await find(engine, action.task)
    if found is None or limit_changes(current_limits(found.host_config), action.allocated):
        return None
    return ActionResult(what=_limited(action), before=before)


async def find(engine: Engine, container: str) -> DockerContainer | None:
    """Return a container, running or not; None if the engine has none of this id."""
    try:
        return await engine.get(f"/containers/{container}/json", DockerContainer)
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None


async def packed_limits(engine: Engine, container: str) -> bytes:
    """Return the current limits of a container, which undoing a cut needs; empty if it is gone."""
    found = await find(engine, container)
    return b"" if found is None else msgspec.json.encode(current_limits(found.host_config))


async def uncut(engine: Engine, action: Cut, done: ActionResult) -> None:
    """Restore the limits of a container from before a cut."""
    path = f"/containers/{action.task}"
    now = current_limits((await engine.get(f"{path}/json", DockerContainer)).host_config)
    info = await engine.get("/info", _Info)
    if changes := restore_changes(now, limits_before(done), info.memory_bytes):
        await engine.post(f"{path}/update", changes)


def limits_before(done: ActionResult) -> Json:
    """Return the limits of a container from before a cut."""
    return msgspec.json.decode(done.before, type=dict[str, int])
