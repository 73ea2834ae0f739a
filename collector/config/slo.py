"""Classes of promises of availability."""

from typing import Annotated

from msgspec import Meta

from wire.settings import Section


class SloClass(Section, frozen=True):
    """A class of promises."""

    availability: Annotated[
        float, Meta(gt=0, le=1, description="Share of the time in which an instance must run.")
    ]
    importance: Annotated[int, Meta(ge=1, le=100, description="1 is the most important class.")]


def default_classes() -> dict[str, SloClass]:
    """Return the classes of the QoS-driven scheduling study."""
    return {
        "gold": SloClass(availability=1.0, importance=1),
        "silver": SloClass(availability=0.9, importance=2),
        "bronze": SloClass(availability=0.5, importance=3),
    }
