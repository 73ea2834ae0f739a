"""Converts ratios from one capacity to another: a model needs those that it was fitted with. Pure."""

from dataclasses import replace

import msgspec

from powermodels.common.interface import Load
from wire.resources import Quantities

# The capacity of disks and links is unknown in a recording and on a new host. A model then uses these rates,
# and keeps them.
ASSUMED_DISK_BYTES_PER_SECOND = 1e9
ASSUMED_NETWORK_BYTES_PER_SECOND = 2.5e9
ASSUMED = Quantities(
    disk_bytes_per_second=ASSUMED_DISK_BYTES_PER_SECOND,
    network_bytes_per_second=ASSUMED_NETWORK_BYTES_PER_SECOND,
)


def rescaled(load: Load, capacity: Quantities, scaling: Quantities) -> Load:
    """Convert a load from `capacity` to `scaling`; unchanged if either is unknown."""
    return replace(
        load,
        disk_ratio=_by(load.disk_ratio, capacity.disk_bytes_per_second, scaling.disk_bytes_per_second),
        network_ratio=_by(
            load.network_ratio, capacity.network_bytes_per_second, scaling.network_bytes_per_second
        ),
    )


def completed(capacity: Quantities) -> Quantities:
    """Capacities of a host that never change: those it does not report, or learns with time, are assumed."""
    return msgspec.structs.replace(ASSUMED, cpu_cores=capacity.cpu_cores, memory_bytes=capacity.memory_bytes)


def _by(ratio: float | None, old: float | None, new: float | None) -> float | None:
    return ratio if ratio is None or old is None or not new else ratio * old / new
