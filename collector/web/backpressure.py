"""Limits on request bodies, and on reports that are not stored yet: in total, per node and per token.

An overloaded collector answers 429 instead of growing until it is killed, and a node that sends too much
exhausts its own share only.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import TypeVar

from aiohttp import hdrs, web

from collector.common.errors import ApiError
from collector.config import IngestConfig
from collector.web.scopes import TRUSTED, Caller
from wire.messages import Report

Key = TypeVar("Key", bound=Hashable)

_REQUESTS_PER_CALLER = 4
"""An agent has one request in flight, or two just after a restart."""
_SHARES = 4
"""One token may use a quarter of the bytes of all bodies."""
_MIN_RETRY_SECONDS, _MAX_RETRY_SECONDS = 2.0, 10.0


class Backpressure:
    """Counts waiting requests and reports, and rejects those above the limits."""

    def __init__(self, settings: IngestConfig, rng: Callable[[], float] = random.random) -> None:
        self._settings = settings
        self._random = rng
        self._requests: Counter[frozenset[str]] = Counter()
        self._reports_of_node: Counter[str] = Counter()
        self._bytes_of: Counter[Caller] = Counter()
        self.reports = 0
        self.size_bytes = 0

    @contextmanager
    def request(self, caller: Caller) -> Iterator[Callable[[int], None]]:
        """Count a request while the block runs; yields a function that counts bytes of its body.

        A caller that is bound to nodes may have a few requests at once; more are rejected unread.
        """
        node = caller.nodes
        if node is not None and self._requests[node] >= _REQUESTS_PER_CALLER:
            raise self._retry_later("this node has too many requests in progress")
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
            self._requests[node] += 1
        try:
            yield add_bytes
        finally:
            self.size_bytes -= body_bytes
            _subtract(self._bytes_of, {caller: body_bytes})
            if node is not None:
                _subtract(self._requests, {node: 1})

    @contextmanager
    def storing(self, reports: Sequence[Report]) -> Iterator[None]:
        """Count reports as waiting for the history while the block runs."""
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
