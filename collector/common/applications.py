"""The application that a container belongs to: services that talk to each other, as labels name them.

An application has an owner: the stack, project or namespace of its services, or a service that has none.
Labels of one owner never name the application of another: they name `NAME@OWNER`.
"""

import re
from collections.abc import Mapping
from math import inf

import msgspec

from collector.common.labels import APP_LABEL, DELAY_MAX_LABEL, TALKS_TO_LABEL

_GROUP_LABELS = (
    "com.docker.stack.namespace",
    "com.docker.compose.project",
    "io.kubernetes.pod.namespace",
)
"""Labels that name the owner. Anyone may set one, so it counts only if the service is called after it."""
_DELAY = re.compile(r"(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>us|ms|s|)")
_UNIT_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
_MOST_SERVICES = 100
"""Most services in a label that lists services."""


class ApplicationTraits(msgspec.Struct, frozen=True, gc=False):
    """The application of a service, by its labels."""

    name: str = ""
    """Empty without one."""
    delay_max: float = inf
    """Maximum round-trip time between its nodes, in seconds; infinite without a bound."""
    talks_to: tuple[str, ...] = ()
    """Services of the application that this one talks to; empty if no label lists them."""


NO_APPLICATION = ApplicationTraits()


def application_traits(
    labels: Mapping[str, str], namespace: str = "", service: str | None = None
) -> ApplicationTraits:
    """The application of a service; an invalid value counts as unset.

    `namespace` is the owner as the orchestrator knows it, which no label changes. Without a name of the
    service, its labels are believed.
    """
    owner = namespace or next((each for each in map(labels.get, _GROUP_LABELS) if _owns(each, service)), "")
    name = labels.get(APP_LABEL) or owner
    if not name:
        return NO_APPLICATION
    if not owner and service is not None:
        # A service of the stack or project `shop` is called `shop_web` or `shop/web`.
        owner = name if _owns(name, service) else service
    if owner and (name != owner or owner == service):
        name = f"{name}@{owner}"
    delay_max, talks_to = labels.get(DELAY_MAX_LABEL), labels.get(TALKS_TO_LABEL)
    if delay_max is None and talks_to is None:
        return ApplicationTraits(name)
    listed = (each.strip() for each in (talks_to or "").split(",", _MOST_SERVICES)[:_MOST_SERVICES])
    return ApplicationTraits(
        name,
        inf if delay_max is None else parse_delay(delay_max) or inf,
        tuple(each for each in listed if each),
    )


def _owns(group: str | None, service: str | None) -> bool:
    return bool(group) and (service is None or service.startswith((f"{group}_", f"{group}/")))


def label_of(application: str) -> str:
    """The name that a label gives an application, without its owner."""
    return application.partition("@")[0]


def parse_delay(text: str) -> float | None:
    """A time such as `85ms`, `0.085s` or `0.085`, in seconds; None if it is invalid, or 0."""
    found = _DELAY.fullmatch(text.strip())
    return None if found is None else float(found["number"]) * _UNIT_SECONDS[found["unit"]] or None


def is_named(service: str, name: str) -> bool:
    """Whether a label means a service: by its whole name, or without its stack, project or namespace."""
    return service == name or service.endswith((f"_{name}", f"/{name}"))
