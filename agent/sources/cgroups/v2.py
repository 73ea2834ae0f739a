"""Parses cgroup version 2: one directory for all controllers."""

import re

from agent.sources.files import parse_field
from agent.sources.readings import CpuTotals, DiskTotals, MemoryLevels
from wire.text import parse_count

_MICROSECONDS = 1_000_000
_DEVICE_NUMBER = re.compile(rb"[0-9]+:[0-9]+")


def parse_cpu(stat: bytes | None) -> CpuTotals | None:
    """CPU time from `cpu.stat`; the throttled time is unknown if the controller is off."""
    seconds = _seconds(stat, b"usage_usec")
    if seconds is None:
        return None
    return CpuTotals(
        seconds=seconds,
        user_seconds=_seconds(stat, b"user_usec"),
        system_seconds=_seconds(stat, b"system_usec"),
        throttled_seconds=_seconds(stat, b"throttled_usec"),
    )


def _seconds(stat: bytes | None, key: bytes) -> float | None:
    microseconds = parse_field(stat, key)
    return None if microseconds is None else microseconds / _MICROSECONDS


def parse_memory(
    current: bytes | None, stat: bytes | None, swap: bytes | None, events: bytes | None
) -> MemoryLevels:
    """Levels from `memory.current`, `memory.stat`, `memory.swap.current` and `memory.events`."""
    return MemoryLevels(
        usage_bytes=parse_count(current),
        inactive_file_bytes=parse_field(stat, b"inactive_file"),
        anon_bytes=parse_field(stat, b"anon"),
        file_bytes=parse_field(stat, b"file"),
        swap_bytes=parse_count(swap),
        oom_kills=parse_field(events, b"oom_kill"),
    )


def parse_disk(stat: bytes | None, skipped_devices: frozenset[bytes]) -> DiskTotals:
    """Bytes and operations from `io.stat`, without skipped devices.

    A line is `8:0 rbytes=4096 wbytes=0 rios=1 wios=0 ...`. Some kernels omit the end of a line without values
    (`8:0 8:16 rbytes=...`), so values belong to the device before them, not to the line.
    """
    if stat is None:
        return DiskTotals()
    transferred = operations = written = 0
    valid, device = not stat.strip(), b""
    for field in stat.split():
        key, equals, value = field.partition(b"=")
        if equals:
            count = parse_count(value)
            if count is None or device in skipped_devices:
                continue
            if key in {b"rbytes", b"wbytes"}:
                transferred += count
                written += count if key == b"wbytes" else 0
            elif key in {b"rios", b"wios"}:
                operations += count
        elif _DEVICE_NUMBER.fullmatch(field):
            device, valid = field, True
    return DiskTotals(transferred, operations, written_bytes=written) if valid else DiskTotals()


# --- Limits -------------------------------------------------------------------------------------


def parse_quota_cores(cpu_max: bytes | None) -> float | None:
    """Quota over period from `cpu.max`; a quota of `max` is no limit."""
    quota, _, period = (cpu_max or b"").partition(b" ")
    quota_us, period_us = parse_count(quota), parse_count(period)
    return quota_us / period_us if quota_us and period_us else None
