"""When containers started, by the kernel: the start of the oldest process in their cgroup.

The engine's list has no start times. A process of a container cannot be older than the container, and the
first one lives as long as it does. So the time is right for containers that are older than the agent, and for
every runtime.
"""

import os
from collections.abc import Iterable
from math import isfinite
from pathlib import Path

from agent.sources.cgroups.containers import FoundContainer
from agent.sources.files import parse_count, read_file

_MAX_PROCESSES = 64
"""Processes that are read per container: of more, the oldest may be missed, and the time is too late."""
_START_FIELD = 19
"""Of `/proc/<pid>/stat`, counted after the name, which may contain spaces."""


class StartReader:
    """Reads the start of each container once, and again if its cgroup was created again."""

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
        ticks = [
            each for pid in _processes(directory) if (each := parse_start_ticks(self._stat(pid))) is not None
        ]
        if not uptime or not ticks:
            return None
        try:
            age_seconds = float(uptime[0]) - min(ticks) / self._ticks_per_second
        except ValueError:
            return None
        return round(unix_seconds - max(0.0, age_seconds), 2) if isfinite(age_seconds) else None

    def _stat(self, pid: str) -> bytes | None:
        return read_file(f"{self._proc}/{pid}/stat")


def parse_start_ticks(stat: bytes | None) -> int | None:
    """The start of a process in clock ticks since boot, from `/proc/<pid>/stat`."""
    fields = (stat or b"").rpartition(b")")[2].split()
    return parse_count(fields[_START_FIELD]) if len(fields) > _START_FIELD else None


def _processes(directory: str) -> list[str]:
    """Processes of a cgroup and of those below it."""
    found: list[str] = []
    pending = [directory]
    while pending and len(found) < _MAX_PROCESSES:
        here = pending.pop()
        pids = (read_file(f"{here}/cgroup.procs") or b"").split()
        # Processes of another namespace are listed as 0.
        found += [pid.decode() for pid in pids if pid.isdigit() and pid != b"0"]
        try:
            with os.scandir(here) as entries:
                pending.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue
    return found[:_MAX_PROCESSES]
