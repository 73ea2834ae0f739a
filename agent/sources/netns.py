"""Network bytes of containers, from their network namespaces.

The counters belong to the namespace. A container with host networking has no value of its own. If several
share a namespace (a pod), the first by ID gets the whole value and the others none, so that the sum is right.

Namespaces are identified by the inode of `/proc/<pid>/net/dev`, which every user may read, unlike
`/proc/<pid>/ns/net`.
"""

import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.sources.cgroups.containers import FoundContainer
from agent.sources.files import read_descriptor, read_file
from agent.sources.interfaces import LOOPBACK, LinkTotals, parse_net_dev
from wire.messages import Gap

_HIDDEN = Gap(
    "container network",
    "the processes of containers are not visible; share the host's process namespace (pid: host),"
    " or mount /proc without hidepid",
)


@dataclass(frozen=True, slots=True)
class NetworkPass:
    """The network counters of all containers."""

    totals: Mapping[str, LinkTotals] = field(default_factory=dict)
    """By the id of the container. A container without an entry has no value of its own, or an unknown one."""
    gaps: tuple[Gap, ...] = ()


class _HiddenError(Exception):
    """The processes exist but are not visible."""


class NetworkReader:
    """Reads network counters; caches a process per container, so that a pass reads one file each."""

    def __init__(self, proc: Path) -> None:
        self._proc = str(proc)
        self._processes: dict[str, tuple[int, int]] = {}
        """A process of each container, and its network namespace."""

    def read(self, containers: Iterable[FoundContainer]) -> NetworkPass:
        """Bytes by container id; the containers are sorted by id."""
        counted_namespaces = {namespace_of(self._proc, process) for process in ("1", "self")}
        processes: dict[str, tuple[int, int]] = {}
        totals: dict[str, LinkTotals] = {}
        gaps: tuple[Gap, ...] = ()
        for container in containers:
            identifier = container.container.id
            try:
                found = self._read_container(identifier, container.directory, counted_namespaces)
            except _HiddenError:
                gaps = (_HIDDEN,)
                continue
            if found is None:
                continue
            pid, namespace, text = found
            processes[identifier] = pid, namespace
            if text is not None:
                counted_namespaces.add(namespace)
                links = [each for name, each in parse_net_dev(text).items() if name != LOOPBACK]
                totals[identifier] = LinkTotals(
                    sum(each.transferred_bytes for each in links), sum(each.sent_bytes for each in links)
                )
        self._processes = processes
        return NetworkPass(totals, gaps)

    def _read_container(
        self, identifier: str, directory: str, skipped: Container[int | None]
    ) -> tuple[int, int, bytes | None] | None:
        """A process of the container, its namespace and its counters; None if it ended or has no process.

        The cached process is valid only while it is in the same namespace: a restarted container has a new
        one, and the old process ID may belong to another program.
        """
        cached = self._processes.get(identifier)
        if cached is not None:
            pid, namespace = cached
            found = _read_namespace(self._proc, pid, skipped)
            if found is not None and found[0] == namespace:
                return pid, *found
        first = first_process(directory)
        if first is None:
            return None
        found = _read_namespace(self._proc, first, skipped)
        if found is None:
            if namespace_of(self._proc, "1") is None:
                raise _HiddenError
            return None  # it has ended
        return first, *found


def namespace_of(proc: str, process: str) -> int | None:
    """Identifier of a process's network namespace; None if it is not visible."""
    try:
        # A string: creating a Path takes longer than the call.
        return os.stat(f"{proc}/{process}/net/dev").st_ino  # noqa: PTH116 - see above
    except OSError:
        return None


def _read_namespace(proc: str, pid: int, skipped: Container[int | None]) -> tuple[int, bytes | None] | None:
    """Network namespace of a process and, unless it is skipped, its counters; None if it is not visible.

    Both come from one open file: finding a path below /proc takes the kernel as long as reading the file.
    """
    try:
        descriptor = os.open(f"{proc}/{pid}/net/dev", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        namespace = os.fstat(descriptor).st_ino
        return namespace, None if namespace in skipped else read_descriptor(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def first_process(directory: str) -> int | None:
    """A process of the cgroup or one below it: in version 2, only leaves contain processes."""
    pending = [directory]
    while pending:
        here = pending.pop()
        pids = (read_file(f"{here}/cgroup.procs") or b"").split(maxsplit=1)
        if pids and pids[0] == b"0":
            raise _HiddenError
        if pids and pids[0].isdigit():
            return int(pids[0])
        try:
            with os.scandir(here) as entries:
                pending.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue
    return None
