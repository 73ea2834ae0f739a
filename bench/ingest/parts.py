"""CPU time of each part of a collector's work for a report, on the requests of the benchmark.

The parts run one after another in this process, in the order in which the collector runs them, with its own
functions and its history on disk. What the whole collector takes beyond their sum is the HTTP server, the
event loop and the periodic jobs.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path

from bench.ingest.requests import Plan, Request
from collector.config import CollectorConfig
from collector.history.interface import UsageKey
from collector.history.sqlite.files.connection import open_for_writing
from collector.history.sqlite.history import COMMIT_SECONDS
from collector.history.sqlite.writer import SqliteWriter
from collector.observe.registry import Registry
from collector.serve.ingest import parse_reports
from collector.serve.web.bodies import decompress
from wire.messages import Report


class Part(StrEnum):
    """One step of storing a report."""

    DECOMPRESS = "decompress"
    DECODE = "decode"
    LIMITS = "limits"
    STORE = "store"
    APPLY = "apply"
    USAGE = "usage"


class _Collector:
    """The parts of a collector without its server, and the CPU time of each."""

    def __init__(self, writer: SqliteWriter) -> None:
        self._writer = writer
        self._registry = Registry(CollectorConfig())
        self._max_bytes = CollectorConfig().http.max_body_bytes
        self.seconds = dict.fromkeys(Part, 0.0)

    def receive(self, requests: Sequence[Request], received_at: float) -> None:
        """Process the requests of one commit."""
        with self._measured(Part.DECOMPRESS):
            bodies = [
                decompress(each.body, "gzip" if each.is_compressed else "identity", self._max_bytes)
                for each in requests
            ]
        with self._measured(Part.DECODE):
            batches = [parse_reports(body) for body in bodies]
        with self._measured(Part.LIMITS):
            limit = self._registry.limits.apply
            limited = [[limit(report, received_at) for report in reports] for reports in batches]
        with self._measured(Part.STORE):
            self._writer.add([(reports, received_at) for reports in limited])
        reports = [report for reports in limited for report in reports]
        with self._measured(Part.APPLY):
            for report in reports:
                self._registry.apply(report, received_at)
        with self._measured(Part.USAGE):
            for report in reports:
                self._add_usage(report, received_at)

    def _add_usage(self, report: Report, received_at: float) -> None:
        if report.heartbeat is not None and report.heartbeat.usage:
            for _ in self._registry.usage.add(UsageKey.received(report, received_at), report.heartbeat.usage):
                pass

    @contextmanager
    def _measured(self, part: Part) -> Iterator[None]:
        began = time.thread_time()
        yield
        self.seconds[part] += time.thread_time() - began


def measure_parts(
    folder: Path, plan: Plan, per_second: float, clock: Callable[[], float] = time.time
) -> dict[Part, float]:
    """CPU microseconds of each part per report, after all nodes have joined.

    As many requests share a commit as arrive between two commits at this rate.
    """
    began = clock()
    at_once = max(1, round(per_second * COMMIT_SECONDS))
    with closing(open_for_writing(str(folder / "parts.db"))) as connection:
        collector = _Collector(SqliteWriter(connection, CollectorConfig().history.retention_hours * 3600))
        for start in range(0, len(plan.joins), at_once):
            collector.receive(plan.joins[start : start + at_once], began)
        collector.seconds = dict.fromkeys(Part, 0.0)
        for start in range(0, len(plan.follows), at_once):
            collector.receive(plan.follows[start : start + at_once], began + start / per_second)
    return {part: 1e6 * seconds / len(plan.follows) for part, seconds in collector.seconds.items()}
