"""Network bytes of containers, from their network namespaces.

The counters belong to the namespace. A container with host networking has no value of its own. If several
share a namespace (a pod), the first by ID gets the whole value and the others none, so that the sum is right.

Namespaces are identified by the inode of `/proc/<pid>/net/dev`, which every user may read, unlike
`/proc/<pid>/ns/net`.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.sources.files import read_file
from agent.sources.interfaces import LOOPBACK, LinkTotals, parse_net_dev
from wire.messages import Gap

_HIDDEN = Gap(
    "container network",
    "the processes of containers are not visible; share the host's process namespace (pid: host),"
    " or mount /proc without hidepid",
)


@dataclass(frozen=True, slots=True)
class NamespaceRef:
    """A process of a container, and its network namespace."""

    pid: int
    namespace: int


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
        self._refs: dict[str, NamespaceRef] = {}

    def read(self, directories: Iterable[tuple[str, str]]) -> NetworkPass:
        """Bytes by container id; the containers come as `(id, cgroup directory)`, by id."""
        taken = {namespace_of(self._proc, process) for process in ("1", "self")}
        refs: dict[str, NamespaceRef] = {}
        counted: dict[str, LinkTotals] = {}
        gaps: tuple[Gap, ...] = ()
        for identifier, directory in directories:
            try:
                ref = self._find_namespace(identifier, directory)
            except _HiddenError:
                gaps = (_HIDDEN,)
                continue
            if ref is None:
                continue
            refs[identifier] = ref
            if ref.namespace in taken:
                continue
            text = read_file(f"{self._proc}/{ref.pid}/net/dev")
            if text is not None:
                taken.add(ref.namespace)
                links = [each for name, each in parse_net_dev(text).items() if name != LOOPBACK]
                counted[identifier] = LinkTotals(
                    sum(each.transferred_bytes for each in links), sum(each.sent_bytes for each in links)
                )
        self._refs = refs
        return NetworkPass(counted, gaps)

    def _find_namespace(self, identifier: str, directory: str) -> NamespaceRef | None:
        """The container's namespace; None if it ended or has no process.

        The cached process is valid only while it is in the same namespace: a restarted container has a new
        one, and the old process ID may belong to another program.
        """
        cached = self._refs.get(identifier)
        if cached is not None and namespace_of(self._proc, str(cached.pid)) == cached.namespace:
            return cached
        pid = first_process(directory)
        if pid is None:
            return None
        namespace = namespace_of(self._proc, str(pid))
        if namespace is None:
            if namespace_of(self._proc, "1") is None:
                raise _HiddenError
            return None  # it has ended
        return NamespaceRef(pid, namespace)


def namespace_of(proc: str, process: str) -> int | None:
    """Identifier of a process's network namespace; None if it is not visible."""
    try:
        # A string: creating a Path takes longer than the call.
        return os.stat(f"{proc}/{process}/net/dev").st_ino  # noqa: PTH116 - see above
    except OSError:
        return None


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
