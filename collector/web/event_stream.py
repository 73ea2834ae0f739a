"""News for those who listen: what changed, in the order in which it did, to every reader at its own pace.

Pure of HTTP: whoever knows of something says `tell`, and every reader has a bounded queue. One that does not
keep up is let go with a last word, so that nobody slow costs memory or holds up the others. The last
messages are kept, so that a reader who comes back goes on where it was, if that is not too long ago.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

KEPT = 1000
"""Messages that are remembered, and that may wait for one reader."""


class Topic(StrEnum):
    """What a message is about."""

    NODE = "node"
    """A node came, went, or is in another state."""
    ALERT = "alert"
    """Trouble began or ended."""
    EVENT = "event"
    """A node told of something that happened to it or to a container."""
    BEHIND = "behind"
    """Something was missed, so that all should be asked for anew."""
    END = "end"
    """The last word: why no more comes."""


@dataclass(frozen=True, slots=True)
class Message:
    """One piece of news."""

    id: str
    news: Topic
    body: bytes
    """JSON, on one line."""

    def encoded(self) -> bytes:
        """As it goes over the wire (WHATWG, server-sent events)."""
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (self.id.encode(), self.news.encode(), self.body)


@dataclass(slots=True, eq=False)
class Subscriber:
    """One who listens."""

    _waiting: deque[Message] = field(default_factory=deque)
    _more: asyncio.Event = field(default_factory=asyncio.Event)
    why_it_ends: str = ""
    """Once there is one, nothing comes after what waits already."""

    def put(self, message: Message) -> None:
        """Let it wait; or, if too much does, let it all go."""
        if self.why_it_ends:
            return
        if len(self._waiting) >= KEPT:
            self._waiting.clear()
            self.end("you did not keep up: connect again, and ask for everything anew")
            return
        self._waiting.append(message)
        self._more.set()

    def end(self, why: str) -> None:
        """Say no more."""
        self.why_it_ends = self.why_it_ends or why
        self._more.set()

    async def take(self, patience_seconds: float) -> list[Message]:
        """What waits; nothing after so long a silence, or at the end."""
        try:
            async with asyncio.timeout(patience_seconds):
                await self._more.wait()
        except TimeoutError:
            return []
        taken = list(self._waiting)
        self._waiting.clear()
        if not self.why_it_ends:
            self._more.clear()
        return taken


class EventStream:
    """All readers, and what was told of late."""

    def __init__(self) -> None:
        # Numbers begin anew with every run of the collector, and so mean nothing to another.
        self._run = secrets.token_hex(4)
        self._number = 0
        self._kept: deque[Message] = deque(maxlen=KEPT)
        self._readers: set[Subscriber] = set()
        self._why_it_ends = ""

    def __len__(self) -> int:
        return len(self._readers)

    @property
    def last_id(self) -> str:
        return f"{self._run}-{self._number}"

    def publish(self, news: Topic, body: bytes) -> None:
        """Tell everyone."""
        self._number += 1
        message = Message(self.last_id, news, body)
        self._kept.append(message)
        for reader in self._readers:
            reader.put(message)

    @contextmanager
    def reading(self, last_id: str | None = None) -> Iterator[Subscriber]:
        """Listen while the block runs; from after the message of this id, if it is still remembered."""
        reader = Subscriber()
        for message in self._since(last_id):
            reader.put(message)
        if self._why_it_ends:
            reader.end(self._why_it_ends)
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    def end(self, why: str) -> None:
        """Say no more to anyone."""
        self._why_it_ends = why
        for reader in self._readers:
            reader.end(why)

    def _since(self, last_id: str | None) -> list[Message]:
        if last_id is None or last_id == self.last_id:
            return []
        run, _, number = last_id.rpartition("-")
        missed = self._number - int(number) if run == self._run and _is_number(number) else -1
        if not 0 <= missed <= len(self._kept):
            return [Message(self.last_id, Topic.BEHIND, b'{"why":"what came after that is forgotten"}')]
        return list(self._kept)[len(self._kept) - missed :]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < len(str(2**63))
