"""The generation of each node: as configured, or by efficiency."""

from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.common.arrays import Codes, Floats
from collector.policies.interface import FillLimits
from collector.snapshot.tables import Generation, Snapshot

_TWO, _THREE = 2, 3


class GenPackSettings(FillLimits, frozen=True):
    """Settings of GenPack. As in the paper, envelopes may fill a node completely."""

    fill_ratio: Annotated[
        float, Meta(gt=0, le=1, description="Maximum share of any resource of a node that envelopes fill.")
    ] = 1.0
    relieve_ratio: Annotated[
        float,
        Meta(gt=0, le=2, description="Share of any resource above which envelopes are moved off a node."),
    ] = 1.1
    nursery_seconds: Annotated[
        float,
        Meta(ge=0, description="Time that a container is profiled in the nursery before it moves on."),
    ] = 600.0
    young_seconds: Annotated[
        float,
        Meta(ge=0, description="Time that a container then spends on young nodes before it counts as old."),
    ] = 1200.0
    young_share: Annotated[
        float, Meta(ge=0, le=1, description="Share of young nodes, if no node has a configured generation.")
    ] = 4 / 12
    old_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of old nodes, if no node has a configured generation. All nodes that are"
            " neither young nor old are the nursery.",
        ),
    ] = 3 / 12


def generations(snapshot: Snapshot, settings: GenPackSettings) -> Codes:
    """Return the generation of each node.

    If some nodes are assigned, the others are young. If none is, the most efficient nodes are old, the next
    ones young, and the others, at least one, the nursery.
    """
    assigned = snapshot.nodes.generation
    if (assigned != Generation.ANY).any():
        return np.where(assigned == Generation.ANY, Generation.YOUNG, assigned).astype(np.int8)
    key = "generations", settings.young_share, settings.old_share
    return snapshot.cached(key, lambda: _by_efficiency(snapshot, settings))


def watts_per_core(snapshot: Snapshot) -> Floats:
    """Return the power per core of each node at full load; infinite without a power curve."""
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
