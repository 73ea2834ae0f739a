"""The host's own counters: processors, memory, disks, links and pressure.

psutil reads processors and memory. Disks and links are read here, since psutil looks for disks in a
fixed `/sys`, counts the same byte in a logical volume and in the disk below it, and counts the inner
links of containers along with the cards.
"""

from dataclasses import dataclass
from pathlib import Path

import psutil

from agent.devices import read_disks
from agent.files import read_file
from agent.links import Links, may_lead_outside, parse_net_dev, read_links
from agent.pressure import read_host_pressure
from agent.readings import HostReading, PressureTotals
from wire.messages import Gap

_LINKS_KEPT_SECONDS = 60.0
"""Asking a link for its speed takes a lock that all network configuration shares: not every time."""


@dataclass(frozen=True, slots=True)
class HostPass:
    """What one look at the host gave."""

    reading: HostReading
    disks: tuple[str, ...]
    links: tuple[str, ...]
    skipped_devices: frozenset[bytes]
    """Block devices that are not disks; containers' figures leave them out as well."""
    gaps: tuple[Gap, ...]


class HostReader:
    """Reads the host whose proc and sys file systems are mounted at these places."""

    def __init__(self, proc: Path, sys: Path) -> None:
        self._proc = proc
        self._sys = sys
        self._links = Links(frozenset(), None)
        self._links_among: frozenset[str] = frozenset()
        self._links_read_at = float("-inf")

    def read(self, monotonic_seconds: float) -> HostPass:
        """Look at the host once."""
        psutil.PROCFS_PATH = str(self._proc)
        processors = psutil.cpu_times(percpu=True)
        memory = psutil.virtual_memory()
        disks = read_disks(str(self._proc), str(self._sys))
        bytes_by_link = self._read_bytes_by_link(monotonic_seconds)
        pressure = read_host_pressure(str(self._proc))
        reading = HostReading(
            cores=len(processors),
            # Guest time is part of user and nice. Stolen time is another machine's work, not ours.
            busy_seconds=sum(p.user + p.nice + p.system + p.irq + p.softirq for p in processors),
            memory_total_bytes=memory.total,
            memory_available_bytes=memory.available,
            disk_bytes=disks.total_bytes,
            network_bytes=sum(bytes_by_link.values()) if bytes_by_link else None,
            network_capacity_bytes_per_second=self._links.capacity_bytes_per_second,
            pressure=pressure,
        )
        links = tuple(sorted(bytes_by_link))
        return HostPass(reading, disks.names, links, disks.skipped_devices, tuple(_gaps(reading)))

    def _read_bytes_by_link(self, monotonic_seconds: float) -> dict[str, int]:
        # The first process is in the host's network even where the agent has one of its own.
        text = read_file(f"{self._proc}/1/net/dev") or read_file(f"{self._proc}/net/dev") or b""
        bytes_by_link = parse_net_dev(text)
        among = frozenset(filter(may_lead_outside, bytes_by_link))
        if among != self._links_among or monotonic_seconds - self._links_read_at >= _LINKS_KEPT_SECONDS:
            self._links = read_links(self._sys, bytes_by_link)
            self._links_among, self._links_read_at = among, monotonic_seconds
        return {name: count for name, count in bytes_by_link.items() if name in self._links.names}


def _gaps(host: HostReading) -> list[Gap]:
    gaps = []
    if host.disk_bytes is None:
        gaps.append(Gap("host disk", "the kernel lists no disk under /sys/block"))
    if host.network_bytes is None:
        gaps.append(Gap("host network", "there is no link that leads out of this host"))
    elif host.network_capacity_bytes_per_second is None:
        gaps.append(Gap("host network capacity", "a network link does not say how fast it is"))
    if host.pressure == PressureTotals():
        gaps.append(Gap("host pressure", "the kernel does not measure it; boot with psi=1 if it can"))
    return gaps
