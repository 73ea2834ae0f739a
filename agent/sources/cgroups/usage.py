"""Counters and limits of a cgroup, each from the hierarchy that has it."""

import zlib
from collections.abc import Iterable, Mapping
from typing import Generic

from agent.sources.cgroups import v1, v2
from agent.sources.cgroups.layout import Layout
from agent.sources.cgroups.limits import LimitsReader
from agent.sources.cgroups.source import Source, Value, file
from agent.sources.files import parse_count, parse_pressure
from agent.sources.open_files import OpenFile, OpenFileBudget
from agent.sources.readings import NO_LIMITS, CgroupReading

LIMITS_KEPT_SECONDS = 30.0
"""How long limits are cached: they change seldom, and take half a dozen files to read."""

_PIDS = Source((file("pids", "pids.current"),), parse_count)
_PRESSURE = Source(
    tuple(file("pressure", f"{resource}.pressure") for resource in ("cpu", "memory", "io")),
    parse_pressure,
)


class UsageReader:
    """Reads cgroups by path; keeps their files open between passes."""

    def __init__(self, layout: Layout, budget: OpenFileBudget) -> None:
        self._layout = layout
        self._budget = budget
        self._cgroups: dict[str, _Cgroup] = {}

    def read(
        self, path: str, monotonic_seconds: float, limits: LimitsReader, skipped_devices: frozenset[bytes]
    ) -> CgroupReading | None:
        """Read a cgroup; None if it no longer exists."""
        cgroup = self._cgroups.get(path)
        if cgroup is None:
            cgroup = self._cgroups[path] = _Cgroup(self._layout, path, self._budget)
        return cgroup.read(monotonic_seconds, limits, skipped_devices)

    def keep_only(self, paths: Iterable[str]) -> None:
        """Drop all other cgroups, and close their files."""
        for path in self._cgroups.keys() - set(paths):
            del self._cgroups[path]


class _Cgroup:
    """One cgroup: its open files and its cached limits."""

    def __init__(self, layout: Layout, path: str, budget: OpenFileBudget) -> None:
        def open_source(controller: str, first: Source[Value], second: Source[Value]) -> _OpenSource[Value]:
            """A source in version 1 if that has the controller, else in version 2."""
            if controller in layout.v1:
                return _OpenSource(first, layout.v1, path, budget)
            return _OpenSource(second, layout.in_v2, path, budget)

        self._path = path
        self._cpu = open_source("cpuacct", v1.CPU, v2.CPU)
        self._memory = open_source("memory", v1.MEMORY, v2.MEMORY)
        self._disk = open_source("blkio", v1.DISK, v2.DISK)
        self._pids = open_source("pids", _PIDS, _PIDS)
        self._pressure = open_source("pressure", _PRESSURE, _PRESSURE)
        self._limits = NO_LIMITS
        self._cpu_weight: float | None = None
        self._limits_due_at = float("-inf")

    def read(
        self, monotonic_seconds: float, limits: LimitsReader, skipped_devices: frozenset[bytes]
    ) -> CgroupReading | None:
        cpu = self._cpu.read()
        if cpu is None:
            return None
        if monotonic_seconds >= self._limits_due_at:
            self._read_limits(monotonic_seconds, limits)
        return CgroupReading(
            cpu=cpu,
            memory=self._memory.read(),
            disk=self._disk.read(skipped_devices),
            pids=self._pids.read(),
            pressure=self._pressure.read(),
            limits=self._limits,
            cpu_weight=self._cpu_weight,
        )

    def _read_limits(self, monotonic_seconds: float, limits: LimitsReader) -> None:
        self._limits = limits.read(self._path)
        self._cpu_weight = limits.read_cpu_weight(self._path)
        first_time = self._limits_due_at < 0
        # After the first time, limits are read at different times, so that no pass reads all of them.
        share = zlib.crc32(self._path.encode(errors="surrogateescape")) / 2**32 if first_time else 1.0
        self._limits_due_at = monotonic_seconds + share * LIMITS_KEPT_SECONDS


class _OpenSource(Generic[Value]):
    """The open files of a source in one cgroup."""

    __slots__ = ("_files", "_parse")

    def __init__(
        self, source: Source[Value], directories: Mapping[str, str], path: str, budget: OpenFileBudget
    ) -> None:
        self._parse = source.parse
        self._files = tuple(
            OpenFile(budget, *(f"{directory}/{path}/{name}" for name in part.names))
            if (directory := directories.get(part.controller)) is not None
            else OpenFile(budget)
            for part in source.files
        )

    def read(self, *more: object) -> Value:
        return self._parse(*[each.read() for each in self._files], *more)
