"""A cgroup of version 2: one directory for everything."""

import re

from agent.cgroups.counters import Counters, Limits
from agent.files import parse_count, parse_field, read_file
from agent.pressure import read_cgroup_pressure

_MICROSECONDS = 1_000_000
_DEVICE_NUMBER = re.compile(rb"[0-9]+:[0-9]+")
_CPU_MAX_FIELDS = 2


def parse_cpu_seconds(text: bytes | None) -> float | None:
    """CPU time out of `cpu.stat`."""
    microseconds = parse_field(text, b"usage_usec")
    return None if microseconds is None else microseconds / _MICROSECONDS


def parse_cpu_limit_cores(text: bytes | None) -> float | None:
    """Quota over period out of `cpu.max`; a quota of `max` is no limit."""
    fields = (text or b"").split()
    if len(fields) != _CPU_MAX_FIELDS:
        return None
    quota_us, period_us = parse_count(fields[0]), parse_count(fields[1])
    return quota_us / period_us if quota_us and period_us else None


def parse_io_bytes(text: bytes | None, skipped_devices: frozenset[bytes]) -> int | None:
    """Bytes read and written, out of `io.stat`, over all devices but the skipped.

    A line is `8:0 rbytes=4096 wbytes=0 ...`. Some kernels leave out the end of a line that has no
    figures (`8:0 8:16 rbytes=...`), so this goes by words: figures belong to the last device named.
    """
    if text is None:
        return None
    total, understood, device = 0, not text.strip(), b""
    for word in text.split():
        key, equals, value = word.partition(b"=")
        if equals and key in {b"rbytes", b"wbytes"}:
            count = parse_count(value)
            if count is not None and device not in skipped_devices:
                total += count
        elif _DEVICE_NUMBER.fullmatch(word):
            device, understood = word, True
    return total if understood else None


def read_counters(directory: str, controllers: frozenset[str], skipped_devices: frozenset[bytes]) -> Counters:
    """The counters of the cgroup in `directory`: those of the named controllers, and its pressure."""
    time = usage = stat = service = None
    if "cpu" in controllers:
        time = read_file(f"{directory}/cpu.stat")
    if "memory" in controllers:
        usage = read_file(f"{directory}/memory.current")
        stat = read_file(f"{directory}/memory.stat")
    if "io" in controllers:
        service = read_file(f"{directory}/io.stat")
    return Counters(
        cpu_seconds=parse_cpu_seconds(time),
        memory_usage_bytes=parse_count(usage),
        memory_inactive_file_bytes=parse_field(stat, b"inactive_file"),
        disk_bytes=parse_io_bytes(service, skipped_devices),
        limits=read_limits(directory, controllers),
        pressure=read_cgroup_pressure(directory),
    )


def read_limits(directory: str, controllers: frozenset[str]) -> Limits:
    """The limits of the cgroup itself; those above it bind as well."""
    return Limits(
        parse_cpu_limit_cores(read_file(f"{directory}/cpu.max")) if "cpu" in controllers else None,
        parse_count(read_file(f"{directory}/memory.max")) if "memory" in controllers else None,
    )
