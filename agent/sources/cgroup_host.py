"""A cgroup taken as the host: its limits are the capacity, its use is the use.

That is how a nested or LXC host looks from outside, and how several hosts can stand on one machine.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from agent.sources.cgroups.layout import Layout
from agent.sources.files import read_file
from agent.sources.interfaces import may_be_external, parse_net_dev
from agent.sources.netns import namespace_of
from agent.sources.readings import (
    NO_PRESSURE,
    CgroupReading,
    ContainerReading,
    HostCpu,
    HostMemory,
    HostReading,
    lowest_limit,
)
from wire.errors import UserError
from wire.messages import Gap

_MACHINE_ONLY = Gap(
    "host I/O wait, stolen time, load, busy disks", "the kernel tells them of whole machines, not of a cgroup"
)
_SHARED_NETWORK = Gap(
    "host network",
    "the links are the whole machine's; run the agent in the network namespace that host.cgroup lives in",
)


class CgroupHost:
    """The cgroup at `path`, which must be there at the beginning."""

    def __init__(self, proc: Path, layout: Layout, path: str) -> None:
        self.path = path.strip("/")
        self._proc = str(proc)
        self._layout = layout
        self._oom_kills = OomKillCounter()
        if ".." in PurePosixPath(self.path).parts:
            raise UserError(
                f"host.cgroup: {path} leads out of the tree of cgroups; give a plain path below it"
            )
        root = layout.walk_root
        if root is None:
            raise UserError(f"host.cgroup: there is no cgroup {path}, since no cgroup file system is mounted")
        if not Path(root, self.path).is_dir():
            raise UserError(
                f"host.cgroup: there is no cgroup {path} under {root}; make it first,"
                " or leave the setting empty to take the whole machine as the host"
            )

    def as_host(
        self,
        machine: HostReading,
        cgroup: CgroupReading | None,
        containers: Iterable[ContainerReading],
    ) -> tuple[HostReading, tuple[Gap, ...]]:
        """The cgroup's figures in the place of the machine's, and what cannot be told of it."""
        if cgroup is None:
            gone = Gap("host", f"the cgroup /{self.path} is not there any more, or has no CPU time to tell")
            return HostReading(), (gone,)
        oom_kills = cgroup.memory.oom_kills
        if "memory" in self._layout.v1 and oom_kills is not None:
            # Version 1 counts a kill in the victim's own cgroup alone.
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

    def _read_links(self) -> dict[str, int] | None:
        """The links of our own network, unless that is the whole machine's.

        They are told by their names: `/sys` may still show the machine's links to one who has entered
        another network.
        """
        own, machines = (namespace_of(self._proc, process) for process in ("self", "1"))
        if own is None or own == machines:
            return None
        bytes_by_link = parse_net_dev(read_file(f"{self._proc}/self/net/dev") or b"")
        return {name: count for name, count in bytes_by_link.items() if may_be_external(name)}


class OomKillCounter:
    """Kills in containers, added up over all that were ever seen, so that the sum never goes back."""

    def __init__(self) -> None:
        self._total = 0
        self._seen: dict[str, int] = {}

    def add(self, containers: Iterable[ContainerReading]) -> int:
        """Take in what the containers count now; return the sum so far."""
        now = {each.id: each.cgroup.memory.oom_kills or 0 for each in containers}
        for identifier, kills in now.items():
            before = self._seen.get(identifier, 0)
            self._total += kills - before if kills >= before else kills
        self._seen = now
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
        yield Gap("host network", "there is no link that leads out of this host")
    if host.pressure == NO_PRESSURE:
        yield Gap("host pressure", "the kernel measures it in cgroup v2 only, with psi=1")
