"""The limits of a running container, and requests that change or restore them. Pure.

For an engine, 0 means no change. It has two settings for CPU, and a container keeps the one that it was
created with. A container without a CPU limit gets a quota and period, since only these can be removed again.
A memory limit cannot be removed: it is raised to the memory of the host.
"""

from collector.drivers.engine.client import Json
from wire.resources import Quantities

LIMIT_KEYS = ("NanoCpus", "CpuQuota", "CpuPeriod", "Memory", "MemorySwap")
"""The fields that limit a container."""
_NANOCPUS = 1e9
_PERIOD_MICROSECONDS = 100_000
_SHORTEST_QUOTA_MICROSECONDS = 1000
_UNLIMITED = -1


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
    changes: Json = {}
    if allocated.cpu_cores is not None:
        changes |= _cpu(now, allocated.cpu_cores)
    if allocated.memory_bytes is not None:
        changes |= _memory(now, allocated.memory_bytes)
    return changes


def restore_changes(now: Json, before: Json, host_memory_bytes: int) -> Json:
    """Return the update that restores earlier limits."""
    changes: Json = {}
    if before["NanoCpus"]:
        changes |= _cpu(now, before["NanoCpus"] / _NANOCPUS)
    elif before["CpuQuota"] > 0:
        period = before["CpuPeriod"] or _PERIOD_MICROSECONDS
        changes |= _cpu(now, before["CpuQuota"] / period)
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
