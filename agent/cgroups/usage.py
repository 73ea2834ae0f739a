"""A container's counters out of the hierarchies that have them, and the limits it really has."""

from dataclasses import replace

from agent.cgroups import v1, v2
from agent.cgroups.counters import NO_LIMITS, Counters, Limits
from agent.cgroups.layout import Layout


class UsageReader:
    """Reads cgroups by their path, for one pass over all containers.

    A new one is made for each pass: it remembers the limits of the cgroups above containers, which
    many have in common.
    """

    def __init__(self, layout: Layout, skipped_devices: frozenset[bytes]) -> None:
        self._layout = layout
        self._skipped_devices = skipped_devices
        self._v2_controllers = v2_duties(layout)
        self._outer_limits: dict[str, Limits] = {}

    def read(self, path: str) -> Counters | None:
        """The cgroup's counters with the limits that bind it; None where it has gone meanwhile."""
        counters = Counters()
        if self._layout.v1:
            counters = v1.read_counters(self._layout.v1, path, self._skipped_devices)
        if self._layout.v2 is not None:
            directory = f"{self._layout.v2}/{path}"
            other = v2.read_counters(directory, self._v2_controllers, self._skipped_devices)
            counters = counters.or_else(other) if self._layout.v1 else other
        if counters.cpu_seconds is None:
            return None
        outer = self._limits_above(path)
        return counters if outer == NO_LIMITS else replace(counters, limits=counters.limits.within(outer))

    def _limits_above(self, path: str) -> Limits:
        """The tightest limits on the way up; inside a container, the top of the tree has some as well."""
        if not path:
            return NO_LIMITS
        parent = path.rpartition("/")[0]
        known = self._outer_limits.get(parent)
        if known is None:
            known = self._own_limits(parent).within(self._limits_above(parent))
            self._outer_limits[parent] = known
        return known

    def _own_limits(self, path: str) -> Limits:
        limits = NO_LIMITS
        if self._layout.v1:
            # Memory is left out: version 1 has already told the tightest limit on the way up.
            limits = Limits(cpu_cores=v1.read_cpu_limit_cores(self._layout.v1, path))
        if self._layout.v2 is not None and self._v2_controllers:
            limits = limits.within(v2.read_limits(f"{self._layout.v2}/{path}", self._v2_controllers))
        return limits


def v2_duties(layout: Layout) -> frozenset[str]:
    """What is to be read from version 2: everything that version 1 does not account for.

    CPU time stands in every version 2 cgroup, whether the controller is enabled or not.
    """
    if layout.v2 is None:
        return frozenset()
    cpu = frozenset({"cpu"}) if "cpuacct" not in layout.v1 else frozenset()
    return cpu | (layout.v2_controllers & {"memory", "io"})
