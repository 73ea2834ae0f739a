"""The machines of the demo shop, and how far apart its zones are."""

from dataclasses import dataclass

import msgspec

from powermodels.common.interface import Terms
from powermodels.models.prior import PriorModel
from powermodels.models.wire_curve import power_curve_of
from wire.messages import Gap, PowerCurve, PowerScope, PowerSource
from wire.resources import Quantities

_GIB = 1 << 30
_NO_RAPL = Gap("RAPL", "the CPU's energy counters are not readable: see wattpack power doctor")
ZONES = ("fra", "ams", "vie")
_DELAYS_SECONDS = {("ams", "fra"): 0.0071, ("fra", "vie"): 0.0112, ("ams", "vie"): 0.0174}
_LOCAL_DELAY_SECONDS = 0.0003


def delay_seconds(one: str, other: str) -> float:
    """The round-trip time between two zones."""
    low, high = sorted((one, other))
    return _LOCAL_DELAY_SECONDS if low == high else _DELAYS_SECONDS[low, high]


@dataclass(frozen=True, slots=True)
class Machine:
    """A type of machine."""

    name: str
    cores: int
    memory_gib: int
    idle_watts: float
    full_watts: float
    """Power at full CPU load."""
    source: PowerSource
    error_ratio: float
    source_scope: PowerScope = PowerScope.MACHINE
    link_bytes_per_second: float = 1.25e9
    disk_bytes_per_second: float = 1.6e9
    gaps: tuple[Gap, ...] = ()

    @property
    def capacity(self) -> Quantities:
        return Quantities(
            float(self.cores), self.memory_gib * _GIB, self.disk_bytes_per_second, self.link_bytes_per_second
        )

    @property
    def curve(self) -> PowerCurve:
        """The power curve: between idle and full power, it has the shape of published machines."""
        dynamic = self.full_watts - self.idle_watts
        full = Terms(self.idle_watts, dynamic, 0.06 * dynamic, 0.04 * dynamic, 0.03 * dynamic)
        model = PriorModel(full, self.error_ratio, self.name)
        return msgspec.structs.replace(
            power_curve_of(model), source=self.source, source_scope=self.source_scope
        )


MACHINES = (
    Machine("epyc", 32, 128, 96.0, 310.0, PowerSource.RAPL, 0.08, PowerScope.CPU_AND_MEMORY, 3.125e9),
    Machine("xeon", 16, 64, 78.0, 205.0, PowerSource.MODEL, 0.12, gaps=(_NO_RAPL,)),
    Machine("edge", 8, 32, 21.0, 92.0, PowerSource.PRIOR, 0.35, disk_bytes_per_second=5e8, gaps=(_NO_RAPL,)),
    Machine("db", 24, 192, 118.0, 265.0, PowerSource.IPMI, 0.03, disk_bytes_per_second=2.4e9),
)
MACHINE_ORDER = ("epyc", "xeon", "xeon", "edge", "epyc", "xeon", "edge", "db", "xeon", "edge")
"""Machines are added in this order, again and again."""
