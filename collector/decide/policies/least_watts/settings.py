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

    moves: Annotated[int, Meta(ge=0, le=1_000_000, description="Maximum number of moves in a plan.")] = 100
    short_ratio: Annotated[
        _ShortRatio,
        Meta(
            description="Share of the time that a node may be short of a resource. 0.01 is a quarter of an"
            " hour a day. A higher value saves more energy."
        ),
    ] = 0.01
    short_ratio_of: Annotated[
        dict[Resource, _ShortRatio],
        Meta(description="Overrides `short_ratio` for single resources, such as `{ disk = 0.02 }`."),
    ] = field(default_factory=dict)
    spare_nodes: Annotated[
        int, Meta(ge=0, le=10_000, description="Number of empty nodes that stay on for new containers.")
    ] = 0
    moves_per_day: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="Moves per container and day, averaged over the cluster, up to which nodes are"
            " emptied. Beyond it, only nodes that are short are relieved.",
        ),
    ] = 0.5

    @property
    def short_ratios(self) -> Floats:
        """The accepted share of the time per resource."""
        return np.array([self.short_ratio_of.get(each, self.short_ratio) for each in RESOURCES])


KNOB = Knob("short_ratio", lowest=0.001, highest=0.05)
"""From a minute and a half a day, which five-minute windows can hardly resolve, to more than an hour."""
