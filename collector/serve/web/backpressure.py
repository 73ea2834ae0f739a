"""Limits on request bodies, and on reports that are not stored yet: in total, per node and per token.

A token or certificate of a node also has a maximum rate, averaged over a minute; requests above it are
rejected unread. An overloaded collector responds with 429 instead of running out of memory, and a node that
sends too much exhausts its own share only.
"""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from aiohttp import hdrs, web

from collector.common.errors import ApiError
from collector.config import LimitsConfig
from collector.serve.web.scopes import TRUSTED, Caller
from wire.messages import Report

Key = TypeVar("Key", bound=Hashable)

_REQUESTS_PER_CALLER = 4
"""An agent has one request in flight, or two just after a restart."""
_MAX_CONCURRENT = 2
"""Requests of one token that are processed at the same time; the others wait. So a request of another token
waits for no more than these."""
_LONGEST_PAUSE_SECONDS = 1.0
_SHARES = 4
"""One token may use a quarter of the bytes of all bodies."""
_MIN_RETRY_SECONDS, _MAX_RETRY_SECONDS = 2.0, 10.0
_BURST_SECONDS = 60.0
"""Size of a burst, in seconds of the maximum rate: after an outage, all reports arrive at once."""

OnSurplus = Callable[[frozenset[str]], None]
"""Called with the nodes of a caller that exceeds its rate."""


@dataclass(slots=True)
class _Bucket:
    """A leaky bucket: how much a caller sent recently. It drains at the maximum rate."""

    reports: float = 0.0
    size_bytes: float = 0.0
    at: float = 0.0


class _Turns:
    """The requests of one token, which get up to half of the collector's time."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._free = asyncio.Semaphore(_MAX_CONCURRENT)
        self._waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a free place. If others wait, each request is followed by a pause of the same length."""
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        began = self._monotonic()
        try:
            yield
        finally:
            if self._waiting:
                pause_seconds = min(_LONGEST_PAUSE_SECONDS, self._monotonic() - began)
                asyncio.get_running_loop().call_later(pause_seconds, self._free.release)
            else:
                self._free.release()


class Backpressure:
    """Counts waiting requests and reports, and rejects those above the limits."""

    def __init__(
        self,
        settings: LimitsConfig,
        rng: Callable[[], float] = random.random,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        on_surplus: OnSurplus = lambda _nodes: None,
    ) -> None:
        self._settings = settings
        self._random = rng
        self._monotonic = monotonic
        self._on_surplus = on_surplus
        self._buckets: dict[frozenset[str], _Bucket] = {}
        self._turns: dict[str, _Turns] = {}
        self._requests: Counter[frozenset[str]] = Counter()
        self._reports_of_node: Counter[str] = Counter()
        self._bytes_of: Counter[Caller] = Counter()
        self.reports = 0
        self.size_bytes = 0

    @contextmanager
    def request(self, caller: Caller) -> Iterator[Callable[[int], None]]:
        """Count a request while the block runs; yields a function that counts bytes of its body.

        Requests of a caller that is bound to nodes are limited in number and rate; more are rejected unread.
        """
        node = caller.nodes
        if node is not None:
            if self._requests[node] >= _REQUESTS_PER_CALLER:
                raise self._retry_later("this node has too many requests in progress")
            self._check_rate(node)
        body_bytes = 0

        def add_bytes(size_bytes: int) -> None:
            nonlocal body_bytes
            # A single request is limited by the maximum body size alone.
            others_bytes = self.size_bytes - body_bytes
            if others_bytes and self.size_bytes + size_bytes > self._settings.max_waiting_bytes:
                raise self._retry_later("the collector is reading too many request bodies")
            own_bytes = self._bytes_of[caller]
            share_bytes = self._settings.max_waiting_bytes // _SHARES
            if caller != TRUSTED and own_bytes > body_bytes and own_bytes + size_bytes > share_bytes:
                raise self._retry_later("the collector is reading too many request bodies of this token")
            body_bytes += size_bytes
            self.size_bytes += size_bytes
            self._bytes_of[caller] += size_bytes
            if node is not None:
                self._bucket(node).size_bytes += size_bytes

        if node is not None:
            self._requests[node] += 1
        try:
            yield add_bytes
        finally:
            self.size_bytes -= body_bytes
            _subtract(self._bytes_of, {caller: body_bytes})
            if node is not None:
                _subtract(self._requests, {node: 1})

    def turn(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """Wait until the token of a caller has few enough requests in progress."""
        if not caller.token or caller.nodes is not None:
            return nullcontext()
        if (turns := self._turns.get(caller.token)) is None:
            turns = self._turns[caller.token] = _Turns(self._monotonic)
        return turns.turn()

    def _bucket(self, nodes: frozenset[str]) -> _Bucket:
        """The bucket of a caller, drained up to now."""
        now, settings = self._monotonic(), self._settings
        bucket = self._buckets.setdefault(nodes, _Bucket(at=now))
        elapsed, bucket.at = now - bucket.at, now
        bucket.reports = max(0.0, bucket.reports - elapsed * settings.max_reports_per_second)
        bucket.size_bytes = max(0.0, bucket.size_bytes - elapsed * settings.max_bytes_per_second)
        return bucket

    def _check_rate(self, nodes: frozenset[str]) -> None:
        """Count a request; raises `ApiError` if its caller exceeds its rate."""
        settings, bucket = self._settings, self._bucket(nodes)
        # The last request may exceed the burst, so a body of any size is accepted after a while.
        if (
            bucket.reports >= _BURST_SECONDS * settings.max_reports_per_second
            or bucket.size_bytes >= _BURST_SECONDS * settings.max_bytes_per_second
        ):
            self._on_surplus(nodes)
            raise self._retry_later(
                f"this node sends more than {settings.max_reports_per_second:g} reports"
                f" or {settings.max_bytes_per_second} bytes per second"
            )
        bucket.reports += 1

    @contextmanager
    def storing(self, reports: Sequence[Report], caller: Caller = TRUSTED) -> Iterator[None]:
        """Count reports as waiting for the history while the block runs."""
        if caller.nodes is not None:
            self._bucket(caller.nodes).reports += len(reports) - 1  # the request counts as one
        settings, counts = self._settings, Counter(report.node for report in reports)
        if self.reports + len(reports) > settings.max_waiting_reports:
            raise self._retry_later("too many reports wait to be stored")
        for node, count in counts.items():
            if self._reports_of_node[node] + count > settings.max_waiting_reports_per_node:
                raise self._retry_later(f"too many reports of node {node} wait to be stored")
        self.reports += len(reports)
        self._reports_of_node.update(counts)
        try:
            yield
        finally:
            self.reports -= len(reports)
            _subtract(self._reports_of_node, counts)

    def _retry_later(self, reason: str) -> ApiError:
        # Random, so that clients rejected together do not return together.
        seconds = _MIN_RETRY_SECONDS + (_MAX_RETRY_SECONDS - _MIN_RETRY_SECONDS) * self._random()
        return ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"{reason}; retry later",
            headers={hdrs.RETRY_AFTER: str(math.ceil(seconds))},
        )


def _subtract(counts: Counter[Key], done: Mapping[Key, int]) -> None:
    """Subtract counts, and drop those that reach zero."""
    for key, count in done.items():
        counts[key] -= count
        if not counts[key]:
            del counts[key]


BACKPRESSURE = web.AppKey("BACKPRESSURE", Backpressure)
