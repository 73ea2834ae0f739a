"""Counters and limits of a cgroup, each from the hierarchy that has it."""

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from agent.sources.cgroups import v1, v2
from agent.sources.cgroups.layout import Layout
from agent.sources.files import OpenFile, OpenFileBudget, parse_pressure, read_file
from agent.sources.readings import NO_LIMITS, CgroupReading, Limits, lowest_limit
from wire.text import parse_count

LIMITS_KEPT_SECONDS = 30.0
"""How long limits are cached: they change seldom, and take half a dozen files to read."""

Value = TypeVar("Value")


# --- Sources ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Source(Generic[Value]):
    """Files of a cgroup, and the function that parses their contents; a file that is missing is None."""

    parse: Callable[..., Value]
    files: tuple[tuple[str, ...], ...]
    """Of each: its controller, then its names on newer and older kernels."""


_PIDS = _Source(parse_count, (("pids", "pids.current"),))
_PRESSURE = _Source(
    parse_pressure, tuple(("pressure", f"{resource}.pressure") for resource in ("cpu", "memory", "io"))
)
_CPU_V1 = _Source(
    v1.parse_cpu, (("cpuacct", "cpuacct.usage"), ("cpuacct", "cpuacct.stat"), ("cpu", "cpu.stat"))
)
_CPU_V2 = _Source(v2.parse_cpu, (("cpu", "cpu.stat"),))
_MEMORY_V1 = _Source(
    v1.parse_memory,
    tuple(("memory", f"memory.{name}") for name in ("usage_in_bytes", "stat", "oom_control")),
)
_MEMORY_V2 = _Source(
    v2.parse_memory,
    tuple(("memory", f"memory.{name}") for name in ("current", "stat", "swap.current", "events")),
)
_DISK_V1 = _Source(
    v1.parse_disk,
    # Older kernels have only the files without `_recursive`, which exclude nested cgroups.
    tuple(
        ("blkio", f"blkio.throttle.{name}_recursive", f"blkio.throttle.{name}")
        for name in ("io_service_bytes", "io_serviced")
    ),
)
_DISK_V2 = _Source(v2.parse_disk, (("io", "io.stat"),))


def _read_source(parse: Callable[..., Value], files: tuple[OpenFile, ...], *more: object) -> Value:
    return parse(*[each.read() for each in files], *more)


# --- Counters -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UsageReader:
    """Reads cgroups by path; keeps their files open between passes."""

    layout: Layout
    budget: OpenFileBudget
    _cgroups: dict[str, "_Cgroup"] = field(default_factory=dict)

    def read(
        self, path: str, monotonic_seconds: float, limits: "LimitsReader", skipped_devices: frozenset[bytes]
    ) -> CgroupReading | None:
        """Read a cgroup; None if it no longer exists."""
        cgroup = self._cgroups.get(path)
        if cgroup is None:
            cgroup = self._cgroups[path] = _Cgroup(self.layout, path, self.budget)
        return cgroup.read(monotonic_seconds, limits, skipped_devices)

    def keep_only(self, paths: Iterable[str]) -> None:
        """Drop all other cgroups, and close their files."""
        for path in self._cgroups.keys() - set(paths):
            del self._cgroups[path]


class _Cgroup:
    """One cgroup: its open files and its cached limits."""

    def __init__(self, layout: Layout, path: str, budget: OpenFileBudget) -> None:
        def open_source(
            controller: str, in_v1: _Source[Value], in_v2: _Source[Value]
        ) -> Callable[..., Value]:
            """A source in version 1 if that has the controller, else in version 2."""
            source = in_v1 if controller in layout.v1 else in_v2
            directories: Mapping[str, str] = layout.v1 if controller in layout.v1 else layout.in_v2
            files = tuple(
                OpenFile(budget, *(f"{directories[of]}/{path}/{name}" for name in names if of in directories))
                for of, *names in source.files
            )
            return partial(_read_source, source.parse, files)

        self._path = path
        self._cpu = open_source("cpuacct", _CPU_V1, _CPU_V2)
        self._memory = open_source("memory", _MEMORY_V1, _MEMORY_V2)
        self._disk = open_source("blkio", _DISK_V1, _DISK_V2)
        self._pids = open_source("pids", _PIDS, _PIDS)
        self._pressure = open_source("pressure", _PRESSURE, _PRESSURE)
        self._limits = NO_LIMITS
        self._cpu_weight: float | None = None
        self._limits_due_at = float("-inf")

    def read(
        self, monotonic_seconds: float, limits: "LimitsReader", skipped_devices: frozenset[bytes]
    ) -> CgroupReading | None:
        cpu = self._cpu()
        if cpu is None:
            return None
        if monotonic_seconds >= self._limits_due_at:
            self._read_limits(monotonic_seconds, limits)
        return CgroupReading(
            cpu=cpu,
            memory=self._memory(),
            disk=self._disk(skipped_devices),
            pids=self._pids(),
            pressure=self._pressure(),
            limits=self._limits,
            cpu_weight=self._cpu_weight,
        )

    def _read_limits(self, monotonic_seconds: float, limits: "LimitsReader") -> None:
        self._limits = limits.read(self._path)
        self._cpu_weight = limits.read_cpu_weight(self._path)
        first_time = self._limits_due_at < 0
        # After the first time, limits are read at different times, so that no pass reads all of them.
        share = zlib.crc32(self._path.encode(errors="surrogateescape")) / 2**32 if first_time else 1.0
        self._limits_due_at = monotonic_seconds + share * LIMITS_KEPT_SECONDS


# --- Limits -------------------------------------------------------------------------------------


def parse_cpuset_cores(text: bytes | None) -> int | None:
    """Number of cores in a list such as `0-3,8`; None for an empty or invalid list."""
    cores = 0
    for part in (text or b"").strip().split(b","):
        first, _, last = part.partition(b"-")
        low, high = parse_count(first), parse_count(last or first)
        if low is None or high is None or high < low:
            return None
        cores += high - low + 1
    return cores or None


@dataclass(frozen=True, slots=True)
class LimitsReader:
    """Reads the effective limits of cgroups, their own and those of their ancestors, for one pass.

    Those of parent cgroups are cached, since many containers share them.
    """

    layout: Layout
    machine_cores: float | None
    _above: dict[str, Limits] = field(default_factory=dict)

    def read(self, path: str) -> Limits:
        """The lowest limits up to the root; inside a container, the root has limits as well."""
        limits = self._own(path).within(self._outer(path))
        cores = self._cpuset_cores(path)
        if cores is None or (self.machine_cores is not None and cores >= self.machine_cores):
            return limits
        return Limits(lowest_limit(limits.cpu_cores, float(cores)), limits.memory_bytes)

    def read_cpu_weight(self, path: str) -> float | None:
        if "cpu" in self.layout.v1:
            weight, default = self._read_v1("cpu", path, "cpu.shares"), 1024
        else:
            weight, default = self._read_v2("cpu", path, "cpu.weight"), 100
        count = parse_count(weight)
        return None if count is None else count / default

    def _outer(self, path: str) -> Limits:
        if not path:
            return NO_LIMITS
        parent = path.rpartition("/")[0]
        limits = self._above.get(parent)
        if limits is None:
            limits = self._above[parent] = self._own(parent).within(self._outer(parent))
        return limits

    def _own(self, path: str) -> Limits:
        if "memory" in self.layout.v1:
            # The kernel already includes the limits of all ancestors.
            memory = v1.parse_memory_limit_bytes(self._read_v1("memory", path, "memory.stat"))
        else:
            memory = parse_count(self._read_v2("memory", path, "memory.max"))
        return Limits(self._quota_cores(path), memory)

    def _quota_cores(self, path: str) -> float | None:
        if "cpu" not in self.layout.v1:
            return v2.parse_quota_cores(self._read_v2("cpu", path, "cpu.max"))
        quota = self._read_v1("cpu", path, "cpu.cfs_quota_us")
        if quota is None or quota.startswith(b"-"):
            return None
        return v1.parse_quota_cores(quota, self._read_v1("cpu", path, "cpu.cfs_period_us"))

    def _cpuset_cores(self, path: str) -> int | None:
        """Number of cores of the cgroup; always a subset of its parent's."""
        if "cpuset" in self.layout.v1:
            return parse_cpuset_cores(self._read_v1("cpuset", path, "cpuset.cpus"))
        return parse_cpuset_cores(self._read_v2("cpuset", path, "cpuset.cpus.effective"))

    def _read_v1(self, controller: str, path: str, name: str) -> bytes | None:
        return read_file(f"{self.layout.v1[controller]}/{path}/{name}")

    def _read_v2(self, controller: str, path: str, name: str) -> bytes | None:
        if controller not in self.layout.v2_controllers:
            return None
        return read_file(f"{self.layout.v2}/{path}/{name}")
