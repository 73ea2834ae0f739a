"""Network bytes of containers, from the network namespaces that they live in.

A namespace counts for everyone in it. A container in the host's own network has no figure of its own,
and where several share one (a pod), the first by id is given all of it and the others none: so the
sum over containers is never more than what there was.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.files import read_file
from agent.links import LOOPBACK, parse_net_dev
from wire.messages import Gap

_FORBIDDEN = Gap(
    "container network",
    "this user may not look into the containers' network namespaces; run as root or with CAP_SYS_PTRACE",
)
_OTHER_PROCESSES = Gap(
    "container network",
    "the containers' processes are not visible from here; share the host's process namespace (pid: host)",
)


@dataclass(frozen=True, slots=True)
class Home:
    """A container's first process and the namespace it is in, as it was found."""

    pid: int
    namespace: str


class _HiddenError(Exception):
    """The processes are there, but out of sight."""


class NetworkReader:
    """Remembers a process for each container, so that a pass reads one link and one file each."""

    def __init__(self, proc: Path) -> None:
        self._proc = str(proc)
        self._homes: dict[str, Home] = {}

    def read(self, directories: Iterable[tuple[str, str]]) -> tuple[dict[str, int], tuple[Gap, ...]]:
        """Bytes by container id; the containers come as `(id, cgroup directory)`, by id.

        A container without an entry has no figure of its own, or none that can be told.
        """
        taken = self._host_namespaces()
        homes: dict[str, Home] = {}
        counted: dict[str, int] = {}
        gaps: dict[Gap, None] = {}
        for identifier, directory in directories:
            try:
                home = self._find_home(identifier, directory)
            except PermissionError:
                gaps[_FORBIDDEN] = None
                continue
            except _HiddenError:
                gaps[_OTHER_PROCESSES] = None
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
        return counted, tuple(gaps)

    def _host_namespaces(self) -> set[str]:
        """The first process's, and our own: a host may be no more than a namespace of a larger one."""
        namespaces = set()
        for process in ("1", "self"):
            try:
                namespaces.add(self._namespace(process))
            except OSError:
                continue
        return namespaces

    def _find_home(self, identifier: str, directory: str) -> Home | None:
        """Where the container lives; None where it has gone or has no process.

        What is remembered holds only while that process is still there, in the same namespace: a
        restarted container has a new one, and the old process id may belong to a stranger.
        """
        known = self._homes.get(identifier)
        if known is not None:
            try:
                if self._namespace(str(known.pid)) == known.namespace:
                    return known
            except OSError:
                pass
        pid = first_process(directory)
        if pid is None:
            return None
        try:
            return Home(pid, self._namespace(str(pid)))
        except PermissionError:
            raise
        except OSError:
            return None

    def _namespace(self, process: str) -> str:
        # As a string, since a Path for each container would take longer than the call.
        return os.readlink(f"{self._proc}/{process}/ns/net")  # noqa: PTH115 - see above


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
