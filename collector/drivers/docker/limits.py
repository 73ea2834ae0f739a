"""What an engine is told so that a running container gets less, or as much as before. Pure.

An engine takes 0 for *as it is*, and has two ways to say how much CPU, of which a container keeps to the one
it came with. A container without a limit of CPU gets one as quota and period, because only that way can it
be taken off again. A limit of memory cannot be taken off at all: it is lifted to all that the host has.
"""

from collector.drivers.docker.client import Json
from wire.resources import Quantities

KEPT = ("NanoCpus", "CpuQuota", "CpuPeriod", "Memory", "MemorySwap")
"""What says how much a container may use; enough to put it back."""
_NANOCPUS = 1e9
_PERIOD_MICROSECONDS = 100_000
_SHORTEST_QUOTA_MICROSECONDS = 1000
_UNLIMITED = -1


def kept(host_config: Json) -> Json:
    """The limits as they are now."""
    return {key: host_config.get(key) or 0 for key in KEPT}


def held_to(now: Json, allocated: Quantities) -> Json:
    """What to tell the engine so that a container is held to this; empty if it is already."""
    changes: Json = {}
    if allocated.cpu_cores is not None:
        changes |= _cpu(now, allocated.cpu_cores)
    if allocated.memory_bytes is not None:
        changes |= _memory(now, allocated.memory_bytes)
    return changes


def put_back(now: Json, before: Json, host_memory_bytes: int) -> Json:
    """What to tell the engine so that the limits are again those that were kept."""
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
    """Leaves as much swap as there was beside the memory."""
    if not now["Memory"] or now["MemorySwap"] == _UNLIMITED:
        swap = _UNLIMITED
    elif not now["MemorySwap"]:
        swap = 2 * memory_bytes  # what the engine itself takes where nothing is told
    else:
        swap = memory_bytes + max(0, now["MemorySwap"] - now["Memory"])
    return {} if now["Memory"] == memory_bytes else {"Memory": memory_bytes, "MemorySwap": swap}


def _differing(now: Json, **wanted: int) -> Json:
    return wanted if any(now[key] != value for key, value in wanted.items()) else {}
