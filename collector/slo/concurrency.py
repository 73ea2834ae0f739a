"""When all instances of a service ran at the same time."""

from collections.abc import Sequence
from itertools import groupby
from math import inf, isnan, nan
from operator import itemgetter
from typing import NamedTuple

from collector.slo.life import Span


class Presence(NamedTuple):
    """When an instance was wanted, and when it ran; open spans end at infinity."""

    wanted: Span
    spans: Sequence[Span]


class Concurrency(NamedTuple):
    """The times in which all instances ran."""

    closed: Sequence[Span]
    since: float
    """The beginning of the one that lasts; NaN if there is none."""

    def closed_seconds(self, wanted: Span) -> float:
        """The closed time in which an instance was wanted."""
        return sum(_overlap(each, wanted) for each in self.closed)

    def seconds(self, wanted: Span, until: float) -> float:
        """The time up to a moment in which an instance was wanted."""
        wanted = Span(wanted.start, min(wanted.end, until))
        lasting = 0.0 if isnan(self.since) else _overlap(Span(self.since, until), wanted)
        return self.closed_seconds(wanted) + lasting


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


def _overlap(one: Span, other: Span) -> float:
    return max(min(one.end, other.end) - max(one.start, other.start), 0.0)
