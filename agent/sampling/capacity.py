"""Capacities of the host: from settings or hardware, or learned as the highest usage observed.

Disks do not report their throughput, and links of virtual machines do not report their speed. Such a capacity
is learned: it starts at the throughput of an old disk or a common link and rises to the highest usage
observed. It never shrinks, and it is marked as learned. So the first byte after the start is not a full disk,
and a ratio is too low only if the hardware is slower than that start value. The disk's busy ratio does not
depend on it.
"""

from msgspec.structs import replace

from agent.sampling.rates import HostRates
from wire.resources import Quantities, Resource

DISK_FLOOR_BYTES_PER_SECOND = 100e6
"""Sequential throughput of a single hard disk."""
NETWORK_FLOOR_BYTES_PER_SECOND = 125e6
"""A gigabit per second."""


class Capacities:
    """Adds the capacities that the kernel does not report. A setting of 0 is unset."""

    def __init__(self, disk_bytes_per_second: float = 0.0, network_bytes_per_second: float = 0.0) -> None:
        self._disk = _Capacity(disk_bytes_per_second, DISK_FLOOR_BYTES_PER_SECOND)
        self._network = _Capacity(network_bytes_per_second, NETWORK_FLOOR_BYTES_PER_SECOND)

    def complete(self, rates: HostRates) -> HostRates:
        """The same rates with a capacity for each resource whose usage was observed."""
        used, declared = rates.used, rates.capacity
        disk, disk_learned = self._disk.learn(used.disk_bytes_per_second, declared.disk_bytes_per_second)
        network, network_learned = self._network.learn(
            used.network_bytes_per_second, declared.network_bytes_per_second
        )
        learned = ((Resource.DISK, disk_learned), (Resource.NETWORK, network_learned))
        return replace(
            rates,
            capacity=Quantities(declared.cpu_cores, declared.memory_bytes, disk, network),
            learned_capacities=tuple(resource for resource, is_learned in learned if is_learned),
        )


class _Capacity:
    """Capacity of one resource."""

    def __init__(self, configured: float, floor: float) -> None:
        self._configured = configured
        self._floor = floor
        self._most: float | None = None

    def learn(self, used: float | None, declared: float | None) -> tuple[float | None, bool]:
        """The current capacity, and whether it is learned; None before any usage was observed."""
        if used is not None:
            self._most = max(self._most or self._floor, used)
        fixed = self._configured or declared
        return (fixed, False) if fixed else (self._most, self._most is not None)
