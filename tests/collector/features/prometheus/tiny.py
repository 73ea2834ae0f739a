"""A store of time series that knows just the questions that are asked, and can be away."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from collector.common.errors import HistoryUnavailable
from collector.features.prometheus.writer import SampleWriter
from collector.history.promql import Instant, Range
from tests.collector.features.prometheus.decoding import decode
from wire.messages import Report

Labels = tuple[tuple[str, str], ...]
LOOKBACK_SECONDS = 300.0


@dataclass
class TinyStore:
    """What was written, by series and time."""

    url: str = "http://tiny"
    away: bool = False
    samples: dict[Labels, dict[float, float]] = field(default_factory=lambda: defaultdict(dict))
    widest_seconds: float = 0.0
    """The longest time that was asked for at once."""

    def put(self, at: float, value: float, **labels: str) -> None:
        self.samples[tuple(sorted(labels.items()))][at] = value

    def write(self, scribe: SampleWriter, *reports: Report) -> None:
        """Take what a collector that got these reports writes."""
        for report in reports:
            for series in decode(scribe.write(report, report.at)):
                for at, value in series.samples:
                    self.samples[series.labels][at / 1000] = value

    async def query(self, promql: str, at: float) -> list[Instant]:
        found = []
        for labels, samples in self._selected(promql):
            latest = max((time for time in samples if at - LOOKBACK_SECONDS < time <= at), default=None)
            if latest is not None and not math.isnan(samples[latest]):
                found.append(Instant(dict(labels), (at, repr(samples[latest]))))
        return found

    async def query_raw(self, selector: str, at: float, seconds: float) -> list[Range]:
        self.widest_seconds = max(self.widest_seconds, seconds)
        found = []
        for labels, samples in self._selected(selector):
            # Both ends belong to it, as in Prometheus before version 3.
            values = [(time, repr(samples[time])) for time in sorted(samples) if at - seconds <= time <= at]
            if values:
                found.append(Range(dict(labels), values))
        return found

    def _selected(self, selector: str) -> Iterator[tuple[Labels, dict[float, float]]]:
        if self.away:
            raise HistoryUnavailable("connection refused")
        matchers = re.findall(r'(\w+)=~"((?:[^"\\]|\\.)*)"', selector)
        for labels, samples in self.samples.items():
            known = dict(labels)
            if all(re.fullmatch(re.sub(r"\\(.)", r"\1", fit), known.get(key, "")) for key, fit in matchers):
                yield labels, samples
