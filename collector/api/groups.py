"""The classes that containers fall into by what they need most."""

import msgspec

from collector.common.ratios import Ratios, ratios_of
from collector.core.parts import Core
from collector.web.routes import NoQuery, Route, get
from wire.resources import Resource


class ContainerGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A class of containers that need the same sort of thing, much or little."""

    name: str
    dominant: Resource
    containers: int
    centre: Ratios
    """The share of each resource in what they need, where the cluster's average is all alike."""


class ContainerGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The classes of containers."""

    understood_at: float
    groups: list[ContainerGroup]


async def groups(core: Core, _query: NoQuery) -> ContainerGroups:
    """The classes of the last pass."""
    latest = core.analysis.latest
    listed = [
        ContainerGroup(
            name=each.name, dominant=each.dominant, containers=each.size, centre=ratios_of(each.centre)
        )
        for each in latest.groups
    ]
    return ContainerGroups(understood_at=latest.at, groups=listed)


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/groups",
        "The classes that containers fall into by what they need most.",
        ContainerGroups,
        groups,
        query=NoQuery,
    ),
)
