"""The efficiency by which nodes get their generations."""

from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Floats
from collector.snapshot.parts import SnapshotPart
from collector.snapshot.tables import Snapshot


@dataclass(frozen=True, eq=False)
class SettledEfficiency(SnapshotPart):
    """More columns of `Nodes`."""

    watts_per_core: Floats
    """The power per core at full load; infinite if it is unknown.

    It follows large changes only: learned power curves always change a little, and a node whose generation
    changes sends its containers away.
    """


PARTS = (SettledEfficiency,)


def watts_per_core(snapshot: Snapshot) -> Floats:
    """Return the present power per core of each node at full load; infinite without a power curve."""
    nodes = snapshot.nodes
    with np.errstate(divide="ignore", invalid="ignore"):
        watts = nodes.power.watts(np.ones_like(nodes.capacity)) / nodes.capacity[:, 0]
    return np.where(np.isnan(watts), np.inf, watts)
