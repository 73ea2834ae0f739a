"""What there is left, node by node and resource by resource: the cartography that GenPack packs by."""

from dataclasses import dataclass

import numpy as np

from collector.analysis.histograms import Floats
from collector.snapshot.power_curves import Rows
from collector.snapshot.tables import Snapshot


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Availability:
    """One row per node of a snapshot, one column per resource; NaN is not known."""

    names: tuple[str, ...]
    capacity: Floats
    used: Floats
    allocated: Floats
    """What was promised to its containers."""
    reserved: Floats
    """What their envelopes add up to."""
    free: Floats
    """What envelopes leave of the capacity; never below nothing."""
    score: Floats
    """How much is free in all: 0 is full, 2 is empty. GenPack fills the least available first."""
    order: Rows
    """The rows from the least available on; of equals, the first by name."""


def availability(snapshot: Snapshot) -> Availability:
    """The map of a cluster at one moment."""
    nodes = snapshot.nodes
    free = np.clip(nodes.capacity - nodes.reserved, 0.0, None)
    found = node_score(free, nodes.capacity)
    return Availability(
        names=nodes.names,
        capacity=nodes.capacity,
        used=nodes.used,
        allocated=nodes.allocated,
        reserved=nodes.reserved,
        free=free,
        score=found,
        order=np.argsort(found, kind="stable"),
    )


def node_score(free: Floats, capacity: Floats) -> Floats:
    """The length of the free shares; a resource whose capacity is not known adds nothing."""
    known = capacity > 0
    ratios = np.divide(free, capacity, out=np.zeros_like(free), where=known)
    length: Floats = np.sqrt(np.square(ratios).sum(axis=1))
    return length
