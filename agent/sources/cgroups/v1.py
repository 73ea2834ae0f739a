"""A cgroup of version 1: one directory per controller.

Version 1 knows less than it seems. Block I/O is charged to a container only where it is direct or
synchronous; what the page cache writes back later is charged to the root, so that `disk` is a lower
bound here. A kill for want of memory is counted in the cgroup of the process alone, not in those above.
"""

import os

from agent.sources.cgroups.source import Source, file
from agent.sources.files import parse_count, parse_field
from agent.sources.readings import CpuTotals, DiskTotals, MemoryLevels

_NANOSECONDS = 1_000_000_000
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_NO_LIMIT_BYTES = 1 << 62
"""Without a limit the file holds the largest multiple of the page size in 63 bits, which depends on it."""
_DEFAULT_SHARES = 1024
_SERVICE_FIELDS = 3


def parse_cpu(usage: bytes | None, stat: bytes | None, throttling: bytes | None) -> CpuTotals | None:
    """CPU time out of `cpuacct.usage`, `cpuacct.stat` and `cpu.stat`; None without the first."""
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
    """Levels out of `memory.usage_in_bytes`, `memory.stat` and `memory.oom_control`."""
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
    """Bytes and operations out of `blkio.throttle.io_service_bytes` and `blkio.throttle.io_serviced`."""
    return DiskTotals(parse_service(transferred, skipped_devices), parse_service(operations, skipped_devices))


def parse_service(text: bytes | None, skipped_devices: frozenset[bytes]) -> int | None:
    """The sum of reads and writes, out of lines such as `8:0 Read 4096`, over all devices but the skipped."""
    if text is None:
        return None
    if text in {b"Total 0\n", b""}:
        return 0  # nothing was read or written yet, as in most containers
    total, understood = 0, not text.strip()
    for line in text.splitlines():
        fields = line.split()
        if fields[:1] == [b"Total"]:
            understood = True
        elif len(fields) == _SERVICE_FIELDS and fields[1] in {b"Read", b"Write"}:
            count = parse_count(fields[2])
            if count is not None:
                understood = True
                total += 0 if fields[0] in skipped_devices else count
    return total if understood else None


CPU = Source(
    (file("cpuacct", "cpuacct.usage"), file("cpuacct", "cpuacct.stat"), file("cpu", "cpu.stat")), parse_cpu
)
MEMORY = Source(
    (
        file("memory", "memory.usage_in_bytes"),
        file("memory", "memory.stat"),
        file("memory", "memory.oom_control"),
    ),
    parse_memory,
)
# Older kernels have only the plain files, which leave out cgroups nested in the container.
DISK = Source(
    (
        file("blkio", "blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"),
        file("blkio", "blkio.throttle.io_serviced_recursive", "blkio.throttle.io_serviced"),
    ),
    parse_disk,
)


# --- Limits -------------------------------------------------------------------------------------


def parse_memory_limit_bytes(stat: bytes | None) -> int | None:
    """The tightest limit of the cgroup and all above it, out of `memory.stat`; None where there is none."""
    limit = parse_field(stat, b"hierarchical_memory_limit")
    return None if limit is None or limit >= _NO_LIMIT_BYTES else limit


def parse_quota_cores(quota: bytes | None, period: bytes | None) -> float | None:
    """`cpu.cfs_quota_us` over `cpu.cfs_period_us`; a quota of -1 is no limit."""
    quota_us, period_us = parse_count(quota), parse_count(period)
    return quota_us / period_us if quota_us and period_us else None


def parse_cpu_weight(shares: bytes | None) -> float | None:
    """`cpu.shares` as a multiple of what every cgroup has by default."""
    count = parse_count(shares)
    return None if count is None else count / _DEFAULT_SHARES
