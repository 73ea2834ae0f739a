"""Stops and starts of optional services, and the power budget."""

from typing import Annotated

from msgspec import Meta

from wire.settings import Section


class BrownoutConfig(Section, frozen=True):
    """Optional services (label `wattpack.optional`) stop while resources are short and nothing can move."""

    enabled: bool = True
    """Whether optional services are stopped while resources are short."""
    step_seconds: Annotated[float, Meta(ge=0, le=3600)] = 15.0
    """Minimum time between two stops on the same nodes, or for the power budget, so that the effect can show.
    The power of the cluster must exceed its budget for as long before a stop."""
    calm_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 20.0
    """Time without a shortage before a stopped service starts again. It doubles with each further stop of the
    service within an hour."""
    fill_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.9
    """A stopped service starts again only if its usage fits below this share of the CPU and memory of its
    nodes, and its power below this share of the power budget."""


class PowerConfig(Section, frozen=True):
    """The power budget of the cluster."""

    cluster_budget_watts: Annotated[float, Meta(ge=0, le=1e12)] = 0.0
    """Total power of all nodes, at the wall, above which optional services stop. 0 is no budget."""


TABLES = {"brownout": BrownoutConfig, "power": PowerConfig}
