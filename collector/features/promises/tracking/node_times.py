"""Times that a node reports, by the collector's clock. Pure.

The clock of a node may be wrong, and a report may wait in a spool before it is sent. It never arrives before
it was made, so the shortest time from the making of a report to its receipt is how far the clock of the node
is behind: all its times are shifted by that. If the clock was set back, it is measured again.
"""

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from wire.messages import Report

_SAMPLES_LATE = 2
"""An agent waits for an event of the runtime for one sample, after the one that shows the change."""


class ReportTimes(NamedTuple):
    """The time that a report is about, by the collector's clock."""

    since: float
    """The time of the report before: what is new happened since."""
    at: float
    """When it was made."""
    offset_seconds: float
    """How far the clock of the node is behind."""

    def of(self, at: float | None) -> float:
        """The time of something new, from its time by the clock of the node; None is unknown."""
        return self.at if at is None else min(max(at + self.offset_seconds, self.since), self.at)


@dataclass(slots=True)
class NodeTimes:
    """The clock of a node, and the time up to which it has reported."""

    boot: str = ""
    sequence: int = 0
    newest_at: float = -inf
    """The time of its newest report, by its own clock."""
    offset_seconds: float = inf
    reported_until: float | None = None
    """The time of its newest report, by the collector's clock; None before the first one."""
    sample_seconds: float = 1.0
    """Time between two samples of its agent; a second if it does not report it."""
    run_since: float = 0.0
    """The end of the run before: what a late report of this run contains happened since."""

    def read(self, report: Report, received_at: float) -> ReportTimes:
        """The times of a report, which is of the present run or begins a new one."""
        is_new_run = report.boot != self.boot
        is_newer = is_new_run or report.sequence > self.sequence
        if report.heartbeat is not None:
            self.sample_seconds = report.heartbeat.sample_seconds or 1.0
        if is_newer and report.at < self.newest_at:
            self.offset_seconds = inf
        self.offset_seconds = min(self.offset_seconds, received_at - report.at)
        at = min(report.at + self.offset_seconds, received_at)
        if self.reported_until is None:
            self.reported_until = at
        if is_new_run:
            self.boot, self.run_since, since = report.boot, self.reported_until, self.reported_until
        elif is_newer:
            since = max(self.run_since, self.reported_until - _SAMPLES_LATE * self.sample_seconds)
        else:
            since = self.run_since
        if is_newer:
            self.sequence, self.newest_at = report.sequence, report.at
            self.reported_until = max(self.reported_until, at)
        return ReportTimes(min(since, at), at, self.offset_seconds)
