"""Tracks which stored reports are applied, so that a stored state continues with the others, each once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from collector.common.report_key import ReportKey
from wire.messages import Report


class Progress(NamedTuple):
    """How far reports are applied: all that were received before a time, and some since."""

    until: float
    since: tuple[ReportKey, ...]


class AppliedReports:
    """Reports that are being stored, and those that were applied recently. Belongs to the event loop."""

    def __init__(self) -> None:
        self._receiving: Counter[float] = Counter()
        self._applied: list[tuple[float, ReportKey]] = []

    @contextmanager
    def receiving(self, received_at: float) -> Iterator[None]:
        """Mark a block that stores and applies reports."""
        self._receiving[received_at] += 1
        try:
            yield
        finally:
            self._receiving[received_at] -= 1
            if not self._receiving[received_at]:
                del self._receiving[received_at]
            self._forget(min(self._receiving, default=received_at))

    def add(self, report: Report, received_at: float) -> None:
        self._applied.append((received_at, ReportKey.of(report)))

    def progress(self, now: float) -> Progress:
        """Return how far reports are applied now."""
        until = min(self._receiving, default=now)
        self._forget(until)
        return Progress(until, tuple(key for _, key in self._applied))

    def _forget(self, until: float) -> None:
        """Forget the reports that were received before a time, which are all applied."""
        self._applied = [each for each in self._applied if each[0] >= until]
