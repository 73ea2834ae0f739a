"""What is left on each node: GenPack's cartography."""

from bisect import bisect_right
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.analysis.usage import quantities
from collector.api.paging import Paged, Pager
from collector.core.parts import Core
from collector.web.routes import Route, get
from wire.resources import Quantities


class NodeAvailability(msgspec.Struct, frozen=True, kw_only=True):
    """What a node has, and what is left of it."""

    node: str
    capacity: Quantities
    used: Quantities
    allocated: Quantities
    """What was promised to its containers."""
    reserved: Quantities
    """What their envelopes add up to."""
    free: Quantities
    """What envelopes leave of the capacity."""
    score: float
    """How much is free in all: 0 is full, 2 is empty."""


class Cartography(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what is left, node by node."""

    understood_at: float
    """When the cluster was last thought through, which this tells of; 0 if it has not been yet."""
    nodes: list[NodeAvailability]
    next: str | None
    """The cursor to the rest; null at the end."""


class AvailabilityQuery(Paged, frozen=True, kw_only=True):
    """Of which nodes it is asked."""

    node: Annotated[str | None, Meta(description="Only of the node of this name.")] = None


_by_name: Pager[NodeAvailability, tuple[str]] = Pager(lambda each: (each.node,), tuple[str])


async def availability(core: Core, query: AvailabilityQuery) -> Cartography:
    """What was left on each node at the last pass."""
    latest = core.analysis.latest
    found, after = latest.availability, _by_name.after(query)
    first = 0 if after is None else bisect_right(found.names, after[0])
    listed = (
        NodeAvailability(
            node=found.names[row],
            capacity=quantities(found.capacity[row]),
            used=quantities(found.used[row]),
            allocated=quantities(found.allocated[row]),
            reserved=quantities(found.reserved[row]),
            free=quantities(found.free[row]),
            score=float(found.score[row]),
        )
        for row in range(first, len(found.names))
        if query.node in (None, found.names[row])
    )
    nodes, following = _by_name.page(listed, query)
    return Cartography(understood_at=latest.at, nodes=nodes, next=following)


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/availability",
        "What is left on each node, by use, by promise and by envelope.",
        Cartography,
        availability,
        query=AvailabilityQuery,
    ),
)
