"""A cgroup treated as the host: its limits are the capacity, its usage is the usage.

This is for nested and LXC hosts, and for several hosts on one machine.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from agent.sources.cgroups.layout import Layout
from agent.sources.devices import may_be_external, parse_net_dev
from agent.sources.files import read_file
from agent.sources.processes import namespace_of
from agent.sources.readings import (
    NO_PRESSURE,
    CgroupReading,
    ContainerReading,
    HostCpu,
    HostMemory,
    HostReading,
    LinkTotals,
    lowest_limit,
)
from wire.errors import UserError
from wire.messages import Gap

_MACHINE_ONLY = Gap(
    "host I/O wait, stolen time, load, busy disks", "the kernel measures them per machine, not per cgroup"
)
_SHARED_NETWORK = Gap(
    "host network",
    "the links belong to the whole machine; run the agent in the network namespace of host.cgroup",
)


class CgroupHost:
    """The cgroup at `path`, which must exist at the start."""

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
            cpu=HostCpu(cgroup.cpu.seconds),
            frequency_hertz=machine.frequency_hertz,
            memory=_memory(machine.memory, cgroup),
            oom_kills=oom_kills,
            disks={} if cgroup.disk.transferred_bytes is None else {self.path: cgroup.disk},
            links=links or {},
            pressure=cgroup.pressure,
        )
        return host, tuple(_gaps(host, has_own_network=links is not None))

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


def _gaps(host: HostReading, *, has_own_network: bool) -> Iterator[Gap]:
    yield _MACHINE_ONLY
    if host.memory.used_bytes is None:
        yield Gap("host memory", "the memory controller does not account for this cgroup")
    if not host.disks:
        yield Gap("host disk", "the block I/O controller does not account for this cgroup")
    if not has_own_network:
        yield _SHARED_NETWORK
    elif not host.links:
        yield Gap("host network", "this host has no external network link")
    if host.pressure == NO_PRESSURE:
        yield Gap("host pressure", "the kernel measures it in cgroup v2 only, booted with psi=1")
