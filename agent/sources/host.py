"""Counters of the host: CPU, memory, disks, links and pressure.

psutil reads CPU and memory. Disks and links are read here, since psutil looks for disks in a fixed `/sys`,
counts the same byte in a logical volume and in its disk, and includes the internal links of containers.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from agent.sources.disks import Disks, read_disks
from agent.sources.files import parse_field, read_file
from agent.sources.frequency import FrequencyReader
from agent.sources.gaps import GapRecorder
from agent.sources.interfaces import (
    LinkTotals,
    NetworkInterfaces,
    may_be_external,
    parse_net_dev,
    read_interfaces,
)
from agent.sources.pressure import read_host_pressure
from agent.sources.readings import NO_PRESSURE, HostCpu, HostMemory, HostReading
from wire.messages import Gap

_LINKS_KEPT_SECONDS = 60.0
"""Reading the speed of a link takes a global lock of network configuration, so it is cached."""
_KIBIBYTE = 1024


@dataclass(frozen=True, slots=True)
class HostPass:
    """The result of reading the host once."""

    reading: HostReading
    skipped_devices: frozenset[bytes] = frozenset()
    """Block devices that are not disks; they are excluded from containers as well."""
    failures: tuple[Gap, ...] = ()
    """Sources that raised an error; `host_gaps` lists those without a value."""


class HostReader:
    """Reads the host with the proc and sys file systems at these paths."""

    def __init__(self, proc: Path, sys: Path) -> None:
        self._proc = proc
        self._sys = sys
        self._frequency = FrequencyReader(proc, sys)
        self._links = NetworkInterfaces(frozenset(), None)
        self._link_names: frozenset[str] = frozenset()
        self._links_read_at = float("-inf")

    def read(self, monotonic_seconds: float) -> HostPass:
        """Read the host once."""
        proc, sys = str(self._proc), str(self._sys)
        attempts = GapRecorder()
        attempt = attempts.read
        cores, cpu = attempt("host CPU", lambda: _read_cpu(proc), (None, HostCpu()))
        links = attempt("host network", lambda: self._read_links(monotonic_seconds), {})
        disks = attempt("host disk", lambda: read_disks(proc, sys), Disks())
        reading = HostReading(
            cores=cores,
            cpu=cpu,
            load_1m=attempt("host load", lambda: parse_load(read_file(f"{proc}/loadavg")), None),
            frequency_hertz=attempt("host frequency", lambda: self._frequency.read(monotonic_seconds), None),
            memory=attempt("host memory", lambda: _read_memory(proc), HostMemory()),
            oom_kills=attempt("host OOM kills", lambda: _read_oom_kills(proc), None),
            disks=disks.totals,
            links={name: each.transferred_bytes for name, each in links.items()},
            links_sent={name: each.sent_bytes for name, each in links.items()},
            network_capacity_bytes_per_second=self._links.capacity_bytes_per_second,
            pressure=attempt("host pressure", lambda: read_host_pressure(proc), NO_PRESSURE),
        )
        return HostPass(reading, disks.skipped_devices, tuple(attempts.failures))

    def _read_links(self, monotonic_seconds: float) -> Mapping[str, LinkTotals]:
        # Process 1 is in the host's network namespace, even if the agent is not.
        text = read_file(f"{self._proc}/1/net/dev") or read_file(f"{self._proc}/net/dev") or b""
        found = parse_net_dev(text)
        names = frozenset(filter(may_be_external, found))
        if names != self._link_names or monotonic_seconds - self._links_read_at >= _LINKS_KEPT_SECONDS:
            self._links = read_interfaces(self._sys, found)
            self._link_names, self._links_read_at = names, monotonic_seconds
        return {name: each for name, each in found.items() if name in self._links.names}


def host_gaps(host: HostReading) -> list[Gap]:
    """What cannot be measured on this host."""
    gaps = []
    if host.frequency_hertz is None:
        gaps.append(Gap("host frequency", "neither a cpufreq driver nor /proc/cpuinfo reports it"))
    if not host.disks:
        gaps.append(Gap("host disk", "the kernel lists no disk under /sys/block"))
    if not host.links:
        gaps.append(Gap("host network", "this host has no external network link"))
    if host.pressure == NO_PRESSURE:
        gaps.append(Gap("host pressure", "the kernel does not measure it; boot with psi=1 if it supports it"))
    return gaps


def parse_load(text: bytes | None) -> float | None:
    """The load average over a minute, from `/proc/loadavg`."""
    try:
        load = float((text or b"").split(maxsplit=1)[0])
    except (IndexError, ValueError):
        return None
    return load if 0 <= load < float("inf") else None


def parse_swap_used_bytes(meminfo: bytes) -> int | None:
    """Used swap, from `/proc/meminfo`."""
    total, free = (parse_field(meminfo.replace(b" kB", b""), key) for key in (b"SwapTotal:", b"SwapFree:"))
    return None if total is None or free is None else max(0, total - free) * _KIBIBYTE


@contextmanager
def _psutil_at(proc: str) -> Iterator[None]:
    """Set the proc path of psutil while the block runs; the setting is global."""
    before, psutil.PROCFS_PATH = psutil.PROCFS_PATH, proc
    try:
        yield
    finally:
        psutil.PROCFS_PATH = before


def _read_cpu(proc: str) -> tuple[float | None, HostCpu]:
    with _psutil_at(proc):
        processors = psutil.cpu_times(percpu=True)
    return float(len(processors)), HostCpu(
        # Guest time is part of user and nice. Stolen time is work of other machines.
        busy_seconds=sum(p.user + p.nice + p.system + p.irq + p.softirq for p in processors),
        iowait_seconds=sum(p.iowait for p in processors),
        steal_seconds=sum(p.steal for p in processors),
    )


def _read_memory(proc: str) -> HostMemory:
    with _psutil_at(proc):
        memory = psutil.virtual_memory()
    return HostMemory(
        total_bytes=memory.total,
        available_bytes=memory.available,
        cache_bytes=memory.cached,
        swap_used_bytes=parse_swap_used_bytes(read_file(f"{proc}/meminfo") or b""),
    )


def _read_oom_kills(proc: str) -> int | None:
    return parse_field(read_file(f"{proc}/vmstat"), b"oom_kill")
