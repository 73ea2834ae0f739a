"""When all instances of a service ran at the same time."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, groupby
from math import inf, isnan, nan
from operator import itemgetter
from typing import NamedTuple

from collector.features.promises.ledger.instance_state import Span


class Presence(NamedTuple):
    """When an instance was wanted, and when it ran."""

    wanted: Span
    spans: Sequence[Span]


class Concurrency:
    """The times in which all instances ran."""

    def __init__(self, closed: Sequence[Span], since: float) -> None:
        self.since = since
        """Since when all instances run; NaN if they do not."""
        self._starts = [each.start for each in closed]
        self._ends = [each.end for each in closed]
        self._sums = [0.0, *accumulate(each.end - each.start for each in closed)]

    def closed_seconds(self, wanted: Span) -> float:
        """The concurrent time in which an instance was wanted, without the time since `since`."""
        return self._closed_until(wanted.end) - self._closed_until(wanted.start)

    def seconds(self, wanted: Span, until: float) -> float:
        """The concurrent time up to a moment in which an instance was wanted."""
        wanted = Span(wanted.start, max(min(wanted.end, until), wanted.start))
        lasting = 0.0 if isnan(self.since) else max(wanted.end - max(self.since, wanted.start), 0.0)
        return self.closed_seconds(wanted) + lasting

    def _closed_until(self, at: float) -> float:
        begun = bisect_right(self._starts, at)
        if not begun:
            return 0.0
        return self._sums[begun] - max(self._ends[begun - 1] - at, 0.0)


def find_concurrency(instances: Sequence[Presence]) -> Concurrency:
    """Find the times in which every instance that was wanted ran."""
    changes: list[tuple[float, int, int]] = []
    for wanted, spans in instances:
        changes += [(wanted.start, 1, 0), (wanted.end, -1, 0)]
        for span in spans:
            start, end = max(span.start, wanted.start), min(span.end, wanted.end)
            if start < end:
                changes += [(start, 0, 1), (end, 0, -1)]
    changes.sort()
    closed: list[Span] = []
    present = running = 0
    start = nan
    for at, group in groupby(changes, key=itemgetter(0)):
        if at == inf:
            break
        for _, more_present, more_running in group:
            present += more_present
            running += more_running
        if isnan(start) and 0 < present == running:
            start = at
        elif not isnan(start) and not 0 < present == running:
            closed.append(Span(start, at))
            start = nan
    return Concurrency(closed, start)
