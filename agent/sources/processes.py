"""What the processes of a container show: its network bytes, and when it started."""

import os
from collections.abc import Container, Iterable, Iterator
from itertools import islice
from math import isfinite
from pathlib import Path

from agent.sources.cgroups.containers import FoundContainer
from agent.sources.devices import LOOPBACK, parse_net_dev
from agent.sources.files import read_descriptor, read_file
from agent.sources.readings import LinkTotals
from wire.messages import Gap
from wire.text import parse_count


def processes_of(directory: str) -> Iterator[int]:
    """Processes of the cgroup and of those below it: in version 2, only leaves contain processes.

    Processes of another namespace are listed as 0.
    """
    pending = [directory]
    while pending:
        here = pending.pop()
        pids = (read_file(f"{here}/cgroup.procs") or b"").split()
        yield from (int(pid) for pid in pids if pid.isdigit())
        try:
            with os.scandir(here) as entries:
                pending.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue


# --- Network ------------------------------------------------------------------------------------

_HIDDEN = Gap(
    "container network",
    "the processes of containers are not visible; share the host's process namespace (pid: host),"
    " or mount /proc without hidepid",
)


class _HiddenError(Exception):
    """The processes exist but are not visible."""


class NetworkReader:
    """Reads network counters; caches a process per container, so that a pass reads one file each.

    The counters belong to the network namespace. A container with host networking has no value of its own. If
    several share a namespace (a pod), the first by ID gets the whole value and the others none, so that the
    sum is right. Namespaces are identified by the inode of `/proc/<pid>/net/dev`, which every user may read,
    unlike `/proc/<pid>/ns/net`.
    """

    def __init__(self, proc: Path) -> None:
        self._proc = str(proc)
        self._processes: dict[str, tuple[int, int]] = {}
        """A process of each container, and its network namespace."""
        self.gaps: tuple[Gap, ...] = ()
        """Of the last pass."""

    def read(self, containers: Iterable[FoundContainer]) -> dict[str, LinkTotals]:
        """Bytes by container id, where known; the containers are sorted by id."""
        counted_namespaces = {namespace_of(self._proc, process) for process in ("1", "self")}
        processes: dict[str, tuple[int, int]] = {}
        totals: dict[str, LinkTotals] = {}
        self.gaps = ()
        for container in containers:
            identifier = container.container.id
            try:
                found = self._read_container(identifier, container.directory, counted_namespaces)
            except _HiddenError:
                self.gaps = (_HIDDEN,)
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
        return totals

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
        first = next(processes_of(directory), None)
        if first is None:
            return None
        found = _read_namespace(self._proc, first, skipped) if first else None
        if found is None:
            if not first or namespace_of(self._proc, "1") is None:
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


# --- Start times --------------------------------------------------------------------------------

_MAX_PROCESSES = 64
"""Processes that are read per container: of more, the oldest may be missed, and the time is too late."""
_START_FIELD = 19
"""Of `/proc/<pid>/stat`, counted after the name, which may contain spaces."""


class StartReader:
    """Reads the start of each container once, and again if its cgroup was created again.

    It is the start of the oldest process in its cgroup, since the engine's list has no start times. A process
    of a container cannot be older than the container, and the first one lives as long as it does. So the time
    is right for containers that are older than the agent, and for every runtime.
    """

    def __init__(self, proc: Path, ticks_per_second: float | None = None) -> None:
        self._proc = str(proc)
        self._ticks_per_second = ticks_per_second or os.sysconf("SC_CLK_TCK")
        self._starts: dict[str, tuple[int, float | None]] = {}
        """The inode of each container's cgroup, and the start time."""

    def read(self, containers: Iterable[FoundContainer], unix_seconds: float) -> dict[str, float]:
        """Start times by container id, as far as they are known."""
        starts: dict[str, tuple[int, float | None]] = {}
        for found in containers:
            start = self._starts.get(found.container.id)
            if start is None or start[0] != found.inode or start[1] is None:
                start = found.inode, self._read_start(found.directory, unix_seconds)
            starts[found.container.id] = start
        self._starts = starts
        return {name: started_at for name, (_, started_at) in starts.items() if started_at is not None}

    def _read_start(self, directory: str, unix_seconds: float) -> float | None:
        uptime = (read_file(f"{self._proc}/uptime") or b"").split()
        visible = islice(filter(None, processes_of(directory)), _MAX_PROCESSES)
        stats = (parse_start_ticks(read_file(f"{self._proc}/{pid}/stat")) for pid in visible)
        ticks = [each for each in stats if each is not None]
        if not uptime or not ticks:
            return None
        try:
            age_seconds = float(uptime[0]) - min(ticks) / self._ticks_per_second
        except ValueError:
            return None
        return round(unix_seconds - max(0.0, age_seconds), 2) if isfinite(age_seconds) else None


def parse_start_ticks(stat: bytes | None) -> int | None:
    """The start of a process in clock ticks since boot, from `/proc/<pid>/stat`."""
    fields = (stat or b"").rpartition(b")")[2].split()
    return parse_count(fields[_START_FIELD]) if len(fields) > _START_FIELD else None
