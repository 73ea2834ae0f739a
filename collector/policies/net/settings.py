"""The settings of `net-aware` and `net-optimal`."""

from typing import Annotated

from msgspec import Meta

from collector.policies.interface import Stability


class NetSettings(Stability, frozen=True):
    """Settings of `net-aware`."""


class NetOptimalSettings(NetSettings, frozen=True):
    """Settings of `net-optimal`."""

    limit_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=60,
            description="Maximum time of a search. The best placement found until then is used, and the"
            " answer states how much better the best one could be.",
        ),
    ] = 2.0
