"""Classes of promises of availability, and who gets one."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from collector.features.promises.ledger.promises import Promise
from wire.errors import UserError
from wire.settings import NamedTables, Section, Settings

SLO_LABEL = "wattpack.slo"
"""Names the class of a service."""


class PromiseClass(Section, frozen=True):
    """A class of promises."""

    availability: Annotated[float, Meta(gt=0, le=1)]
    """Share of the time in which an instance must run."""
    importance: Annotated[int, Meta(ge=1, le=100)]
    """1 is the most important class."""


class PromisesConfig(Section, frozen=True):
    """Promises of availability."""

    default_class: str = ""
    """Class under `[slo]` of a service without the label `wattpack.slo`. Empty: such a service is promised
    nothing, and its containers are not stopped for others."""


_DEFAULT_CLASSES = {
    "gold": PromiseClass(availability=1.0, importance=1),
    "silver": PromiseClass(availability=0.9, importance=2),
    "bronze": PromiseClass(availability=0.5, importance=3),
}
"""The classes of the QoS-driven scheduling study."""


def promise_classes(config: Settings) -> Mapping[str, Promise]:
    """All classes: those of the settings, and the default ones that these do not replace."""
    classes = {**_DEFAULT_CLASSES, **config.tables(PromiseClass)}
    return {
        name: Promise(name=name, availability=each.availability, importance=each.importance)
        for name, each in classes.items()
    }


def _check_default(config: Settings) -> None:
    default, known = config.section(PromisesConfig).default_class, promise_classes(config)
    if default and default not in known:
        raise UserError(
            f"promises.default_class: {default!r} is not a class under [slo]: write one of {', '.join(known)}"
        )


TABLES = {
    "slo": NamedTables(
        kind=PromiseClass,
        description="`[slo.gold]`: a table per class of promises with `availability` (share of the time in"
        " which an instance runs, above 0, up to 1) and `importance` (1 is the most important; classes may"
        " share one). The label `wattpack.slo` names the class of a service. The default classes are `gold`"
        " (1.0, 1), `silver` (0.9, 2) and `bronze` (0.5, 3); a table replaces the class of its name.",
    ),
    "promises": PromisesConfig,
}
CHECKS = (_check_default,)
