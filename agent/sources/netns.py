"""Network bytes of containers, from the network namespaces that they live in.

A namespace counts for everyone in it. A container in the host's own network has no figure of its own,
and where several share one (a pod), the first by id is given all of it and the others none: so the
sum over containers is never more than what there was.

Namespaces are told apart by the inode of `/proc/<pid>/net/dev`: each has a file of its own, which anyone
may look at, while the link at `/proc/<pid>/ns/net` is for the owner of the process only.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.sources.files import read_file
from agent.sources.interfaces import LOOPBACK, parse_net_dev
from wire.messages import Gap

_HIDDEN = Gap(
    "container network",
    "the containers' processes are not visible from here; share the host's process namespace (pid: host),"
    " or mount /proc without hidepid",
)


@dataclass(frozen=True, slots=True)
class NamespaceRef:
    """A container's first process and the namespace it is in, as it was found."""

    pid: int
    namespace: int


@dataclass(frozen=True, slots=True)
class NetworkPass:
    """What one look at all containers gave."""

    bytes_by_id: Mapping[str, int] = field(default_factory=dict)
    """A container without an entry has no figure of its own, or none that can be told."""
    gaps: tuple[Gap, ...] = ()


class _HiddenError(Exception):
    """The processes are there, but out of sight."""


class NetworkReader:
    """Remembers a process for each container, so that a pass looks at one file each."""

    def __init__(self, proc: Path) -> None:
        self._proc = str(proc)
        self._homes: dict[str, NamespaceRef] = {}

    def read(self, directories: Iterable[tuple[str, str]]) -> NetworkPass:
        """Bytes by container id; the containers come as `(id, cgroup directory)`, by id."""
        taken = {namespace_of(self._proc, process) for process in ("1", "self")}
        homes: dict[str, NamespaceRef] = {}
        counted: dict[str, int] = {}
        gaps: tuple[Gap, ...] = ()
        for identifier, directory in directories:
            try:
                home = self._find_home(identifier, directory)
            except _HiddenError:
                gaps = (_HIDDEN,)
                continue
            if home is None:
                continue
            homes[identifier] = home
            if home.namespace in taken:
                continue
            text = read_file(f"{self._proc}/{home.pid}/net/dev")
            if text is not None:
                taken.add(home.namespace)
                counted[identifier] = sum(
                    count for name, count in parse_net_dev(text).items() if name != LOOPBACK
                )
        self._homes = homes
        return NetworkPass(counted, gaps)

    def _find_home(self, identifier: str, directory: str) -> NamespaceRef | None:
        """Where the container lives; None where it has gone or has no process.

        What is remembered holds only while that process is still there, in the same namespace: a
        restarted container has a new one, and the old process id may belong to a stranger.
        """
        known = self._homes.get(identifier)
        if known is not None and namespace_of(self._proc, str(known.pid)) == known.namespace:
            return known
        pid = first_process(directory)
        if pid is None:
            return None
        namespace = namespace_of(self._proc, str(pid))
        if namespace is None:
            if namespace_of(self._proc, "1") is None:
                raise _HiddenError
            return None  # it ended meanwhile
        return NamespaceRef(pid, namespace)


def namespace_of(proc: str, process: str) -> int | None:
    """What tells a process's network namespace from all others; None where it cannot be seen."""
    try:
        # As a string, since a Path for each container would take longer than the call.
        return os.stat(f"{proc}/{process}/net/dev").st_ino  # noqa: PTH116 - see above
    except OSError:
        return None


def first_process(directory: str) -> int | None:
    """A process of the cgroup or of one below it: version 2 keeps processes in the leaves only."""
    waiting = [directory]
    while waiting:
        here = waiting.pop()
        pids = (read_file(f"{here}/cgroup.procs") or b"").split(maxsplit=1)
        if pids and pids[0] == b"0":
            raise _HiddenError
        if pids and pids[0].isdigit():
            return int(pids[0])
        try:
            with os.scandir(here) as entries:
                waiting.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue
    return None
