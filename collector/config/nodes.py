"""When a node is there, and what holds for it."""

from typing import Annotated, Literal

from msgspec import Meta, field

from collector.config.section import Section
from wire.errors import UserError


class LivenessConfig(Section, frozen=True):
    """When a node counts as suspect, as down, as gone."""

    suspect_after_beacons: Annotated[
        float,
        Meta(gt=0, le=1000, description="A node not heard of for so many of its own beacons is suspect."),
    ] = 2.0
    down_after_beacons: Annotated[
        float,
        Meta(gt=0, le=1000, description="A node not heard of for so many of its own beacons is down."),
    ] = 4.0
    shortest_beacon_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            description="Beacons count as no closer than this, also while a node has not told its own.",
        ),
    ] = 5.0
    forget_after_hours: Annotated[
        float, Meta(gt=0, le=24 * 366, description="A node not heard of for so long is no longer listed.")
    ] = 6.0

    def __post_init__(self) -> None:
        if self.down_after_beacons < self.suspect_after_beacons:
            raise UserError(
                f"liveness.down_after_beacons ({self.down_after_beacons:g}) must not be below "
                f"suspect_after_beacons ({self.suspect_after_beacons:g}): a node is suspect before it is down"
            )


class NodeRule(Section, frozen=True):
    """What holds for the nodes whose name fits a pattern; of several rules that fit, the last counts."""

    labels: dict[str, str] = field(default_factory=dict)
    """Added to those that an orchestrator tells."""
    generation: Literal["any", "nursery", "young", "old"] | None = None
    accepts: bool | None = None
    """Whether it may be given containers."""
