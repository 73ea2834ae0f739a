"""CPU and memory of a process and its children, and metrics from a scrape."""

import math
import time
from dataclasses import dataclass

import psutil
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


class CpuMeter:
    """CPU usage of a process and its descendants since construction, in percent of one core."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began_seconds = time.monotonic()
        self._used_seconds = self._cpu_seconds()

    def percent(self) -> float:
        elapsed_seconds = time.monotonic() - self._began_seconds
        return 100 * (self._cpu_seconds() - self._used_seconds) / elapsed_seconds

    def _cpu_seconds(self) -> float:
        # The time of a child that ended counts for its parent, so none is lost.
        return sum(sum(process.cpu_times()[:4]) for process in family(self._pid))


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a process and its descendants."""

    rss_mb: float
    pss_mb: float


def memory(pid: int) -> Memory:
    """Measure the memory in use."""
    full = [process.memory_full_info() for process in family(pid)]
    return Memory(sum(info.rss for info in full) / 1e6, sum(info.pss for info in full) / 1e6)


def family(pid: int) -> list[psutil.Process]:
    """A process and its descendants."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def samples(exposition: str) -> list[Sample]:
    """Parse every series of a scrape."""
    return [sample for family in text_string_to_metric_families(exposition) for sample in family.samples]


def total(scraped: list[Sample], name: str) -> float:
    """Sum all series of one name."""
    return sum(sample.value for sample in scraped if sample.name == name)


def buckets_between(first: list[Sample], last: list[Sample], name: str) -> dict[float, float]:
    """Count the observations between two scrapes that are at or below each bound."""
    before = {sample.labels["le"]: sample.value for sample in first if sample.name == name}
    return {
        float(sample.labels["le"]): sample.value - before.get(sample.labels["le"], 0.0)
        for sample in last
        if sample.name == name
    }


def histogram_quantile(at_or_below: dict[float, float], ratio: float) -> float | None:
    """Estimate a quantile as Prometheus does, by a straight line within its bucket.

    Above the last finite bound the result is infinite, because that bound would be too low; without
    observations it is None.
    """
    total = max(at_or_below.values(), default=0.0)
    if total == 0:
        return None
    lower_bound, lower_count = 0.0, 0.0
    for bound, count in sorted(at_or_below.items()):
        if count >= ratio * total:
            if math.isinf(bound):
                return math.inf
            return lower_bound + (bound - lower_bound) * (ratio * total - lower_count) / (count - lower_count)
        lower_bound, lower_count = bound, count
    return math.inf
