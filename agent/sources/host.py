"""The machine's own counters: processors, memory, disks, links and pressure.

psutil reads processors and memory. Disks and links are read here, since psutil looks for disks in a
fixed `/sys`, counts the same byte in a logical volume and in the disk below it, and counts the inner
links of containers along with the cards.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from agent.sources.disks import Disks, read_disks
from agent.sources.files import parse_field, read_file, read_host_pressure
from agent.sources.frequency import FrequencyReader
from agent.sources.gaps import GapRecorder
from agent.sources.interfaces import NetworkInterfaces, may_be_external, parse_net_dev, read_interfaces
from agent.sources.readings import NO_PRESSURE, HostCpu, HostMemory, HostReading
from wire.messages import Gap

_LINKS_KEPT_SECONDS = 60.0
"""Asking a link for its speed takes a lock that all network configuration shares: not every time."""
_KIBIBYTE = 1024


@dataclass(frozen=True, slots=True)
class HostPass:
    """What one look at the host gave."""

    reading: HostReading
    skipped_devices: frozenset[bytes] = frozenset()
    """Block devices that are not disks; containers' figures leave them out as well."""
    failures: tuple[Gap, ...] = ()
    """Sources that broke; those that merely have nothing to say are in `host_gaps` the reading."""


class HostReader:
    """Reads the host whose proc and sys file systems are mounted at these places."""

    def __init__(self, proc: Path, sys: Path) -> None:
        self._proc = proc
        self._sys = sys
        self._frequency = FrequencyReader(proc, sys)
        self._links = NetworkInterfaces(frozenset(), None)
        self._links_among: frozenset[str] = frozenset()
        self._links_read_at = float("-inf")

    def read(self, monotonic_seconds: float) -> HostPass:
        """Look at the host once."""
        proc, sys = str(self._proc), str(self._sys)
        attempts = GapRecorder()
        attempt = attempts.read
        cores, cpu = attempt("host CPU", lambda: _read_cpu(proc), (None, HostCpu()))
        disks = attempt("host disk", lambda: read_disks(proc, sys), Disks())
        reading = HostReading(
            cores=cores,
            cpu=cpu,
            load_1m=attempt("host load", lambda: parse_load(read_file(f"{proc}/loadavg")), None),
            frequency_hertz=attempt("host frequency", lambda: self._frequency.read(monotonic_seconds), None),
            memory=attempt("host memory", lambda: _read_memory(proc), HostMemory()),
            oom_kills=attempt("host OOM kills", lambda: _read_oom_kills(proc), None),
            disks=disks.totals,
            links=attempt("host network", lambda: self._read_links(monotonic_seconds), {}),
            network_capacity_bytes_per_second=self._links.capacity_bytes_per_second,
            pressure=attempt("host pressure", lambda: read_host_pressure(proc), NO_PRESSURE),
        )
        return HostPass(reading, disks.skipped_devices, tuple(attempts.failures))

    def _read_links(self, monotonic_seconds: float) -> Mapping[str, int]:
        # The first process is in the host's network even where the agent has one of its own.
        text = read_file(f"{self._proc}/1/net/dev") or read_file(f"{self._proc}/net/dev") or b""
        bytes_by_link = parse_net_dev(text)
        among = frozenset(filter(may_be_external, bytes_by_link))
        if among != self._links_among or monotonic_seconds - self._links_read_at >= _LINKS_KEPT_SECONDS:
            self._links = read_interfaces(self._sys, bytes_by_link)
            self._links_among, self._links_read_at = among, monotonic_seconds
        return {name: count for name, count in bytes_by_link.items() if name in self._links.names}


def host_gaps(host: HostReading) -> list[Gap]:
    """What this machine does not tell."""
    gaps = []
    if host.frequency_hertz is None:
        gaps.append(Gap("host frequency", "neither a cpufreq driver nor /proc/cpuinfo tells it"))
    if not host.disks:
        gaps.append(Gap("host disk", "the kernel lists no disk under /sys/block"))
    if not host.links:
        gaps.append(Gap("host network", "there is no link that leads out of this host"))
    if host.pressure == NO_PRESSURE:
        gaps.append(Gap("host pressure", "the kernel does not measure it; boot with psi=1 if it can"))
    return gaps


def parse_load(text: bytes | None) -> float | None:
    """The mean number of runnable or stuck tasks over a minute, out of `/proc/loadavg`."""
    try:
        load = float((text or b"").split(maxsplit=1)[0])
    except (IndexError, ValueError):
        return None
    return load if 0 <= load < float("inf") else None


def parse_swap_used_bytes(meminfo: bytes) -> int | None:
    """Swap that is taken, out of `/proc/meminfo`."""
    total, free = (parse_field(meminfo.replace(b" kB", b""), key) for key in (b"SwapTotal:", b"SwapFree:"))
    return None if total is None or free is None else max(0, total - free) * _KIBIBYTE


@contextmanager
def _psutil_at(proc: str) -> Iterator[None]:
    """Have psutil look here, and only while the block runs: its one setting holds for the whole process."""
    before, psutil.PROCFS_PATH = psutil.PROCFS_PATH, proc
    try:
        yield
    finally:
        psutil.PROCFS_PATH = before


def _read_cpu(proc: str) -> tuple[float | None, HostCpu]:
    with _psutil_at(proc):
        processors = psutil.cpu_times(percpu=True)
    return float(len(processors)), HostCpu(
        # Guest time is part of user and nice. Stolen time is another machine's work, not ours.
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
