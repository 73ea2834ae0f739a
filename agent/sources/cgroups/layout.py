"""Finds where cgroups are mounted: version 1, version 2, or both.

Hosts with version 1 have one hierarchy per controller, or several controllers in one (`cpu,cpuacct`), and
often an empty version 2 hierarchy as well ("hybrid"). The mount table lists them; if it cannot be read, the
default path is used.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.sources.files import read_file

CONTROLLERS = frozenset({"cpu", "cpuacct", "cpuset", "memory", "blkio", "pids"})
"""Controllers of version 1 that are read."""

_ESCAPED = re.compile(rb"\\([0-7]{3})")
_HIGHEST_BYTE = 0xFF
_FIXED_FIELDS = 5
"""Fields of a mount table line up to and including the mount point."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted cgroup hierarchy, or a part of one, as the mount table lists it."""

    point: str
    root: str
    """The part of the hierarchy that is visible here; `/` is all of it."""
    is_v2: bool
    controllers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Layout:
    """The root directories of the cgroup hierarchies."""

    v1: Mapping[str, str] = field(default_factory=dict)
    """Directory of each version 1 controller; the same for controllers that are mounted together."""
    v2: str | None = None
    v2_controllers: frozenset[str] = frozenset()
    """Controllers of version 2: cpu, cpuset, memory, io, pids."""
    has_pressure: bool = False
    """The kernel measures pressure, in version 2 for each cgroup."""

    @property
    def is_empty(self) -> bool:
        return not self.v1 and self.v2 is None

    @property
    def in_v2(self) -> Mapping[str, str]:
        """Directory of each source that is read from version 2.

        Every cgroup of version 2 has CPU time, even if the controller is not enabled.
        """
        if self.v2 is None:
            return {}
        sources = {"cpu", *self.v2_controllers, *(["pressure"] if self.has_pressure else [])}
        return dict.fromkeys(sources, self.v2)

    @property
    def version(self) -> str:
        if self.is_empty:
            return "no cgroups"
        if not self.v1:
            return "cgroup v2"
        return "cgroup v1" if self.v2 is None else "cgroup v1 (hybrid)"

    @property
    def walk_root(self) -> str | None:
        """The hierarchy to search for containers: the one with their CPU time."""
        for controller in ("cpuacct", "cpu", "memory", "blkio"):
            if controller in self.v1:
                return self.v1[controller]
        return self.v2


def parse_mountinfo(text: bytes) -> tuple[Mount, ...]:
    """The cgroup mounts in `/proc/<pid>/mountinfo`; skips invalid lines."""
    return tuple(mount for line in text.splitlines() if (mount := _parse_mount(line)) is not None)


def _parse_mount(line: bytes) -> Mount | None:
    before, separator, after = line.partition(b" - ")
    fields, kind = before.split(b" "), after.split(b" ")
    if not separator or len(fields) < _FIXED_FIELDS or kind[0] not in {b"cgroup", b"cgroup2"}:
        return None
    options = kind[-1].decode(errors="replace").strip().split(",")
    return Mount(
        point=_unescape(fields[4]),
        root=_unescape(fields[3]),
        is_v2=kind[0] == b"cgroup2",
        controllers=CONTROLLERS.intersection(options),
    )


def _unescape(path: bytes) -> str:
    """Decode blanks and backslashes, which the mount table writes as octal numbers."""
    return os.fsdecode(_ESCAPED.sub(lambda m: bytes([int(m[1], 8) & _HIGHEST_BYTE]), path))


def detect_layout(proc: Path, sys: Path) -> Layout:
    """Find the hierarchies of the host with the proc and sys file systems at these paths."""
    listed = [(_relocate(mount.point, sys), mount) for mount in parse_mountinfo(_mount_table(proc))]
    mounts = [each for each in listed if Path(each[0], "cgroup.procs").exists()]
    mounts = mounts or [(mount.point, mount) for mount in _default_mounts(sys)]
    # Those below `sys` and those of a whole hierarchy come first.
    mounts.sort(key=lambda each: (not Path(each[0]).is_relative_to(sys), each[1].root != "/"))
    v1: dict[str, str] = {}
    v2: str | None = None
    for directory, mount in mounts:
        if mount.is_v2:
            v2 = v2 or directory
        for controller in mount.controllers:
            v1.setdefault(controller, directory)
    listed_v2 = (read_file(f"{v2}/cgroup.controllers") if v2 is not None else None) or b""
    controllers = frozenset(listed_v2.decode(errors="replace").split())
    return Layout(v1, v2, controllers, (proc / "pressure" / "cpu").exists())


def _mount_table(proc: Path) -> bytes:
    for process in ("self", "1"):
        try:
            return (proc / process / "mountinfo").read_bytes()
        except OSError:
            continue
    return b""


def _relocate(point: str, sys: Path) -> str:
    """Translate a path below `/sys` to our mount point, such as `/host/sys`."""
    path = Path(point)
    if not path.is_relative_to(sys) and path.is_relative_to("/sys"):
        return str(sys / path.relative_to("/sys"))
    return point


def _default_mounts(sys: Path) -> Iterator[Mount]:
    base = sys / "fs" / "cgroup"
    if (base / "cgroup.controllers").exists():
        yield Mount(str(base), "/", is_v2=True)
        return
    for directory in sorted(base.iterdir()) if base.is_dir() else ():
        if directory.is_symlink():
            continue  # `cpu` next to `cpu,cpuacct`: the same hierarchy under a second name
        if (directory / "cgroup.controllers").exists():
            yield Mount(str(directory), "/", is_v2=True)
        elif (directory / "cgroup.procs").exists():
            controllers = CONTROLLERS.intersection(directory.name.split(","))
            yield Mount(str(directory), "/", is_v2=False, controllers=controllers)
