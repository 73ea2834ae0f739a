"""What the two processes of a collector use while a benchmark runs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

import psutil

from bench.ingest.processes import cpu_seconds, resident_mb, worker_of

_SAMPLE_SECONDS = 1.0


@dataclass(slots=True)
class Usage:
    """What the two processes of a collector use, once a second."""

    serving_mb: float = 0.0
    """Peak; so are the next two."""
    worker_mb: float = 0.0
    total_mb: float = 0.0
    empty_mb: float = 0.0
    """Of both processes, before nodes joined."""
    busy: list[tuple[float, float, float]] = field(default_factory=list)
    """Unix time at the end of a second, and the share of a core that each process used in it."""


@contextmanager
def sampled(process: psutil.Popen) -> Iterator[Usage]:
    """Measure what a collector uses, once a second while the block runs."""
    usage, stop = Usage(empty_mb=_total_mb(process)), Event()
    sampling = Thread(target=_sample, args=(process, usage, stop))
    sampling.start()
    try:
        yield usage
    finally:
        stop.set()
        sampling.join()


def _sample(process: psutil.Popen, usage: Usage, stop: Event) -> None:
    at, used = time.time(), (0.0, 0.0)
    while not stop.wait(_SAMPLE_SECONDS):
        try:
            worker = worker_of(process)
            serving_mb, worker_mb = resident_mb(process), resident_mb(worker)
            now, now_used = time.time(), (cpu_seconds(process), cpu_seconds(worker))
        except psutil.NoSuchProcess:
            continue
        usage.serving_mb = max(usage.serving_mb, serving_mb)
        usage.worker_mb = max(usage.worker_mb, worker_mb)
        usage.total_mb = max(usage.total_mb, serving_mb + worker_mb)
        elapsed = now - at
        usage.busy.append((now, (now_used[0] - used[0]) / elapsed, (now_used[1] - used[1]) / elapsed))
        at, used = now, now_used


def _total_mb(process: psutil.Popen) -> float:
    return resident_mb(process) + resident_mb(worker_of(process))
