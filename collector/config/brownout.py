"""When optional services stop, and when they start again."""

from typing import Annotated

from msgspec import Meta

from collector.config.section import Section


class BrownoutConfig(Section, frozen=True):
    """Optional services (label `wattpack.optional`) stop while resources are short and nothing can move."""

    enabled: Annotated[
        bool, Meta(description="Whether optional services are stopped while resources are short.")
    ] = True
    step_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="Time after a stop until the next one on the same nodes, or for the same budget, so"
            " that the effect can show. The power of the cluster must exceed its budget for as long.",
        ),
    ] = 15.0
    calm_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Time without a shortage before a stopped service starts again. It doubles each time"
            " that the service was stopped within the last hour before.",
        ),
    ] = 20.0
    fill_ratio: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="A stopped service starts again only if what it used fits below this share of every"
            " resource of its nodes, and of the power budget.",
        ),
    ] = 0.9


class PowerConfig(Section, frozen=True):
    """How much power the cluster may use."""

    cluster_budget_watts: Annotated[
        float,
        Meta(
            ge=0,
            le=1e12,
            description="Power of all nodes together above which optional services stop, at the wall. 0 is"
            " no budget.",
        ),
    ] = 0.0
