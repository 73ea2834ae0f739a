"""The settings of `least-watts`."""

from typing import Annotated

import numpy as np
from msgspec import Meta, field

from collector.common.arrays import Floats
from collector.decide.policies.interface import Knob, Stability
from wire.resources import RESOURCES, Resource

_ShortRatio = Annotated[float, Meta(ge=0.0001, le=0.5)]


class LeastWattsSettings(Stability, frozen=True):
    """Settings of `least-watts`: one number states the accepted risk, and all margins are learned."""

    moves: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    """Maximum number of moves in a plan."""
    short_ratio: _ShortRatio = 0.01
    """Share of the time that a node may be short of a resource. 0.01 is a quarter of an hour a day. A higher
    value saves more energy."""
    short_ratio_of: dict[Resource, _ShortRatio] = field(default_factory=dict)
    """Overrides `short_ratio` for single resources, such as `{ disk = 0.02 }`."""
    spare_nodes: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Number of empty nodes that stay on for new containers."""
    moves_per_day: Annotated[float, Meta(ge=0, le=1e6)] = 0.5
    """Moves per container and day, averaged over the cluster, up to which nodes are emptied. Beyond it, only
    nodes that are short are relieved."""

    @property
    def short_ratios(self) -> Floats:
        """The accepted share of the time per resource."""
        return np.array([self.short_ratio_of.get(each, self.short_ratio) for each in RESOURCES])


KNOB = Knob("short_ratio", lowest=0.001, highest=0.05)
"""From a minute and a half a day, which five-minute windows can hardly resolve, to more than an hour."""
