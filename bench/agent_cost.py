"""What watching costs the host: CPU and memory of the agent, and the work that it makes for the engine.

Real idle containers, the real agent as a process, pushing to a real collector and being scraped. The engine
is measured alone first, so that what a watcher adds to it is known.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from bench.frame import Figure, Progress, Result
from tests.lab.docker import Engine, docker_engine
from tests.lab.parts import why_not
from tests.lab.reaper import Reaper
from tests.lab.serving import serving
from wire.complaint import Complaint

SAMPLING_SECONDS = 3.0
SCRAPE_SECONDS = 5.0
SETTLE_SECONDS = 10.0

MOST_CPU_PERCENT = 1.5
MOST_RSS_MB = 60.0
MOST_ENGINE_POINTS = 0.3

_CORE = "% of one core"


@dataclass(frozen=True, slots=True)
class Watcher:
    """Something that watches the containers, running."""

    pid: int
    scrape: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Cost:
    """What was used while a watcher watched for some time."""

    seconds: float
    cpu_percent: float
    rss_mb: float
    """The most that was seen, as is the next."""
    pss_mb: float
    engine_added_points: float
    first_scrape: str
    last_scrape: str


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind of watcher. All are measured in the same way; `judge` makes figures of cost and containers."""

    name: str
    start: Callable[[Engine], AbstractContextManager[Watcher]]
    judge: Callable[[Cost, int], tuple[Figure, ...]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what can be chosen."""
    parser.add_argument("--containers", type=int, default=50, help="idle containers to watch")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each measurement")


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Measure every subject on one engine with its containers."""
    if reason := why_not("docker"):
        raise Complaint(f"agent-cost cannot run a Docker engine of its own here: it {reason}")
    containers, seconds = options.containers, options.seconds
    with docker_engine() as engine:
        with progress.track("starting containers", containers) as show:
            for number in range(containers):
                engine.run(f"idle-{number}", "sleep", "1000000")
                show(number + 1)
        progress.wait("settling", SETTLE_SECONDS)
        engine_meter = _CpuMeter(_pid(engine))
        progress.wait("engine alone", seconds)
        alone_percent = engine_meter.percent()
        figures = [Figure(name="engine_alone_cpu", value=alone_percent, unit=_CORE)]
        for subject in SUBJECTS:
            with subject.start(engine) as watcher:
                progress.wait(f"{subject.name} settling", SETTLE_SECONDS)
                with progress.track(f"{subject.name} watched", seconds, " s") as show:
                    cost = _measure(watcher, _pid(engine), alone_percent, seconds, show)
            figures += subject.judge(cost, containers)
    settings = {
        "containers": containers,
        "seconds": seconds,
        "sampling_seconds": SAMPLING_SECONDS,
        "scrape_seconds": SCRAPE_SECONDS,
    }
    return Result(tuple(figures), settings)


def _measure(
    watcher: Watcher,
    engine_pid: int,
    engine_alone_percent: float,
    seconds: float,
    show: Callable[[float], None],
) -> Cost:
    began_seconds = time.monotonic()
    cpu, engine_cpu = _CpuMeter(watcher.pid), _CpuMeter(engine_pid)
    scrapes, memories = [watcher.scrape()], [_memory_mb(watcher.pid)]
    while (left_seconds := began_seconds + seconds - time.monotonic()) > 0:
        time.sleep(min(left_seconds, SCRAPE_SECONDS))
        scrapes.append(watcher.scrape())
        memories.append(_memory_mb(watcher.pid))
        show(time.monotonic() - began_seconds)
    return Cost(
        seconds=time.monotonic() - began_seconds,
        cpu_percent=cpu.percent(),
        rss_mb=max(rss for rss, _ in memories),
        pss_mb=max(pss for _, pss in memories),
        engine_added_points=engine_cpu.percent() - engine_alone_percent,
        first_scrape=scrapes[0],
        last_scrape=scrapes[-1],
    )


# --- Processes ------------------------------------------------------------------------------


class _CpuMeter:
    """CPU use of a process and its descendants from now on, in percent of one core."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began_seconds = time.monotonic()
        self._used_seconds = self._cpu_seconds()

    def percent(self) -> float:
        elapsed_seconds = time.monotonic() - self._began_seconds
        return 100 * (self._cpu_seconds() - self._used_seconds) / elapsed_seconds

    def _cpu_seconds(self) -> float:
        # A child that ends leaves its time with its parent, so that nothing is lost in between.
        return sum(sum(process.cpu_times()[:4]) for process in _family(self._pid))


def _memory_mb(pid: int) -> tuple[float, float]:
    """RSS and PSS of a process and its descendants."""
    full = [process.memory_full_info() for process in _family(pid)]
    return sum(info.rss for info in full) / 1e6, sum(info.pss for info in full) / 1e6


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _pid(engine: Engine) -> int:
    return int((engine.root / "docker.pid").read_text(encoding="ascii"))


# --- Our agent ------------------------------------------------------------------------------


@contextmanager
def _start_agent(engine: Engine) -> Iterator[Watcher]:
    with Reaper() as reaper:
        root = reaper.make_directory("bench")
        collector_config = f"""
            http.listen = "127.0.0.1:0"
            history.path = "{root / "collector.db"}"
        """
        with serving(
            reaper, _command(root, "collector", collector_config), root / "collector.log", "/healthz"
        ) as collector:
            agent_config = f"""
                sampling.period_seconds = {SAMPLING_SECONDS}
                http.listen = "127.0.0.1:0"
                docker.socket = "{engine.socket}"
                collector.url = "{collector.url}"
            """
            with serving(
                reaper, _command(root, "agent", agent_config), root / "agent.log", "/healthz"
            ) as agent:
                yield Watcher(agent.pid, lambda: agent.request("GET", "/metrics").decode())


def _command(root: Path, role: str, config: str) -> list[str]:
    file = root / f"{role}.toml"
    file.write_text(config, encoding="utf-8")
    return [sys.executable, "-m", "wattpack", role, "--config", str(file)]


def _judge_agent(cost: Cost, containers: int) -> tuple[Figure, ...]:
    first, last = _samples(cost.first_scrape), _samples(cost.last_scrape)
    buckets = _buckets_between(first, last, "wattpack_agent_pass_duration_seconds_bucket")
    delivered = "wattpack_agent_delivered_reports_total"
    return (
        *_common_figures("agent", cost, MOST_CPU_PERCENT, MOST_RSS_MB, MOST_ENGINE_POINTS),
        Figure(name="agent_pass_p50", value=histogram_quantile(buckets, 0.5), unit="s"),
        Figure(name="agent_pass_p99", value=histogram_quantile(buckets, 0.99), unit="s"),
        # An agent that sees little and says nothing is cheap too.
        Figure(
            name="agent_containers_seen",
            value=len([sample for sample in last if sample.name == "wattpack_container_info"]),
            unit="containers",
            at_least=containers,
        ),
        Figure(
            name="agent_reports_delivered",
            value=_sum(last, delivered) - _sum(first, delivered),
            unit="reports",
            at_least=max(1, math.floor(cost.seconds / SAMPLING_SECONDS) - 1),
        ),
    )


def _common_figures(
    name: str,
    cost: Cost,
    most_cpu_percent: float | None = None,
    most_rss_mb: float | None = None,
    most_engine_points: float | None = None,
) -> tuple[Figure, ...]:
    return (
        Figure(name=f"{name}_cpu", value=cost.cpu_percent, unit=_CORE, at_most=most_cpu_percent),
        Figure(name=f"{name}_rss", value=cost.rss_mb, unit="MB", at_most=most_rss_mb),
        Figure(name=f"{name}_pss", value=cost.pss_mb, unit="MB"),
        Figure(
            name=f"{name}_engine_cpu_added",
            value=cost.engine_added_points,
            unit="points of one core",
            at_most=most_engine_points,
        ),
    )


SUBJECTS = (Subject("agent", _start_agent, _judge_agent),)


# --- Scrapes --------------------------------------------------------------------------------


def _samples(exposition: str) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(exposition) for sample in family.samples]


def _sum(samples: list[Sample], name: str) -> float:
    return sum(sample.value for sample in samples if sample.name == name)


def _buckets_between(first: list[Sample], last: list[Sample], name: str) -> dict[float, float]:
    """How many observations between two scrapes were at or below each bound."""
    before = {sample.labels["le"]: sample.value for sample in first if sample.name == name}
    return {
        float(sample.labels["le"]): sample.value - before.get(sample.labels["le"], 0.0)
        for sample in last
        if sample.name == name
    }


def histogram_quantile(at_or_below: dict[float, float], ratio: float) -> float | None:
    """Estimate a quantile as Prometheus does, by a straight line within its bucket.

    Above the last bound it is infinite rather than that bound, which would be flattery; with no
    observation at all it is not known.
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
