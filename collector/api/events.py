"""News as it comes, as server-sent events; and the look, every second, for what nobody said in so many words.

Events are told as reports bring them. That a node fell silent, or that an alert is over, follows from what
was not said: it is found by comparing what holds now with what held a moment ago.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from collector.api.alerts import ClusterAlert, cluster_alerts
from collector.api.queries import Paged, Pager
from collector.common.errors import ApiError
from collector.common.liveness import LivenessLabel
from collector.common.periodic import in_background, repeat
from collector.core.events import NodeEvent
from collector.core.parts import Core
from collector.history.interface import EventPosition, StoredEvent
from collector.reports.alerts import AlertState
from collector.web.event_stream import Subscriber, Topic
from collector.web.routes import (
    NO_HISTORY,
    REFUSED_HOST,
    REFUSED_QUERY,
    Answer,
    Route,
    get,
    parse_query,
    refused,
)
from wire.messages import encode

STREAM_TYPE = "text/event-stream"
_LOOK_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0
"""A comment this often keeps proxies from hanging up, and shows who has gone."""
_WRITE_SECONDS = 30.0
"""A reader that takes nothing for so long is gone."""


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


class NodeNews(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is in another state, came, or is no longer listed."""

    node: str
    state: LivenessLabel | None
    """Null if it is no longer listed."""
    before: LivenessLabel | None
    """Null if it was not listed."""


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to listen to."""

    last_event_id: Annotated[
        str | None,
        Meta(description="Go on after the message of this id; the header `Last-Event-ID` says the same."),
    ] = None


class ChangeWatcher:
    """Tells what changed since it last looked."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._states = self._states_now()
        self._open = self._open_now()

    async def look(self) -> None:
        """Compare, and tell."""
        publish = self._core.events.publish
        states, open_now = self._states_now(), self._open_now()
        for node in sorted(states.keys() | self._states.keys()):
            before, now = self._states.get(node), states.get(node)
            if before != now:
                publish(Topic.NODE, encode(NodeNews(node=node, state=now, before=before)))
        for name, alert in open_now.items():
            if name not in self._open:
                publish(Topic.ALERT, encode(alert))
        ended = self._open.keys() - open_now.keys()
        if ended:
            listed = {each.id: each for each in cluster_alerts(self._core, AlertState.CLOSED)}
            for name in sorted(ended):
                was = msgspec.structs.replace(self._open[name], state=AlertState.CLOSED)
                publish(Topic.ALERT, encode(listed.get(name, was)))
        self._states, self._open = states, open_now

    def _states_now(self) -> Mapping[str, LivenessLabel]:
        return {each.name: each.liveness.label for each in self._core.registry.nodes(self._core.clock())}

    def _open_now(self) -> Mapping[str, ClusterAlert]:
        return {each.id: each for each in cluster_alerts(self._core, AlertState.OPEN)}


@asynccontextmanager
async def watching(core: Core) -> AsyncIterator[None]:
    """Publish changes while the block runs."""
    watcher = ChangeWatcher(core)
    async with in_background(repeat(watcher.look, _LOOK_SECONDS, "publishing changes")):
        yield


async def stream(core: Core, request: web.Request) -> web.StreamResponse:
    """Tell news until the reader goes, does not keep up, or the collector stops."""
    asked = parse_query(request, StreamQuery)
    most = core.config.http.max_streams
    if len(core.events) >= most:
        raise ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"{most} listen already, which is all that http.max_streams allows: come back later",
            headers={"Retry-After": "30"},
        )
    response = web.StreamResponse(headers={"Content-Type": STREAM_TYPE, "Cache-Control": "no-store"})
    response.headers["X-Accel-Buffering"] = "no"  # nginx would hold it back otherwise
    last_id = asked.last_event_id or request.headers.get("Last-Event-ID")
    with core.events.reading(last_id) as reader, contextlib.suppress(ConnectionError, TimeoutError):
        await response.prepare(request)
        await _write(response, b": listening\n\n")
        await _serve(response, reader)
    return response


async def _serve(response: web.StreamResponse, reader: Subscriber) -> None:
    while not reader.why_it_ends:
        messages = await reader.take(_HEARTBEAT_SECONDS)
        if messages:
            await _write(response, b"".join(message.encoded() for message in messages))
        elif not reader.why_it_ends:
            await _write(response, b": still here\n\n")
    why = encode({"why": reader.why_it_ends})
    # Without an id: who comes back goes on after the last message it has.
    await _write(response, b"event: %b\ndata: %b\n\n" % (Topic.END.encode(), why))


async def _write(response: web.StreamResponse, words: bytes) -> None:
    async with asyncio.timeout(_WRITE_SECONDS):
        await response.write(words)


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/events",
        "What happened to nodes and containers: joined, started, stopped, died.",
        NodeEvents,
        events,
        query=EventsQuery,
        refusals=NO_HISTORY,
    ),
    Route(
        method="GET",
        path="/v1/stream",
        summary="News as it comes (server-sent events): `node` when one is in another state, `alert` when"
        " trouble begins or ends, `event` when a node tells of one; `behind` when something was missed, `end`"
        " with the reason before the collector hangs up.",
        serve=stream,
        query=StreamQuery,
        answers={
            HTTPStatus.OK: Answer("Messages, and comments in between.", content_type=STREAM_TYPE),
            **REFUSED_QUERY,
            **REFUSED_HOST,
            **refused(HTTPStatus.TOO_MANY_REQUESTS, "Too many listen already; come back after Retry-After."),
        },
    ),
)
