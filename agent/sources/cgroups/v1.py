"""Parses cgroup version 1: one directory per controller.

Version 1 charges block I/O to a container only if it is direct or synchronous; later writes of the page cache
are charged to the root, so `disk` is a lower bound here. An out-of-memory kill is counted only in the cgroup
of the process, not in its parents.
"""

import os

from agent.sources.files import parse_field
from agent.sources.readings import CpuTotals, DiskTotals, MemoryLevels
from wire.text import parse_count

_NANOSECONDS = 1_000_000_000
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_NO_LIMIT_BYTES = 1 << 62
"""Without a limit, the value is the largest multiple of the page size in 63 bits."""
_SERVICE_FIELDS = 3


def parse_cpu(usage: bytes | None, stat: bytes | None, throttling: bytes | None) -> CpuTotals | None:
    """CPU time from `cpuacct.usage`, `cpuacct.stat` and `cpu.stat`; None without the first."""
    nanoseconds = parse_count(usage)
    if nanoseconds is None:
        return None
    throttled = parse_field(throttling, b"throttled_time")
    return CpuTotals(
        seconds=nanoseconds / _NANOSECONDS,
        user_seconds=_from_ticks(parse_field(stat, b"user")),
        system_seconds=_from_ticks(parse_field(stat, b"system")),
        throttled_seconds=None if throttled is None else throttled / _NANOSECONDS,
    )


def _from_ticks(ticks: int | None) -> float | None:
    return None if ticks is None else ticks / _TICKS_PER_SECOND


def parse_memory(usage: bytes | None, stat: bytes | None, oom_control: bytes | None) -> MemoryLevels:
    """Levels from `memory.usage_in_bytes`, `memory.stat` and `memory.oom_control`."""
    return MemoryLevels(
        usage_bytes=parse_count(usage),
        inactive_file_bytes=parse_field(stat, b"total_inactive_file"),
        anon_bytes=parse_field(stat, b"total_rss"),
        file_bytes=parse_field(stat, b"total_cache"),
        swap_bytes=parse_field(stat, b"total_swap"),
        oom_kills=parse_field(oom_control, b"oom_kill"),
    )


def parse_disk(
    transferred: bytes | None, operations: bytes | None, skipped_devices: frozenset[bytes]
) -> DiskTotals:
    """Bytes and operations from `blkio.throttle.io_service_bytes` and `blkio.throttle.io_serviced`."""
    total_bytes, written_bytes = parse_service(transferred, skipped_devices)
    return DiskTotals(total_bytes, parse_service(operations, skipped_devices)[0], written_bytes=written_bytes)


def parse_service(
    text: bytes | None, skipped_devices: frozenset[bytes]
) -> tuple[int, int] | tuple[None, None]:
    """Reads plus writes, and writes only, from lines such as `8:0 Read 4096`, without skipped devices."""
    if text is None:
        return None, None
    if text in {b"Total 0\n", b""}:
        return 0, 0  # no I/O yet, as in most containers
    total, written, valid = 0, 0, not text.strip()
    for line in text.splitlines():
        fields = line.split()
        if fields[:1] == [b"Total"]:
            valid = True
        elif len(fields) == _SERVICE_FIELDS and fields[1] in {b"Read", b"Write"}:
            count = parse_count(fields[2])
            if count is not None:
                valid = True
                count = 0 if fields[0] in skipped_devices else count
                total += count
                written += count if fields[1] == b"Write" else 0
    return (total, written) if valid else (None, None)


# --- Limits -------------------------------------------------------------------------------------


def parse_memory_limit_bytes(stat: bytes | None) -> int | None:
    """The lowest limit of the cgroup and its ancestors, from `memory.stat`; None without a limit."""
    limit = parse_field(stat, b"hierarchical_memory_limit")
    return None if limit is None or limit >= _NO_LIMIT_BYTES else limit


def parse_quota_cores(quota: bytes | None, period: bytes | None) -> float | None:
    """`cpu.cfs_quota_us` over `cpu.cfs_period_us`; a quota of -1 is no limit."""
    quota_us, period_us = parse_count(quota), parse_count(period)
    return quota_us / period_us if quota_us and period_us else None
