"""Which generation each node belongs to: as configured, or by how efficient it is."""

from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.policies.interface import Stability
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import Codes, Generation, Snapshot

_TWO, _THREE = 2, 3


class GenPackSettings(Stability, frozen=True):
    """What can be chosen of GenPack. Nodes are filled with envelopes to the brim, as in the paper."""

    fill_ratio: Annotated[
        float, Meta(gt=0, le=1, description="Envelopes take no more of any resource of a node.")
    ] = 1.0
    relieve_ratio: Annotated[
        float,
        Meta(gt=0, le=2, description="A node whose envelopes outgrew this share of it is relieved of some."),
    ] = 1.1
    nursery_seconds: Annotated[
        float,
        Meta(ge=0, description="How long a container is profiled in the nursery before it is moved on."),
    ] = 600.0
    young_seconds: Annotated[
        float, Meta(ge=0, description="How long it then lives among the young before it counts as old.")
    ] = 1200.0
    young_share: Annotated[
        float, Meta(ge=0, le=1, description="Of all nodes, where nobody assigned any: those for the young.")
    ] = 4 / 12
    old_share: Annotated[
        float, Meta(ge=0, le=1, description="As for the young; what both leave is the nursery.")
    ] = 3 / 12


def generations(snapshot: Snapshot, settings: GenPackSettings) -> Codes:
    """The generation of each node.

    Where some nodes are assigned, the others are for the young. Where none is, the most efficient are for the
    old, the next for the young, and the rest are the nursery, which has a node in any case.
    """
    told = snapshot.nodes.generation
    if (told != Generation.ANY).any():
        return np.where(told == Generation.ANY, Generation.YOUNG, told).astype(np.int8)
    key = "generations", settings.young_share, settings.old_share
    return snapshot.cached(key, lambda: _by_efficiency(snapshot, settings))


def watts_per_core(snapshot: Snapshot) -> Floats:
    """What a node draws per core when all of it is used; infinite where it has told no curve."""
    nodes = snapshot.nodes
    with np.errstate(divide="ignore", invalid="ignore"):
        watts = nodes.power.watts(np.ones_like(nodes.capacity)) / nodes.capacity[:, 0]
    return np.where(np.isnan(watts), np.inf, watts)


def _by_efficiency(snapshot: Snapshot, settings: GenPackSettings) -> Codes:
    count = len(snapshot.nodes.names)
    old = max(round(count * settings.old_share), 1) if count >= _THREE else 0
    young = max(round(count * settings.young_share), 1) if count >= _TWO else 0
    old = min(old, max(count - 1 - young, 0))
    young = min(young, max(count - 1 - old, 0))
    best_first = np.argsort(watts_per_core(snapshot), kind="stable")
    generation = np.full(count, Generation.NURSERY, dtype=np.int8)
    generation[best_first[:old]] = Generation.OLD
    generation[best_first[old : old + young]] = Generation.YOUNG
    return generation
