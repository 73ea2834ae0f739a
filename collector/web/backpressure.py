"""What has come in and is not kept yet: bounded, as a whole and per node.

A collector that is overrun says so at once, with 429, instead of growing until it is killed; and a node that
sends without end finds its own share full, not everybody's.
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
from collector.web.scopes import Caller
from wire.messages import Report

Key = TypeVar("Key", bound=Hashable)

_REQUESTS_PER_CALLER = 4
"""An agent has one under way, or two when it has just been restarted."""
_SOONEST_SECONDS, _LATEST_SECONDS = 2.0, 10.0


class Backpressure:
    """Counts what waits, and refuses what would be too much."""

    def __init__(self, settings: IngestConfig, chance: Callable[[], float] = random.random) -> None:
        self._settings = settings
        self._chance = chance
        self._requests: Counter[frozenset[str]] = Counter()
        self._of_node: Counter[str] = Counter()
        self.reports = 0
        self.size_bytes = 0

    @contextmanager
    def request(self, caller: Caller) -> Iterator[Callable[[int], None]]:
        """Give a place to a request as long as the block runs; gives a function that takes room for its body.

        Whoever is known to speak for a node is held to a few requests at once, before a byte of them is read.
        """
        node = caller.nodes
        if node is not None and self._requests[node] >= _REQUESTS_PER_CALLER:
            raise self._later("this node has other requests under way")
        taken_bytes = 0

        def grow(size_bytes: int) -> None:
            nonlocal taken_bytes
            others_bytes = self.size_bytes - taken_bytes
            # One that is alone is never too much: its own limit is that of a body.
            if others_bytes and self.size_bytes + size_bytes > self._settings.max_waiting_bytes:
                raise self._later("the collector has as many bodies to read as it may")
            taken_bytes += size_bytes
            self.size_bytes += size_bytes

        if node is not None:
            self._requests[node] += 1
        try:
            yield grow
        finally:
            self.size_bytes -= taken_bytes
            if node is not None:
                _subtract(self._requests, {node: 1})

    @contextmanager
    def room_for(self, reports: Sequence[Report]) -> Iterator[None]:
        """Let reports wait for the history as long as the block runs."""
        settings, counts = self._settings, Counter(report.node for report in reports)
        if self.reports + len(reports) > settings.max_waiting_reports:
            raise self._later("the collector has as many reports to keep as it may")
        for node, count in counts.items():
            if self._of_node[node] + count > settings.max_waiting_reports_per_node:
                raise self._later(f"the collector has as many reports of {node} to keep as it may")
        self.reports += len(reports)
        self._of_node.update(counts)
        try:
            yield
        finally:
            self.reports -= len(reports)
            _subtract(self._of_node, counts)

    def _later(self, why: str) -> ApiError:
        # Not the same for all: who was refused together should not come back together.
        seconds = _SOONEST_SECONDS + (_LATEST_SECONDS - _SOONEST_SECONDS) * self._chance()
        return ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"{why}: send it again later",
            headers={hdrs.RETRY_AFTER: str(math.ceil(seconds))},
        )


def _subtract(counts: Counter[Key], done: Mapping[Key, int]) -> None:
    """Take away what is done; a count that is nothing takes no room."""
    for key, count in done.items():
        counts[key] -= count
        if not counts[key]:
            del counts[key]


WAITING = web.AppKey("WAITING", Backpressure)
