"""Events: what happened to nodes and containers."""

from typing import Annotated

import msgspec
from msgspec import Meta

from collector.api.paging import Paged, Pager
from collector.core.events import NodeEvent
from collector.core.parts import Core
from collector.history.interface import EventPosition, StoredEvent
from collector.web.routes import NO_HISTORY, Route, get


class NodeEvents(msgspec.Struct, frozen=True):
    """A page of events, the latest first."""

    events: list[NodeEvent]
    next: str | None
    """The cursor to those before; null at the end."""


class EventsQuery(Paged, frozen=True, kw_only=True):
    """Which events are asked for."""

    node: Annotated[str | None, Meta(description="Only those of the node of this name.")] = None


_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_latest_first: Pager[StoredEvent, EventPosition] = Pager(
    lambda happened: happened.position, tuple[float, _Number, _Number]
)


async def events(core: Core, query: EventsQuery) -> NodeEvents:
    """What happened of late."""
    before = _latest_first.after(query)
    happened = await core.history.events(query.limit + 1, query.node, before)
    # The history began where the cursor is, so that nothing is left to be passed over.
    found, after = _latest_first.page(happened, msgspec.structs.replace(query, cursor=None))
    return NodeEvents([NodeEvent.of(each.node, each.event) for each in found], after)


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/events",
        "What happened to nodes and containers: joined, started, stopped, died.",
        NodeEvents,
        events,
        query=EventsQuery,
        refusals=NO_HISTORY,
    ),
)
