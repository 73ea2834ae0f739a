"""Publish events and other messages to subscribers, in order, each at its own pace. Independent of HTTP.

Every subscriber has a bounded queue. One that falls behind is disconnected with a reason, so a slow client
costs little memory and delays no other. Recent messages are retained for clients that reconnect.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from wire.messages import Event, EventKind, Report, encode

MAX_MESSAGES = 1000
"""Limit of retained messages, and of messages queued for one subscriber."""
_MOST_PUBLISHED = MAX_MESSAGES // 10
"""Events of one report that subscribers get: a flood must not end all subscriptions. All are stored."""


class Topic(StrEnum):
    """What a message is about."""

    NODE = "node"
    """A node joined, changed its state, or was removed."""
    ALERT = "alert"
    """An alert opened or closed."""
    EVENT = "event"
    """A node reported an event of its own or of a container."""
    MISSED = "missed"
    """Messages were lost: the client should reload everything."""
    END = "end"
    """The last message, with the reason."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message."""

    id: str
    topic: Topic
    body: bytes
    """JSON, on one line."""

    def encoded(self) -> bytes:
        """Encode as a server-sent event (WHATWG)."""
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (self.id.encode(), self.topic.encode(), self.body)


@dataclass(slots=True, eq=False)
class Subscriber:
    """A queue of messages for one client."""

    owner: str = ""
    """Id of the client's token."""
    _queue: deque[Message] = field(default_factory=deque)
    _ready: asyncio.Event = field(default_factory=asyncio.Event)
    end_reason: str = ""
    """Once set, no more messages are queued."""

    def put(self, message: Message) -> None:
        """Queue a message; if the queue is full, drop it and end."""
        if self.end_reason:
            return
        if len(self._queue) >= MAX_MESSAGES:
            self._queue.clear()
            self.end("the client fell behind: reconnect and reload everything")
            return
        self._queue.append(message)
        self._ready.set()

    def end(self, reason: str) -> None:
        """Accept no more messages."""
        self.end_reason = self.end_reason or reason
        self._ready.set()

    async def take(self, timeout_seconds: float) -> list[Message]:
        """Wait for queued messages; empty after the timeout, or at the end."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._ready.wait()
        except TimeoutError:
            return []
        taken = list(self._queue)
        self._queue.clear()
        if not self.end_reason:
            self._ready.clear()
        return taken


class EventStream:
    """All subscribers, and the recent messages."""

    def __init__(self) -> None:
        # Numbers restart with every run of the collector, so ids of another run are invalid.
        self._run = secrets.token_hex(4)
        self._number = 0
        self._recent: deque[Message] = deque(maxlen=MAX_MESSAGES)
        self._subscribers: set[Subscriber] = set()
        self._end_reason = ""

    def __len__(self) -> int:
        return len(self._subscribers)

    def count(self, owner: str) -> int:
        """The number of subscribers with this token."""
        return sum(each.owner == owner for each in self._subscribers)

    @property
    def last_id(self) -> str:
        return f"{self._run}-{self._number}"

    def publish(self, topic: Topic, body: bytes) -> None:
        self._number += 1
        message = Message(self.last_id, topic, body)
        self._recent.append(message)
        for subscriber in self._subscribers:
            subscriber.put(message)

    @contextmanager
    def subscribe(self, last_id: str | None = None, owner: str = "") -> Iterator[Subscriber]:
        """Subscribe while the block runs, starting after the message with this id if it is retained."""
        subscriber = Subscriber(owner)
        for message in self._since(last_id):
            subscriber.put(message)
        if self._end_reason:
            subscriber.end(self._end_reason)
        self._subscribers.add(subscriber)
        try:
            yield subscriber
        finally:
            self._subscribers.discard(subscriber)

    def end(self, reason: str) -> None:
        self._end_reason = reason
        for subscriber in self._subscribers:
            subscriber.end(reason)

    def _since(self, last_id: str | None) -> list[Message]:
        if last_id is None or last_id == self.last_id:
            return []
        run, _, number = last_id.rpartition("-")
        missed = self._number - int(number) if run == self._run and _is_number(number) else -1
        if not 0 <= missed <= len(self._recent):
            return [
                Message(self.last_id, Topic.MISSED, b'{"reason":"messages after that id are not retained"}')
            ]
        return list(self._recent)[len(self._recent) - missed :]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < len(str(2**63))


class NodeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a node or a container."""

    node: str
    kind: EventKind
    """What happened."""
    at: float
    container: str | None
    name: str | None
    """Name of the container; null if it is not about a container."""
    lifetime_seconds: float | None
    startup_seconds: float | None
    exit_code: int | None
    cpu_seconds_total: float | None
    """CPU time of a container that ended, up to the last sample."""
    joules_total: float | None
    """Energy that a container that ended added to the draw of its node while the agent watched it."""

    @staticmethod
    def of(node: str, event: Event) -> "NodeEvent":
        return NodeEvent(node=node, **msgspec.structs.asdict(event))


def publish_events(stream: EventStream, report: Report) -> None:
    """Send the events of a new report to the subscribers."""
    for event in report.events[:_MOST_PUBLISHED]:
        stream.publish(Topic.EVENT, encode(NodeEvent.of(report.node, event)))
