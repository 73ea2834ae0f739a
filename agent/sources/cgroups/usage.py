"""A cgroup's counters and limits, each out of the hierarchy that has it."""

import zlib
from collections.abc import Iterable, Mapping
from typing import Generic

from agent.sources.cgroups import v1, v2
from agent.sources.cgroups.layout import Layout
from agent.sources.cgroups.limits import LimitsReader
from agent.sources.cgroups.source import Source, Value, file
from agent.sources.files import parse_count, parse_totals
from agent.sources.open_files import OpenFile, OpenFileBudget
from agent.sources.readings import NO_LIMITS, CgroupReading

LIMITS_KEPT_SECONDS = 30.0
"""Limits change by hand, if at all: reading half a dozen more files in every pass would tell little."""

_PIDS = Source((file("pids", "pids.current"),), parse_count)
_PRESSURE = Source(
    tuple(file("pressure", f"{resource}.pressure") for resource in ("cpu", "memory", "io")),
    parse_totals,
)


class UsageReader:
    """Reads cgroups by their path, in one pass after the other; keeps what it needs for that per cgroup."""

    def __init__(self, layout: Layout, allowance: OpenFileBudget) -> None:
        self._layout = layout
        self._allowance = allowance
        self._cgroups: dict[str, _Cgroup] = {}

    def read(
        self, path: str, monotonic_seconds: float, limits: LimitsReader, skipped_devices: frozenset[bytes]
    ) -> CgroupReading | None:
        """What the cgroup's files say now; None where it has gone meanwhile."""
        cgroup = self._cgroups.get(path)
        if cgroup is None:
            cgroup = self._cgroups[path] = _Cgroup(self._layout, path, self._allowance)
        return cgroup.read(monotonic_seconds, limits, skipped_devices)

    def keep_only(self, paths: Iterable[str]) -> None:
        """Forget all other cgroups, and close their files."""
        for path in self._cgroups.keys() - set(paths):
            del self._cgroups[path]


class _Cgroup:
    """One cgroup: its files, and its limits as they were when last looked at."""

    def __init__(self, layout: Layout, path: str, allowance: OpenFileBudget) -> None:
        def kept(controller: str, first: Source[Value], second: Source[Value]) -> _OpenSource[Value]:
            """A source by its files in version 1 if that has the controller, else in version 2."""
            if controller in layout.v1:
                return _OpenSource(first, layout.v1, path, allowance)
            return _OpenSource(second, layout.in_v2, path, allowance)

        self._path = path
        self._cpu = kept("cpuacct", v1.CPU, v2.CPU)
        self._memory = kept("memory", v1.MEMORY, v2.MEMORY)
        self._disk = kept("blkio", v1.DISK, v2.DISK)
        self._pids = kept("pids", _PIDS, _PIDS)
        self._pressure = kept("pressure", _PRESSURE, _PRESSURE)
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
        # From the second time on they come at different times, so that no pass has all of the work.
        share = zlib.crc32(self._path.encode(errors="surrogateescape")) / 2**32 if first_time else 1.0
        self._limits_due_at = monotonic_seconds + share * LIMITS_KEPT_SECONDS


class _OpenSource(Generic[Value]):
    """A source's files in one cgroup."""

    __slots__ = ("_files", "_parse")

    def __init__(
        self, source: Source[Value], directories: Mapping[str, str], path: str, allowance: OpenFileBudget
    ) -> None:
        self._parse = source.parse
        self._files = tuple(
            OpenFile(allowance, *(f"{directory}/{path}/{name}" for name in part.names))
            if (directory := directories.get(part.controller)) is not None
            else OpenFile(allowance)
            for part in source.files
        )

    def read(self, *more: object) -> Value:
        return self._parse(*[kept.read() for kept in self._files], *more)
