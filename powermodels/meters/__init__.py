"""Meters: what a host itself can measure.

What comes in: the root of /sys. What goes out: a `Meter` per kind that is there, the best first, and a
`Gap` with the reason for each that is not. A kind is one module here and one line in `METERS`.
"""

from collections.abc import Callable
from pathlib import Path

from powermodels.interface import Meter
from powermodels.meters.rapl import find_rapl
from wire.messages import Gap

# From the best to the last: the first that answers gives the node's watts.
METERS: tuple[Callable[[Path, str | None], Meter | Gap], ...] = (find_rapl,)


def find_meters(sys: Path, hypervisor: str | None = None) -> tuple[list[Meter], list[Gap]]:
    """The meters under a root; a hypervisor's name explains why a guest has none."""
    meters: list[Meter] = []
    gaps: list[Gap] = []
    for find in METERS:
        found = find(sys, hypervisor)
        if isinstance(found, Gap):
            gaps.append(found)
        else:
            meters.append(found)
    return meters, gaps
