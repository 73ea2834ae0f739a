"""The power meters of a host.

Input: the root of /sys. Output: a `Meter` for each kind that is available, the preferred one first, and a
`Gap` with the reason for each that is not. A new kind is one module here and one line in `METERS`;
`sensors` is the meter of all that read files of the kernel.

A meter with a larger scope is preferred, then one with a smaller error. A meter of the whole machine comes
before RAPL, although RAPL is faster and finer: board, disks, fans and power supply are half of a server's
power or more.
"""

from collections.abc import Callable
from pathlib import Path

from powermodels.common.interface import Meter
from powermodels.meters.battery import find_battery
from powermodels.meters.hwmon import find_acpi, find_hwmon
from powermodels.meters.ipmi import find_ipmi
from powermodels.meters.rapl import PYRAPL, find_pyrapl, find_rapl
from wire.messages import Gap

__all__ = ["METERS", "PYRAPL", "find_meters"]

# With equal scope and error, the first one is preferred.
METERS: tuple[Callable[[Path, str | None], Meter | Gap], ...] = (
    find_rapl,
    find_acpi,
    find_hwmon,
    find_battery,
    find_ipmi,
)


def find_meters(
    sys: Path, hypervisor: str | None = None, *, pyrapl: bool = False
) -> tuple[list[Meter], list[Gap]]:
    """Find the meters below a root, the preferred one first; `hypervisor` explains why a guest has none.

    With `pyrapl`, RAPL is read through pyRAPL instead of the kernel's files.
    """
    meters: list[Meter] = []
    gaps: list[Gap] = []
    for find in (find_pyrapl if pyrapl and each is find_rapl else each for each in METERS):
        found = find(sys, hypervisor)
        if isinstance(found, Gap):
            gaps.append(found)
        else:
            meters.append(found)
    meters.sort(key=lambda meter: (meter.scope.rank, meter.error_ratio))
    return meters, gaps
