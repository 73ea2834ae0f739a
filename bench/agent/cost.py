"""CPU and memory of the agent and of other monitors on the same host, and the load on the engine.

The containers are real and idle. The agent is a real process that pushes to a real collector and is scraped;
then other monitors run on the same containers. The engine is measured alone first, to know the load that a
monitor adds. A second part keeps every core busy and counts missed samples; a third adds containers.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from bench.agent.monitors import PEERS, SAMPLING_SECONDS, Monitor, Start, agent
from bench.common.measurement import CpuMeter, buckets_between, histogram_quantile, memory, samples, total
from bench.common.progress import Progress
from bench.common.requirements import Need, is_left_out, lab_part
from bench.common.results import Figure, Result
from tests.lab.engines.docker import Engine, docker_engine
from wire.errors import UserError

SCRAPE_SECONDS = 15.0
SETTLE_SECONDS = 10.0

MOST_CPU_PERCENT = 1.5
MOST_RSS_MB = 60.0
MOST_ENGINE_POINTS = 0.3
MOST_PASS_SECONDS = 0.04

_CORE = "% of one core"
_DURATIONS = "wattpack_agent_pass_duration_seconds_bucket"


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU and memory of a monitor during one measurement."""

    seconds: float
    cpu_percent: float
    rss_mb: float
    """The highest value, as in `pss_mb`."""
    pss_mb: float
    engine_added_points: float
    first_scrape: str
    last_scrape: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--containers", type=int, default=100, help="number of idle containers")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each measurement")
    parser.add_argument("--busy-seconds", type=float, default=300.0, help="duration of the load on all cores")
    parser.add_argument(
        "--growth",
        type=_counts,
        default=(10, 100, 400),
        metavar="N,N,...",
        help="numbers of containers; cost must not grow faster than they do; empty to skip this part",
    )
    parser.add_argument(
        "--peers",
        type=lambda text: tuple(filter(None, text.split(","))),
        default=tuple(PEERS),
        metavar="NAME,...",
        help="other monitors to measure; empty for none",
    )


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(each) for each in text.split(",") if each))


def needs(options: argparse.Namespace) -> list[Need]:
    """An engine, and each peer for its comparison."""
    if unknown := set(options.peers) - set(PEERS):
        raise UserError(f"--peers: there is no {min(unknown)!r}: choose from {', '.join(PEERS)}")
    return [lab_part("docker"), *(PEERS[name].need for name in options.peers)]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Measure all parts on one engine."""
    figures: list[Figure] = []
    cpu_by_count: dict[int, float] = {}
    with docker_engine() as engine:
        bench = _MonitorBench(engine, progress, options.seconds)
        for count in sorted({*options.growth, options.containers}):
            bench.fill(count)
            if count != options.containers:
                cpu_by_count[count] = bench.measure("agent", agent).cpu_percent
                continue
            bench.measure_engine()
            figures.append(Figure(name="engine_alone_cpu", value=bench.engine_percent, unit=_CORE))
            ours = bench.measure("agent", agent)
            cpu_by_count[count] = ours.cpu_percent
            figures += _agent_figures(ours, count)
            for name in options.peers:
                if not is_left_out(options, name):
                    figures += _peer_figures(name, ours, bench.measure(name, PEERS[name].start))
            if options.busy_seconds:
                figures += bench.while_busy(options.busy_seconds)
    figures += _growth_figures({count: cpu_by_count[count] for count in options.growth})
    return Result(tuple(figures), {**_settings(options), "sampling_seconds": SAMPLING_SECONDS})


def _settings(options: argparse.Namespace) -> dict[str, object]:
    return {name: value for name, value in vars(options).items() if name != "left_out"}


class _MonitorBench:
    """An engine with idle containers; measures monitors on it, one after the other."""

    def __init__(self, engine: Engine, progress: Progress, seconds: float) -> None:
        self._engine = engine
        self._progress = progress
        self._seconds = seconds
        self._containers = 0
        self.engine_percent = 0.0

    @property
    def _engine_pid(self) -> int:
        return int((self._engine.root / "docker.pid").read_text(encoding="ascii"))

    def fill(self, containers: int) -> None:
        """Start containers until there are this many."""
        with self._progress.track("starting containers", containers) as show:
            for number in range(self._containers, containers):
                self._engine.run(f"idle-{number}", "sleep", "1000000")
                show(number + 1)
        self._containers = containers
        self._progress.wait("settling", SETTLE_SECONDS)

    def measure_engine(self) -> None:
        """Measure the CPU usage of the engine without a monitor."""
        meter = CpuMeter(self._engine_pid)
        self._progress.wait("engine alone", self._seconds)
        self.engine_percent = meter.percent()

    def measure(self, name: str, start: Start) -> Cost:
        """Measure one monitor after it has settled."""
        label = f"{name} with {self._containers} containers"
        with start(self._engine) as monitor:
            self._progress.wait(f"{label}, settling", SETTLE_SECONDS)
            with self._progress.track(label, self._seconds, " s") as show:
                return self._measure(monitor, self._seconds, show)

    def while_busy(self, seconds: float) -> tuple[Figure, ...]:
        """Count the samples that the agent misses while other processes use every core."""
        with agent(self._engine) as monitor, _busy_cores():
            self._progress.wait("all cores busy, settling", SETTLE_SECONDS)
            with self._progress.track("all cores busy", seconds, " s") as show:
                cost = self._measure(monitor, seconds, show)
        first, last = samples(cost.first_scrape), samples(cost.last_scrape)
        missed, taken = "wattpack_agent_missed_samples_total", "wattpack_agent_samples_total"
        return (
            Figure(
                name="busy_missed_samples",
                value=total(last, missed) - total(first, missed),
                unit="samples",
                at_most=0,
            ),
            Figure(
                name="busy_samples",
                value=total(last, taken) - total(first, taken),
                unit="samples",
                at_least=1,
            ),
        )

    def _measure(self, monitor: Monitor, seconds: float, show: Callable[[float], None]) -> Cost:
        began_seconds = time.monotonic()
        cpu, engine_cpu = CpuMeter(monitor.pid), CpuMeter(self._engine_pid)
        scrapes, memories = [monitor.scrape()], [memory(monitor.pid)]
        while (left_seconds := began_seconds + seconds - time.monotonic()) > 0:
            time.sleep(min(left_seconds, SCRAPE_SECONDS))
            scrapes.append(monitor.scrape())
            memories.append(memory(monitor.pid))
            show(time.monotonic() - began_seconds)
        return Cost(
            seconds=time.monotonic() - began_seconds,
            cpu_percent=cpu.percent(),
            rss_mb=max(each.rss_mb for each in memories),
            pss_mb=max(each.pss_mb for each in memories),
            engine_added_points=engine_cpu.percent() - self.engine_percent,
            first_scrape=scrapes[0],
            last_scrape=scrapes[-1],
        )


@contextmanager
def _busy_cores() -> Iterator[None]:
    processes = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


# --- Figures --------------------------------------------------------------------------------


def _agent_figures(cost: Cost, containers: int) -> tuple[Figure, ...]:
    first, last = samples(cost.first_scrape), samples(cost.last_scrape)
    passes = buckets_between(first, last, _DURATIONS)
    # Counted since the agent's start: with idle containers it sends a beacon every 30 s, and a short
    # measurement can miss that.
    delivered = "wattpack_agent_delivered_reports_total"
    return (
        Figure(name="agent_cpu", value=cost.cpu_percent, unit=_CORE, at_most=MOST_CPU_PERCENT),
        Figure(name="agent_rss", value=cost.rss_mb, unit="MB", at_most=MOST_RSS_MB),
        Figure(name="agent_pss", value=cost.pss_mb, unit="MB"),
        Figure(
            name="agent_engine_cpu_added",
            value=cost.engine_added_points,
            unit="points of one core",
            at_most=MOST_ENGINE_POINTS,
        ),
        Figure(name="agent_pass_p50", value=histogram_quantile(passes, 0.5), unit="s"),
        Figure(
            name="agent_pass_p99", value=histogram_quantile(passes, 0.99), unit="s", at_most=MOST_PASS_SECONDS
        ),
        # These check that the agent does its work: one that measures little is cheap too.
        Figure(
            name="agent_containers_seen",
            value=len([each for each in last if each.name == "wattpack_container_info"]),
            unit="containers",
            at_least=containers,
        ),
        Figure(
            name="agent_reports_delivered",
            value=total(last, delivered),
            unit="reports",
            at_least=1,
        ),
    )


def _peer_figures(name: str, ours: Cost, theirs: Cost) -> tuple[Figure, ...]:
    return (
        Figure(name=f"{name}_cpu", value=theirs.cpu_percent, unit=_CORE),
        Figure(name=f"{name}_rss", value=theirs.rss_mb, unit="MB"),
        Figure(name=f"{name}_pss", value=theirs.pss_mb, unit="MB"),
        Figure(name=f"{name}_engine_cpu_added", value=theirs.engine_added_points, unit="points of one core"),
        Figure(
            name=f"agent_cpu_by_{name}",
            value=ours.cpu_percent / theirs.cpu_percent,
            unit="ratio",
            at_most=1.0,
        ),
        Figure(name=f"agent_rss_by_{name}", value=ours.rss_mb / theirs.rss_mb, unit="ratio", at_most=1.0),
    )


def _growth_figures(cpu_by_count: dict[int, float]) -> Iterator[Figure]:
    counts = sorted(cpu_by_count)
    for count in counts:
        yield Figure(name=f"agent_cpu_at_{count}", value=cpu_by_count[count], unit=_CORE)
    for fewer, more in pairwise(counts):
        yield Figure(
            name=f"growth_from_{fewer}_to_{more}",
            value=cpu_by_count[more] / cpu_by_count[fewer],
            unit="times the CPU",
            at_most=more / fewer,
        )
