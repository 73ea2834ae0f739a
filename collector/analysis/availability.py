"""Free resources of each node: the map that GenPack packs by."""

from dataclasses import dataclass, field

import numpy as np

from collector.common.arrays import Floats
from collector.snapshot.tables import Snapshot
from wire.resources import RESOURCES


def _no_rows() -> Floats:
    return np.empty((0, len(RESOURCES)))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Availability:
    """One row per node of a snapshot, one column per resource; NaN is unknown."""

    names: tuple[str, ...] = ()
    capacity: Floats = field(default_factory=_no_rows)
    used: Floats = field(default_factory=_no_rows)
    allocated: Floats = field(default_factory=_no_rows)
    """The sum of the reservations of its containers."""
    envelope_sum: Floats = field(default_factory=_no_rows)
    """The sum of the envelopes of its containers."""
    free: Floats = field(default_factory=_no_rows)
    """The capacity less `envelope_sum`, at least 0."""
    score: Floats = field(default_factory=lambda: np.empty(0))
    """Free resources in one number: 0 is full, 2 is empty. GenPack fills the least available node first."""


def availability(snapshot: Snapshot) -> Availability:
    """The free resources of a cluster at one moment."""
    nodes = snapshot.nodes
    free = np.clip(nodes.capacity - nodes.envelope_sum, 0.0, None)
    score = node_score(free, nodes.capacity)
    return Availability(
        names=nodes.names,
        capacity=nodes.capacity,
        used=nodes.used,
        allocated=nodes.allocated,
        envelope_sum=nodes.envelope_sum,
        free=free,
        score=score,
    )


def node_score(free: Floats, capacity: Floats) -> Floats:
    """The Euclidean length of the free ratios; a resource of unknown capacity adds 0."""
    known = capacity > 0
    ratios = np.divide(free, capacity, out=np.zeros_like(free), where=known)
    length: Floats = np.sqrt(np.square(ratios).sum(axis=1))
    return length
