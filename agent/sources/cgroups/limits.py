"""The effective limits of a cgroup: its own and those of its ancestors."""

from agent.sources.cgroups import v1, v2
from agent.sources.cgroups.layout import Layout
from agent.sources.files import parse_count, read_file
from agent.sources.readings import NO_LIMITS, Limits, lowest_limit


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


class LimitsReader:
    """Reads limits for one pass; caches those of parent cgroups, which many containers share."""

    def __init__(self, layout: Layout, machine_cores: float | None) -> None:
        self._layout = layout
        self._machine_cores = machine_cores
        self._above: dict[str, Limits] = {}

    def read(self, path: str) -> Limits:
        """The lowest limits up to the root; inside a container, the root has limits as well."""
        limits = self._own(path).within(self._outer(path))
        cores = self._cpuset_cores(path)
        if cores is None or (self._machine_cores is not None and cores >= self._machine_cores):
            return limits
        return Limits(lowest_limit(limits.cpu_cores, float(cores)), limits.memory_bytes)

    def read_cpu_weight(self, path: str) -> float | None:
        """CPU weight relative to the default of 1."""
        if "cpu" in self._layout.v1:
            return v1.parse_cpu_weight(self._read_v1("cpu", path, "cpu.shares"))
        return v2.parse_cpu_weight(self._read_v2("cpu", path, "cpu.weight"))

    def _outer(self, path: str) -> Limits:
        if not path:
            return NO_LIMITS
        parent = path.rpartition("/")[0]
        limits = self._above.get(parent)
        if limits is None:
            limits = self._above[parent] = self._own(parent).within(self._outer(parent))
        return limits

    def _own(self, path: str) -> Limits:
        if "memory" in self._layout.v1:
            # The kernel already includes the limits of all ancestors.
            memory = v1.parse_memory_limit_bytes(self._read_v1("memory", path, "memory.stat"))
        else:
            memory = parse_count(self._read_v2("memory", path, "memory.max"))
        return Limits(self._quota_cores(path), memory)

    def _quota_cores(self, path: str) -> float | None:
        if "cpu" not in self._layout.v1:
            return v2.parse_quota_cores(self._read_v2("cpu", path, "cpu.max"))
        quota = self._read_v1("cpu", path, "cpu.cfs_quota_us")
        if quota is None or quota.startswith(b"-"):
            return None
        return v1.parse_quota_cores(quota, self._read_v1("cpu", path, "cpu.cfs_period_us"))

    def _cpuset_cores(self, path: str) -> int | None:
        """Number of cores of the cgroup; always a subset of its parent's."""
        if "cpuset" in self._layout.v1:
            return parse_cpuset_cores(self._read_v1("cpuset", path, "cpuset.cpus"))
        return parse_cpuset_cores(self._read_v2("cpuset", path, "cpuset.cpus.effective"))

    def _read_v1(self, controller: str, path: str, name: str) -> bytes | None:
        return read_file(f"{self._layout.v1[controller]}/{path}/{name}")

    def _read_v2(self, controller: str, path: str, name: str) -> bytes | None:
        if controller not in self._layout.v2_controllers:
            return None
        return read_file(f"{self._layout.v2}/{path}/{name}")
