"""A cgroup of version 1: one directory per controller.

Version 1 charges block I/O to a container only where it is direct or synchronous; what the page
cache writes back later is charged to the root. `disk_bytes` is therefore a lower bound here.
"""

from collections.abc import Mapping

from agent.cgroups.counters import Counters, Limits
from agent.files import parse_count, parse_field, read_file

_NANOSECONDS = 1_000_000_000
_NO_LIMIT_BYTES = 1 << 62
"""Without a limit the file holds the largest multiple of the page size in 63 bits, which depends on it."""
_SERVICE_BYTES_FIELDS = 3


def parse_cpu_seconds(text: bytes | None) -> float | None:
    """CPU time out of `cpuacct.usage`."""
    nanoseconds = parse_count(text)
    return None if nanoseconds is None else nanoseconds / _NANOSECONDS


def parse_memory_limit_bytes(text: bytes | None) -> int | None:
    """The tightest limit of the cgroup and all above it, out of `memory.stat`; None where there is none."""
    limit = parse_field(text, b"hierarchical_memory_limit")
    return None if limit is None or limit >= _NO_LIMIT_BYTES else limit


def parse_cpu_limit_cores(quota: bytes | None, period: bytes | None) -> float | None:
    """`cpu.cfs_quota_us` over `cpu.cfs_period_us`; a quota of -1 is no limit."""
    quota_us, period_us = parse_count(quota), parse_count(period)
    return quota_us / period_us if quota_us and period_us else None


def parse_service_bytes(text: bytes | None, skipped_devices: frozenset[bytes]) -> int | None:
    """Bytes read and written, out of lines such as `8:0 Read 4096`, over all devices but the skipped."""
    if text is None:
        return None
    total, understood = 0, not text.strip()
    for line in text.splitlines():
        fields = line.split()
        if fields[:1] == [b"Total"]:
            understood = True  # alone where nothing was read or written yet
        elif len(fields) == _SERVICE_BYTES_FIELDS and fields[1] in {b"Read", b"Write"}:
            count = parse_count(fields[2])
            if count is not None:
                understood = True
                total += 0 if fields[0] in skipped_devices else count
    return total if understood else None


def read_counters(hierarchies: Mapping[str, str], path: str, skipped_devices: frozenset[bytes]) -> Counters:
    """The counters of the cgroup at `path`, from whichever controllers there are."""
    cpuacct, memory, blkio = (hierarchies.get(name) for name in ("cpuacct", "memory", "blkio"))
    time = usage = stat = service = None
    if cpuacct is not None:
        time = read_file(f"{cpuacct}/{path}/cpuacct.usage")
    if memory is not None:
        usage = read_file(f"{memory}/{path}/memory.usage_in_bytes")
        stat = read_file(f"{memory}/{path}/memory.stat")
    if blkio is not None:
        service = read_file(f"{blkio}/{path}/blkio.throttle.io_service_bytes_recursive")
        if service is None:
            # Older kernels have only the plain file, which leaves out cgroups nested in the container.
            service = read_file(f"{blkio}/{path}/blkio.throttle.io_service_bytes")
    return Counters(
        cpu_seconds=parse_cpu_seconds(time),
        memory_usage_bytes=parse_count(usage),
        memory_inactive_file_bytes=parse_field(stat, b"total_inactive_file"),
        disk_bytes=parse_service_bytes(service, skipped_devices),
        limits=Limits(read_cpu_limit_cores(hierarchies, path), parse_memory_limit_bytes(stat)),
    )


def read_cpu_limit_cores(hierarchies: Mapping[str, str], path: str) -> float | None:
    """The CPU quota of the cgroup itself; those above it bind as well."""
    cpu = hierarchies.get("cpu")
    if cpu is None:
        return None
    quota = read_file(f"{cpu}/{path}/cpu.cfs_quota_us")
    if quota is None or quota.startswith(b"-"):
        return None
    return parse_cpu_limit_cores(quota, read_file(f"{cpu}/{path}/cpu.cfs_period_us"))
