"""The application that a container to place belongs to."""

from collections.abc import Mapping, Sequence
from math import isinf
from typing import NamedTuple

from collector.live.applications import is_named
from collector.live.traits import application_traits
from collector.snapshot.applications import NO_APPLICATIONS
from collector.snapshot.tables import Snapshot


class Membership(NamedTuple):
    """The application of a container, as far as the question or its labels name it."""

    application: str | None
    delay_max: float | None
    """In seconds."""
    talks_to: tuple[str, ...]
    """Full names of services."""


def membership(  # noqa: PLR0913 - a field each
    snapshot: Snapshot,
    labels: Mapping[str, str],
    *,
    application: str | None = None,
    delay_max: float | None = None,
    talks_to: Sequence[str] = (),
    others: Sequence[str] = (),
) -> Membership:
    """Return the application of a container: as given, or else by its labels.

    `others` are services that are placed together with it; it may talk to them too.
    """
    traits = application_traits(labels, application or "")
    name = application or traits.name or None
    if name is None:
        return Membership(None, delay_max, tuple(talks_to))
    bound = None if isinf(traits.delay_max) else traits.delay_max
    known = {*_services(snapshot, name), *others}
    listed = talks_to or traits.talks_to
    return Membership(
        application=name,
        delay_max=bound if delay_max is None else delay_max,
        talks_to=tuple(sorted({each for short in listed for each in _whole_names(short, known)})),
    )


def _services(snapshot: Snapshot, application: str) -> list[str]:
    applications = snapshot.applications or NO_APPLICATIONS
    row = applications.index.get(application)
    rows = [] if row is None else applications.services_of(row).tolist()
    return [snapshot.services.names[each] for each in rows]


def _whole_names(name: str, services: set[str]) -> list[str]:
    """Return the services that a name means; itself if there is none, so that it is not ignored."""
    return [each for each in services if is_named(each, name)] or [name]
