"""Stops and starts of optional services, and the power budget."""

from typing import Annotated

from msgspec import Meta

from wire.settings import Section


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
            description="Minimum time between two stops on the same nodes, or for the power budget, so that"
            " the effect can show. The power of the cluster must exceed its budget for as long before a"
            " stop.",
        ),
    ] = 15.0
    calm_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Time without a shortage before a stopped service starts again. It doubles with each"
            " further stop of the service within an hour.",
        ),
    ] = 20.0
    fill_ratio: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="A stopped service starts again only if its usage fits below this share of the CPU"
            " and memory of its nodes, and its power below this share of the power budget.",
        ),
    ] = 0.9


class PowerConfig(Section, frozen=True):
    """The power budget of the cluster."""

    cluster_budget_watts: Annotated[
        float,
        Meta(
            ge=0,
            le=1e12,
            description="Total power of all nodes, at the wall, above which optional services stop. 0 is no"
            " budget.",
        ),
    ] = 0.0


TABLES = {"brownout": BrownoutConfig, "power": PowerConfig}
