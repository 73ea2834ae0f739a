"""What hints go by."""

from typing import Annotated

from msgspec import Meta

from collector.config.section import Section
from wire.errors import UserError


class PlacementConfig(Section, frozen=True):
    """What decisions go by where nobody said otherwise."""

    default_class: Annotated[
        int,
        Meta(
            ge=1,
            le=4,
            description="The class of a container without the label `wattpack.class`: 1 means that nothing "
            "is ever taken from it, 4 that it bears being overbooked twofold.",
        ),
    ] = 1
    domain_label: Annotated[
        str,
        Meta(description="The label of a node that says what it would fail together with: a rack, a zone."),
    ] = "zone"
    failure_half_life_hours: Annotated[
        float,
        Meta(gt=0, le=24 * 366, description="After so long, a container that died counts half."),
    ] = 1.0
    snapshot_seconds: Annotated[
        float,
        Meta(ge=0, le=60, description="Decisions are made on what was known at most so long ago."),
    ] = 1.0
    oldest_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=600,
            description="Where the cluster is so large that a look at all of it takes a while, hints go by"
            " the last one meanwhile, unless it is older than this.",
        ),
    ] = 5.0
    policy: Annotated[
        str, Meta(description="What decides where a question does not say; `GET /v1/policies` lists them.")
    ] = "least-watts"
    scheduled_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="A pod that kube-scheduler asks about counts on the node that got most points until"
            " it is seen, for at most so long; 0 never counts it.",
        ),
    ] = 30.0

    def __post_init__(self) -> None:
        # Most who read settings decide nothing, and policies bring a numeric stack with them.
        from collector.policies.table import POLICIES  # noqa: PLC0415 - said above

        if self.policy not in POLICIES:
            raise UserError(
                f"placement.policy: there is no {self.policy!r}: choose one of {', '.join(POLICIES)}"
            )
