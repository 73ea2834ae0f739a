"""What the host can do: told by the settings or the hardware, or learned as the most that was ever seen.

Nothing says how fast a disk is, and links of virtual machines do not know their speed. Such a capacity
is learned: it is what an old disk or a common link can do until more than that is seen, and then the
most that was seen. It never shrinks, and it is marked as learned wherever it is said. So the first byte
after a quiet start is not a full disk, and a ratio can only be too low by as much as the hardware is
slower than the floor; the disk's busy ratio does not depend on it.
"""

from dataclasses import replace

from agent.sampling.rates import HostRates
from wire.resources import Quantities, Resource

DISK_FLOOR_BYTES_PER_SECOND = 100e6
"""What a single hard disk can stream."""
NETWORK_FLOOR_BYTES_PER_SECOND = 125e6
"""A gigabit per second."""


class Capacities:
    """Completes samples with the capacities that the kernel does not tell. A setting of 0 is not set."""

    def __init__(self, disk_bytes_per_second: float = 0.0, network_bytes_per_second: float = 0.0) -> None:
        self._disk = _Capacity(disk_bytes_per_second, DISK_FLOOR_BYTES_PER_SECOND)
        self._network = _Capacity(network_bytes_per_second, NETWORK_FLOOR_BYTES_PER_SECOND)

    def complete(self, rates: HostRates) -> HostRates:
        """The sample with a capacity for every resource whose use was ever seen."""
        used, told = rates.used, rates.capacity
        disk, disk_learned = self._disk.learn(used.disk_bytes_per_second, told.disk_bytes_per_second)
        network, network_learned = self._network.learn(
            used.network_bytes_per_second, told.network_bytes_per_second
        )
        learned = ((Resource.DISK, disk_learned), (Resource.NETWORK, network_learned))
        return replace(
            rates,
            capacity=Quantities(told.cpu_cores, told.memory_bytes, disk, network),
            learned_capacities=tuple(resource for resource, is_learned in learned if is_learned),
        )


class _Capacity:
    """One resource's."""

    def __init__(self, configured: float, floor: float) -> None:
        self._configured = configured
        self._floor = floor
        self._most: float | None = None

    def learn(self, used: float | None, told: float | None) -> tuple[float | None, bool]:
        """The capacity as of now, and whether it is a learned one; None while no use was seen."""
        if used is not None:
            self._most = max(self._most or self._floor, used)
        known = self._configured or told
        return (known, False) if known else (self._most, self._most is not None)
