"""One pass over the whole host: its own counters, and those of every container."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from agent.cgroups.find import Walk, find_containers
from agent.cgroups.layout import Layout, detect
from agent.cgroups.usage import UsageReader, v2_duties
from agent.host import HostPass, HostReader
from agent.netns import NetworkReader
from agent.readings import ContainerReading, PressureTotals, Reading
from wire.messages import Gap

_GIBIBYTE = 1 << 30


class Reader:
    """Reads everything that the kernel's files say; the roots and the clocks are given."""

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        monotonic: Callable[[], float] = time.monotonic,
        unix: Callable[[], float] = time.time,
    ) -> None:
        self._proc = proc
        self._sys = sys
        self._monotonic = monotonic
        self._unix = unix
        self._host = HostReader(proc, sys)
        self._network = NetworkReader(proc)
        self._layout = detect(proc, sys)

    def read(self) -> Reading:
        """One pass. What cannot be seen is a gap: worded the same in every pass, and each one once."""
        return self._read()[0]

    def describe(self) -> list[str]:
        """What there is to read on this host, in plain words; what is missing is in the gaps."""
        reading, host = self._read()
        runtimes = Counter(container.runtime for container in reading.containers)
        by_runtime = ", ".join(f"{count} {runtime}" for runtime, count in runtimes.most_common())
        containers = f"{len(reading.containers)} container{'' if len(reading.containers) == 1 else 's'}"
        return [
            f"{host.reading.cores} cores, {host.reading.memory_total_bytes / _GIBIBYTE:.1f} GiB of memory",
            f"disks: {', '.join(host.disks) or 'none'}; links: {', '.join(host.links) or 'none'}",
            f"{self._layout.version}, {containers}{f' ({by_runtime})' if by_runtime else ''}",
        ]

    def _read(self) -> tuple[Reading, HostPass]:
        unix_seconds, monotonic_seconds = self._unix(), self._monotonic()
        host = self._host.read(monotonic_seconds)
        if self._layout.is_empty:
            self._layout = detect(self._proc, self._sys)
        containers, gaps = self._read_containers(host)
        reading = Reading(
            unix_seconds=unix_seconds,
            monotonic_seconds=monotonic_seconds,
            host=host.reading,
            containers=containers,
            gaps=tuple(dict.fromkeys((*host.gaps, *gaps))),
        )
        return reading, host

    def _read_containers(self, host: HostPass) -> tuple[tuple[ContainerReading, ...], list[Gap]]:
        root = self._layout.walk_root
        walk = find_containers(root) if root is not None else Walk()
        directories = ((found.container.id, f"{root}/{found.path}") for found in walk.found)
        network_bytes, network_gaps = self._network.read(directories)
        usage = UsageReader(self._layout, host.skipped_devices)
        containers = []
        for found in walk.found:
            monotonic_seconds = self._monotonic()
            counters = usage.read(found.path)
            if counters is None or counters.cpu_seconds is None:
                continue
            containers.append(
                ContainerReading(
                    id=found.container.id,
                    runtime=found.container.runtime,
                    monotonic_seconds=monotonic_seconds,
                    cpu_seconds=counters.cpu_seconds,
                    memory_usage_bytes=counters.memory_usage_bytes,
                    memory_inactive_file_bytes=counters.memory_inactive_file_bytes,
                    memory_limit_bytes=counters.limits.memory_bytes,
                    cpu_limit_cores=counters.limits.cpu_cores,
                    disk_bytes=counters.disk_bytes,
                    network_bytes=network_bytes.get(found.container.id),
                    pressure=counters.pressure,
                )
            )
        gaps = [*_gaps_of_layout(self._layout), *network_gaps]
        if walk.some_forbidden:
            gaps.append(Gap("containers", "this user may not list all cgroups; run as root to see every one"))
        if containers and all(container.pressure == PressureTotals() for container in containers):
            gaps.append(Gap("container pressure", "the kernel measures it in cgroup v2 only, with psi=1"))
        return tuple(containers), gaps


def _gaps_of_layout(layout: Layout) -> Iterator[Gap]:
    """What the mounted controllers leave out for every container."""
    from_v2 = v2_duties(layout)
    if layout.is_empty:
        yield Gap("containers", "no cgroup file system is mounted; mount it at /sys/fs/cgroup")
        return
    if "cpuacct" not in layout.v1 and "cpu" not in from_v2:
        yield Gap("containers", "their CPU time is not accounted for; mount the cpuacct controller")
    if "memory" not in layout.v1 and "memory" not in from_v2:
        yield Gap("container memory", "the memory controller is off; boot with cgroup_enable=memory")
    if "blkio" not in layout.v1 and "io" not in from_v2:
        yield Gap("container disk", "the block I/O controller is off; mount blkio, or enable io in cgroup v2")
