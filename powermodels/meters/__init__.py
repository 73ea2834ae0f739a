"""Meters: what a host itself can measure.

What comes in: the root of /sys. What goes out: a `Meter` per kind that is there, the best first, and a
`Gap` with the reason for each that is not. A kind is one module here and one line in `METERS`.

The best is the one that sees most of the machine; of two that see alike, the one with the smaller error.
A meter of the whole machine comes before RAPL, though RAPL is quicker and finer: what it leaves out (board,
disks, fans, power supply) is up to half of a server's power and more.
"""

from collections.abc import Callable
from pathlib import Path

from powermodels.common.interface import Meter, Scope
from powermodels.meters.acpi import find_acpi
from powermodels.meters.battery import find_battery
from powermodels.meters.hwmon import find_hwmon
from powermodels.meters.ipmi import find_ipmi
from powermodels.meters.rapl import find_rapl
from wire.messages import Gap

# Of two with equal scope and error the first comes first.
METERS: tuple[Callable[[Path, str | None], Meter | Gap], ...] = (
    find_rapl,
    find_acpi,
    find_hwmon,
    find_battery,
    find_ipmi,
)

_BY_SCOPE = tuple(Scope)


def find_meters(sys: Path, hypervisor: str | None = None) -> tuple[list[Meter], list[Gap]]:
    """The meters under a root, the best first; a hypervisor's name explains why a guest has none."""
    meters: list[Meter] = []
    gaps: list[Gap] = []
    for find in METERS:
        found = find(sys, hypervisor)
        if isinstance(found, Gap):
            gaps.append(found)
        else:
            meters.append(found)
    meters.sort(key=lambda meter: (_BY_SCOPE.index(meter.scope), meter.error_ratio))
    return meters, gaps
