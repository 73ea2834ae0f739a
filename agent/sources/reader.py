"""Reads all counters of the host and its containers in one pass."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from agent.sources.cgroups.containers import CgroupWalk, find_containers
from agent.sources.cgroups.layout import Layout, detect_layout
from agent.sources.cgroups.usage import LimitsReader, UsageReader
from agent.sources.devices import may_be_external, parse_net_dev
from agent.sources.files import default_budget, read_file
from agent.sources.host import GapRecorder, HostReader, host_gaps
from agent.sources.processes import NetworkReader, StartReader, namespace_of
from agent.sources.readings import (
    NO_PRESSURE,
    CgroupReading,
    ContainerReading,
    HostMemory,
    HostReading,
    LinkTotals,
    Reading,
    lowest_limit,
)
from wire.errors import UserError
from wire.messages import Gap

_GIBIBYTE = 1 << 30


class Reader:
    """Reads kernel files below the given roots.

    With a `subtree`, that cgroup is the host, and only containers below it are read.
    """

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        monotonic: Callable[[], float] = time.monotonic,
        unix: Callable[[], float] = time.time,
        subtree: str = "",
    ) -> None:
        self._proc = proc
        self._sys = sys
        self._monotonic = monotonic
        self._unix = unix
        self._host = HostReader(proc, sys)
        self._network = NetworkReader(proc)
        self._starts = StartReader(proc)
        self._budget = default_budget()
        self._layout = detect_layout(proc, sys)
        self._usage = UsageReader(self._layout, self._budget)
        self._subtree = CgroupHost(proc, self._layout, subtree) if subtree.strip("/") else None
        self._subtree_path = self._subtree.path if self._subtree is not None else ""

    def read(self) -> Reading:
        """Read everything once. What cannot be read is a gap, with the same text in each pass."""
        attempts = GapRecorder()
        unix_seconds, monotonic_seconds = self._unix(), self._monotonic()
        if self._layout.is_empty:
            self._layout = detect_layout(self._proc, self._sys)
            self._usage = UsageReader(self._layout, self._budget)
        machine = self._host.read(monotonic_seconds, attempts)
        limits = LimitsReader(self._layout, machine.cores)
        walk = attempts.read("containers", self._find, CgroupWalk())
        network = attempts.read("container network", lambda: self._network.read(walk.found), {})
        starts = attempts.read("container starts", lambda: self._starts.read(walk.found, unix_seconds), {})
        containers = attempts.read(
            "containers", lambda: tuple(self._read_containers(walk, machine, limits, network, starts)), ()
        )
        host, host_gaps = attempts.read(
            "host",
            lambda: self._read_host(machine, limits, containers, monotonic_seconds),
            (HostReading(), ()),
        )
        gaps = (
            *host_gaps,
            *_gaps_of_layout(self._layout),
            *self._network.gaps,
            *_gaps_of_containers(walk, containers),
        )
        failed = {gap.what for gap in attempts.failures}
        return Reading(
            unix_seconds=unix_seconds,
            monotonic_seconds=monotonic_seconds,
            host=host,
            containers=containers,
            gaps=tuple(dict.fromkeys((*attempts.failures, *(gap for gap in gaps if gap.what not in failed)))),
        )

    def describe(self) -> list[str]:
        """What can be read on this host, as text."""
        reading = self.read()
        host = reading.host
        runtimes = Counter(container.runtime for container in reading.containers)
        by_runtime = ", ".join(f"{count} {runtime}" for runtime, count in runtimes.most_common())
        containers = f"{len(reading.containers)} container{'' if len(reading.containers) == 1 else 's'}"
        memory_gibibytes = (host.memory.total_bytes or 0) / _GIBIBYTE
        size = f"{host.cores or 0:.4g} cores, {memory_gibibytes:.1f} GiB of memory"
        return [
            size if self._subtree is None else f"cgroup /{self._subtree.path} as the host: {size}",
            f"disks: {', '.join(host.disks) or 'none'}; links: {', '.join(sorted(host.links)) or 'none'}",
            f"{self._layout.version}, {containers}{f' ({by_runtime})' if by_runtime else ''}",
        ]

    def _find(self) -> CgroupWalk:
        root = self._layout.walk_root
        return CgroupWalk() if root is None else find_containers(root, self._subtree_path)

    def _read_containers(
        self,
        walk: CgroupWalk,
        machine: HostReading,
        limits: LimitsReader,
        network: Mapping[str, LinkTotals],
        starts: Mapping[str, float],
    ) -> Iterator[ContainerReading]:
        self._usage.keep_only([*(found.path for found in walk.found), self._subtree_path])
        for found in walk.found:
            monotonic_seconds = self._monotonic()
            cgroup = self._usage.read(found.path, monotonic_seconds, limits, machine.skipped_devices)
            if cgroup is not None:
                yield ContainerReading(
                    id=found.container.id,
                    runtime=found.container.runtime,
                    pod=found.container.pod_uid,
                    monotonic_seconds=monotonic_seconds,
                    cgroup=cgroup,
                    network=network.get(found.container.id),
                    started_at=starts.get(found.container.id),
                )

    def _read_host(
        self,
        machine: HostReading,
        limits: LimitsReader,
        containers: tuple[ContainerReading, ...],
        monotonic_seconds: float,
    ) -> tuple[HostReading, Iterable[Gap]]:
        if self._subtree is None:
            return machine, host_gaps(machine)
        cgroup = self._usage.read(self._subtree.path, monotonic_seconds, limits, machine.skipped_devices)
        return self._subtree.as_host(machine, cgroup, containers)


def _gaps_of_layout(layout: Layout) -> Iterator[Gap]:
    """What the mounted controllers do not measure."""
    if layout.is_empty:
        yield Gap("containers", "no cgroup file system is mounted; mount it at /sys/fs/cgroup")
        return
    if "cpuacct" not in layout.v1 and layout.v2 is None:
        yield Gap("containers", "there is no CPU accounting; mount the cpuacct controller")
    if "memory" not in layout.v1 and "memory" not in layout.v2_controllers:
        yield Gap("container memory", "the memory controller is off; boot with cgroup_enable=memory")
    if "blkio" not in layout.v1 and "io" not in layout.v2_controllers:
        yield Gap("container disk", "the block I/O controller is off; mount blkio, or enable io in cgroup v2")


def _gaps_of_containers(walk: CgroupWalk, containers: tuple[ContainerReading, ...]) -> Iterator[Gap]:
    if walk.some_forbidden:
        yield Gap("containers", "no permission to list all cgroups; run the agent as root")
    if containers and all(container.cgroup.pressure == NO_PRESSURE for container in containers):
        yield Gap("container pressure", "the kernel measures it in cgroup v2 only, booted with psi=1")


# --- A cgroup as the host -----------------------------------------------------------------------


class CgroupHost:
    """A cgroup treated as the host, which must exist at the start: its limits are the capacity.

    This is for nested and LXC hosts, and for several hosts on one machine.
    """

    def __init__(self, proc: Path, layout: Layout, path: str) -> None:
        self.path = path.strip("/")
        self._proc = str(proc)
        self._layout = layout
        self._oom_kills = OomKillCounter()
        if ".." in PurePosixPath(self.path).parts:
            raise UserError(f"host.cgroup: {path} is not below the cgroup root; use a path without ..")
        root = layout.walk_root
        if root is None:
            raise UserError(f"host.cgroup: there is no cgroup {path}: no cgroup file system is mounted")
        if not Path(root, self.path).is_dir():
            raise UserError(
                f"host.cgroup: there is no cgroup {path} under {root}; create it first,"
                " or leave the setting empty for the whole machine"
            )

    def as_host(
        self,
        machine: HostReading,
        cgroup: CgroupReading | None,
        containers: Iterable[ContainerReading],
    ) -> tuple[HostReading, tuple[Gap, ...]]:
        """The reading of the host from the cgroup, and what is unknown about it."""
        if cgroup is None:
            gone = Gap("host", f"the cgroup /{self.path} no longer exists, or has no CPU accounting")
            return HostReading(), (gone,)
        oom_kills = cgroup.memory.oom_kills
        if "memory" in self._layout.v1 and oom_kills is not None:
            # Version 1 counts a kill only in the cgroup of the killed process.
            oom_kills += self._oom_kills.add(containers)
        links = self._read_links()
        host = HostReading(
            cores=lowest_limit(machine.cores, cgroup.limits.cpu_cores),
            cpu_seconds=cgroup.cpu.seconds,
            frequency_hertz=machine.frequency_hertz,
            memory=_memory(machine.memory, cgroup),
            oom_kills=oom_kills,
            disks={} if cgroup.disk.transferred_bytes is None else {self.path: cgroup.disk},
            links=links or {},
            pressure=cgroup.pressure,
        )
        return host, tuple(_gaps_of_cgroup(host, has_own_network=links is not None))

    def _read_links(self) -> dict[str, LinkTotals] | None:
        """Bytes per link of our own network namespace; None if it is the whole machine's.

        Links are selected by name: `/sys` may still show the links of another network namespace.
        """
        own, machine = (namespace_of(self._proc, process) for process in ("self", "1"))
        if own is None or own == machine:
            return None
        found = parse_net_dev(read_file(f"{self._proc}/self/net/dev") or b"")
        return {name: each for name, each in found.items() if may_be_external(name)}


class OomKillCounter:
    """Sum of the kills in all containers, including those that ended, so that it never decreases."""

    def __init__(self) -> None:
        self._total = 0
        self._last_kills: dict[str, int] = {}

    def add(self, containers: Iterable[ContainerReading]) -> int:
        """Add the current counts of the containers; returns the sum."""
        now = {each.id: each.cgroup.memory.oom_kills or 0 for each in containers}
        for identifier, kills in now.items():
            before = self._last_kills.get(identifier, 0)
            self._total += kills - before if kills >= before else kills
        self._last_kills = now
        return self._total


def _memory(machine: HostMemory, cgroup: CgroupReading) -> HostMemory:
    total = lowest_limit(machine.total_bytes, cgroup.limits.memory_bytes)
    used = cgroup.memory.working_set_bytes
    return HostMemory(
        total_bytes=total,
        available_bytes=None if total is None or used is None else max(0, total - used),
        cache_bytes=cgroup.memory.file_bytes,
        swap_used_bytes=cgroup.memory.swap_bytes,
    )


def _gaps_of_cgroup(host: HostReading, *, has_own_network: bool) -> Iterator[Gap]:
    yield Gap(
        "host I/O wait, stolen time, load, busy disks", "the kernel measures them per machine, not per cgroup"
    )
    if host.memory.used_bytes is None:
        yield Gap("host memory", "the memory controller does not account for this cgroup")
    if not host.disks:
        yield Gap("host disk", "the block I/O controller does not account for this cgroup")
    if not has_own_network:
        yield Gap(
            "host network",
            "the links belong to the whole machine; run the agent in the network namespace of host.cgroup",
        )
    elif not host.links:
        yield Gap("host network", "this host has no external network link")
    if host.pressure == NO_PRESSURE:
        yield Gap("host pressure", "the kernel measures it in cgroup v2 only, booted with psi=1")
