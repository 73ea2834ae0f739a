"""Recommended sizes of services."""

from typing import Annotated, ClassVar

from msgspec import Meta

from wire.settings import Section


class SizingConfig(Section, frozen=True):
    """Recommended requests and limits. They are only shown; nothing is changed."""

    interval_seconds: ClassVar[float] = 300.0
    """Time between two computations of all sizes."""
    keep_days: Annotated[int, Meta(ge=1, le=90)] = 14
    """Days of usage that recommendations are based on."""
    reserve_ratio: Annotated[float, Meta(gt=0, le=10)] = 0.95
    """Sum of all requests, relative to what Kubernetes' Vertical Pod Autoscaler would reserve for the same
    services within their limits. With a larger reserve, usage exceeds requests less often."""


TABLES = {"sizing": SizingConfig}
