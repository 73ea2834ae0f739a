"""Events: the stored list, and changes as server-sent events.

Events in reports are published at once. A node that stops reporting and an alert that closes are detected by
comparing the cluster with its state a second ago.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from collector.common.errors import ApiError
from collector.common.liveness import LIVENESS_LABELS, LivenessLabel
from collector.common.periodic import in_background, repeat
from collector.common.reported_alerts import AlertState
from collector.history.interface import EventPosition, StoredEvent
from collector.runtime.event_stream import NodeEvent, Subscriber, Topic
from collector.runtime.parts import Core
from collector.serve.api.alerts import ClusterAlert, cluster_alerts
from collector.serve.api.queries import PageQuery, Pager
from collector.serve.web.routes import NO_HISTORY, ResponseSpec, Route, get, parse_query, problem
from collector.serve.web.scopes import CALLER
from wire.messages import encode

STREAM_TYPE = "text/event-stream"
_COMPARE_SECONDS = 1.0
_KEEPALIVE_SECONDS = 15.0
"""A comment at this interval keeps proxies from closing the connection, and detects closed ones."""
_STREAM_SHARES = 4
"""One token may have a quarter of all streams."""
_WRITE_SECONDS = 30.0
"""A client that reads nothing for this long is disconnected."""


class EventPage(msgspec.Struct, frozen=True):
    """A page of events, the most recent first."""

    events: list[NodeEvent]
    """The events of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""


class EventsQuery(PageQuery, frozen=True, kw_only=True):
    """Filters for events."""

    node: Annotated[str | None, Meta(description="Only events of the node with this name.")] = None


_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_latest_first: Pager[StoredEvent, EventPosition] = Pager(
    lambda event: event.position, tuple[float, _Number, _Number]
)


async def events(core: Core, query: EventsQuery) -> EventPage:
    """List events of nodes and containers: joined, started, stopped, died."""
    before = _latest_first.after(query)
    stored = await core.history.events(query.limit + 1, query.node, before)
    # The history starts at the cursor already.
    found, after = _latest_first.page(stored, msgspec.structs.replace(query, cursor=None))
    return EventPage([NodeEvent.of(each.node, each.event) for each in found], after)


class NodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """A node that joined, changed its state, or was removed."""

    node: str
    state: LivenessLabel | None
    """Null if the node is no longer listed."""
    previous: LivenessLabel | None
    """Null if the node was not listed before."""


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Position at which to continue."""

    last_event_id: str | None = None
    """Continue after the message with this id; same as the header `Last-Event-ID`."""


class ChangeWatcher:
    """Publishes changes of node states and alerts."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._states = self._states_now()
        self._open = self._open_now()

    async def compare(self) -> None:
        """Publish the changes since the last call."""
        publish = self._core.events.publish
        states, open_now = self._states_now(), self._open_now()
        for node in sorted(states.keys() | self._states.keys()):
            previous, state = self._states.get(node), states.get(node)
            if previous != state:
                publish(Topic.NODE, encode(NodeChange(node=node, state=state, previous=previous)))
        for name, alert in open_now.items():
            if name not in self._open:
                publish(Topic.ALERT, encode(alert))
        if gone := self._open.keys() - open_now.keys():
            closed = {each.id: each for each in cluster_alerts(self._core, AlertState.CLOSED)}
            for name in sorted(gone):
                last = msgspec.structs.replace(self._open[name], state=AlertState.CLOSED)
                publish(Topic.ALERT, encode(closed.get(name, last)))
        self._states, self._open = states, open_now

    def _states_now(self) -> Mapping[str, LivenessLabel]:
        nodes = self._core.registry.tables.list_nodes(self._core.clock())
        labels = [LIVENESS_LABELS[each] for each in nodes.liveness.tolist()]
        return dict(zip(nodes.names, labels, strict=True))

    def _open_now(self) -> Mapping[str, ClusterAlert]:
        return {each.id: each for each in cluster_alerts(self._core, AlertState.OPEN)}


def publishing_changes(core: Core) -> AbstractAsyncContextManager[None]:
    """Publish changes while the block runs."""
    watcher = ChangeWatcher(core)
    return in_background(repeat(watcher.compare, _COMPARE_SECONDS, "publishing changes"))


async def stream(core: Core, request: web.Request) -> web.StreamResponse:
    """Stream changes as server-sent events: `node` when the state of a node changes, `alert` when an alert
    opens or closes, `event` when a node reports an event, `missed` when messages were lost, and `end`, with a
    reason, before the collector closes the stream.
    """  # noqa: D205 - one sentence
    query = parse_query(request, StreamQuery)
    limit, owner = core.config.http.max_streams, request[CALLER].token
    # Without tokens, all clients have the same owner.
    own_limit = -(-limit // _STREAM_SHARES) if owner else limit
    if len(core.events) >= limit or core.events.count(owner) >= own_limit:
        raise ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"too many open streams: {limit} are allowed, {own_limit} per token; retry later",
            headers={"Retry-After": "30"},
        )
    response = web.StreamResponse(headers={"Content-Type": STREAM_TYPE, "Cache-Control": "no-store"})
    response.headers["X-Accel-Buffering"] = "no"  # nginx buffers otherwise
    last_id = query.last_event_id or request.headers.get("Last-Event-ID")
    with core.events.subscribe(last_id, owner) as reader, contextlib.suppress(ConnectionError, TimeoutError):
        await response.prepare(request)
        await _write(response, b": connected\n\n")
        await _serve(response, reader)
    return response


async def _serve(response: web.StreamResponse, reader: Subscriber) -> None:
    while not reader.end_reason:
        messages = await reader.take(_KEEPALIVE_SECONDS)
        if messages:
            await _write(response, b"".join(message.encoded() for message in messages))
        elif not reader.end_reason:
            await _write(response, b": keepalive\n\n")
    reason = encode({"reason": reader.end_reason})
    # Without an id: a client that reconnects continues after the last message it has.
    await _write(response, b"event: %b\ndata: %b\n\n" % (Topic.END.encode(), reason))


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(_WRITE_SECONDS):
        await response.write(data)


ROUTES: tuple[Route, ...] = (
    get("/v1/events", events, problems=NO_HISTORY),
    get(
        "/v1/stream",
        stream,
        query=StreamQuery,
        responds=ResponseSpec("Messages, with comments as keepalive.", content_type=STREAM_TYPE),
        problems=problem(HTTPStatus.TOO_MANY_REQUESTS, "Too many open streams; retry after Retry-After."),
        is_stream=True,
    ),
)
