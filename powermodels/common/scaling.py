"""Ratios of one capacity as ratios of another: a model goes by the capacities it was fitted with. Pure."""

from dataclasses import replace

from powermodels.common.interface import Load
from wire.resources import Quantities

# A recording, or a new host, does not tell what its disks and links can do. A model takes its watts at these
# rates then, and means the same by them for ever.
ASSUMED = Quantities(disk_bytes_per_second=1e9, network_bytes_per_second=2.5e9)


def rescaled(load: Load, capacity: Quantities, scaling: Quantities) -> Load:
    """A load given by `capacity`, by `scaling`; the same where either does not say."""
    return replace(
        load,
        disk_ratio=_by(load.disk_ratio, capacity.disk_bytes_per_second, scaling.disk_bytes_per_second),
        network_ratio=_by(
            load.network_ratio, capacity.network_bytes_per_second, scaling.network_bytes_per_second
        ),
    )


def completed(capacity: Quantities) -> Quantities:
    """A host's capacities for good: what it does not tell, or only learns with time, is assumed."""
    return Quantities(
        capacity.cpu_cores,
        capacity.memory_bytes,
        ASSUMED.disk_bytes_per_second,
        ASSUMED.network_bytes_per_second,
    )


def _by(ratio: float | None, old: float | None, new: float | None) -> float | None:
    return ratio if ratio is None or old is None or not new else ratio * old / new
