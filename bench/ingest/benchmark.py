"""A thousand nodes report to a collector on one core: throughput, latency, cost, and durability after a kill.

The collector is the real command with its history on disk, bound to one core; on the other core a load
generator sends the requests of agents over real HTTP at a fixed rate. Then the collector is killed at a
random moment of a second period and started again: every acknowledged report must be stored exactly once. A
tenth of the nodes at the same rate shows whether the cost of a report grows with the cluster.

With --profile, the cost of a report is divided instead: among the parts of the collector's work, on the same
requests, and next to a server that only receives, decompresses, decodes and commits them.

With --steady, a whole cluster reports at its normal rhythm while people, Prometheus and kube-scheduler ask.
With --kills, the collector and its worker are killed in turn under load, and what they answer afterwards is
compared with what they answered before.
"""

import argparse
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import msgspec
import psutil

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.ingest import kills, steady
from bench.ingest.load_generator import LoadOutcome, LoadSettings
from bench.ingest.parts import Part, measure_parts
from bench.ingest.processes import (
    count_stored,
    cpu_seconds,
    history_mb,
    quantile_milliseconds,
    read_outcome,
    resident_mb,
    run_collector,
    run_generator,
    run_server,
    send,
    worker_of,
)
from bench.ingest.requests import CONTAINERS, Mix, Plan, make_plan, node_name
from wattpack.output.text import count_text
from wire.errors import UserError

LEAST_REPORTS_PER_SECOND = 800.0
MOST_P99_MILLISECONDS = 50.0
MOST_RESIDENT_MB = 600.0
MOST_COST_RATIO = 1.3
MOST_RESTART_SECONDS = 10.0

_RATE_FACTOR = 1.02
"""Requested rate relative to the required one; a little above 1: the last responses are late."""
_JOINS_PER_SECOND = 60.0
_NODES = 1000
_CORES = 2
_TIMEOUT_SECONDS = 60.0
_FEW = 10
"""The small cluster has this many times fewer nodes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--nodes",
        type=int,
        help=f"number of nodes that report; default: {_NODES:,}, with --steady {steady.NODES:,}, "
        f"with --kills {kills.NODES:,}",
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the load")
    parser.add_argument(
        "--rate", type=float, default=LEAST_REPORTS_PER_SECOND, help="required reports per second"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=None,
        help="folder for the history; by default a temporary one",
    )
    parser.add_argument(
        "--profile", action="store_true", help="measure the CPU time of each part of storing a report"
    )
    parser.add_argument(
        "--steady",
        type=float,
        metavar="MINUTES",
        help="measure a cluster that reports at its normal rhythm while everything else runs",
    )
    parser.add_argument(
        "--kills",
        type=int,
        nargs="?",
        const=kills.TIMES,
        metavar="N",
        help=f"kill the collector and its worker N times in turn under load; default: {kills.TIMES}",
    )


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Run the chosen mode."""
    if sum((options.profile, options.steady is not None, options.kills is not None)) > 1:
        raise UserError("choose one of --profile, --steady and --kills")
    if options.steady is not None:
        return steady.run(options, progress)
    if options.kills is not None:
        return kills.run(options, progress)
    return _run(options, progress)


def _run(options: argparse.Namespace, progress: Progress) -> Result:
    """Measure a large cluster, kill its collector, start it again, then measure a small one."""
    options.nodes = _NODES if options.nodes is None else options.nodes
    if options.nodes < _FEW or options.seconds <= 0 or options.rate <= 0:
        raise UserError(f"choose at least {_FEW} nodes, and seconds and a rate above zero")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < _CORES:
        raise UserError(
            "the collector and the load generator need a core each: run this on two cores or more"
        )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.profile:
            cluster = _Cluster(Path(folder) / "many", options.nodes, options, cores, progress)
            return Result(_profile(cluster), {"nodes": options.nodes, "seconds": options.seconds})
        many = _Cluster(Path(folder) / "many", options.nodes, options, cores, progress)
        large, restart = many.measure_and_kill()
        few = _Cluster(Path(folder) / "few", options.nodes // _FEW, options, cores, progress)
        small = few.measure()
    settings = {
        "nodes": options.nodes,
        "containers_per_node": CONTAINERS,
        "seconds": options.seconds,
        "requests_per_second": _RATE_FACTOR * options.rate,
        "requests": msgspec.to_builtins(large.mix),
        "requests_of_few_nodes": msgspec.to_builtins(small.mix),
        "latency": "from the time a request was due to its answer, at the client",
        "collector": "the command with its defaults, on one core; history on disk",
    }
    return Result(_figures(large, small, restart, options), settings)


@dataclass(frozen=True, slots=True)
class CollectorLoad:
    """Measurements of a collector under load."""

    mix: Mix
    outcome: LoadOutcome
    cpu_seconds: float
    """Of the process that serves."""
    worker_cpu_seconds: float
    resident_mb: float
    """Of the process that serves."""
    worker_resident_mb: float
    history_mb: float

    @property
    def per_second(self) -> float:
        return len(self.outcome.acknowledged) / self.outcome.elapsed_seconds

    @property
    def cpu_milliseconds_per_report(self) -> float:
        return 1000 * self.cpu_seconds / max(1, len(self.outcome.acknowledged))

    def latency_milliseconds(self, ratio: float) -> float | None:
        return quantile_milliseconds(self.outcome.latencies_seconds, ratio)


@dataclass(frozen=True, slots=True)
class Restart:
    """State of a collector after it was killed and started again."""

    killed_after_seconds: float
    acknowledged: int
    missing: int
    twice: int
    seconds: float
    """Time until it returned every container's envelope."""
    containers: int


class _Cluster:
    """Some nodes, their reports, and the collector that receives them."""

    def __init__(
        self, folder: Path, nodes: int, options: argparse.Namespace, cores: list[int], progress: Progress
    ) -> None:
        folder.mkdir()
        self._folder = folder
        self._nodes = nodes
        self._rate = _RATE_FACTOR * options.rate
        self._seconds = options.seconds
        self._cores = cores
        self._progress = progress
        self._plan = folder / "plan"
        count = round(self._rate * self._seconds)
        # The second half is for the period in which the collector is killed.
        plan, self._mix = make_plan(nodes, 2 * count, time.time(), progress)
        self._first_count = count
        self._plan.write_bytes(msgspec.msgpack.encode(plan))

    def measure_parts(self) -> Mapping[Part, float]:
        """CPU microseconds of each part per report, on the requests of `measure`."""
        self._progress.say("the parts, one after another")
        plan = msgspec.msgpack.decode(self._plan.read_bytes(), type=Plan)
        return measure_parts(self._folder, Plan(plan.joins, plan.follows[: self._first_count]), self._rate)

    def measure_floor(self) -> CollectorLoad:
        """Send the requests of `measure` to a server that only commits them."""
        database = str(self._folder / "floor.db")
        server = run_server(self._folder, "floor", ["bench.ingest.floor", database], self._cores[:1])
        with server as (process, address):
            self._join(address)
            return self._load(process, address)

    def measure(self) -> CollectorLoad:
        """Let all nodes join, then report at the given rate."""
        with run_collector(self._folder, self._cores[:1]) as (process, address):
            self._join(address)
            return self._load(process, address)

    def measure_and_kill(self) -> tuple[CollectorLoad, Restart]:
        """Measure, then kill the collector under load, and check its history after a restart."""
        with run_collector(self._folder, self._cores[:1]) as (process, address):
            joins = self._join(address)
            load = self._load(process, address)
            after_seconds = random.uniform(0.1, 0.9) * self._seconds  # noqa: S311 - any moment will do
            self._progress.say(f"the collector will be killed after {after_seconds:.1f} s more")
            settings = self._settings(address, joins=False, first=self._first_count)
            with run_generator(settings, self._cores[1:2]) as generator:
                time.sleep(after_seconds)
                process.kill()
                process.wait()
                last = read_outcome(generator)
        acknowledged = [*joins.acknowledged, *load.outcome.acknowledged, *last.acknowledged]
        began = time.monotonic()
        with run_collector(self._folder, self._cores[:1]) as (_, address):
            containers = sum(_count_envelopes(address, self._nodes, began))
            seconds = time.monotonic() - began
        stored = count_stored(self._folder)
        return load, Restart(
            killed_after_seconds=after_seconds,
            acknowledged=len(acknowledged),
            missing=sum((node_name(node), sequence) not in stored for node, sequence in acknowledged),
            twice=sum(times > 1 for times in stored.values()),
            seconds=seconds,
            containers=containers,
        )

    def _join(self, address: str) -> LoadOutcome:
        joins = send(self._settings(address, joins=True), self._cores[1:2])
        nodes = count_text(self._nodes, "node")
        self._progress.say(f"{nodes} joined in {joins.elapsed_seconds:.1f} s")
        return joins

    def _load(self, process: psutil.Popen, address: str) -> CollectorLoad:
        worker = worker_of(process)
        before, worker_before = cpu_seconds(process), cpu_seconds(worker)
        self._progress.say(f"{count_text(self._nodes, 'node')}: reporting for {self._seconds:g} s")
        outcome = send(self._settings(address, joins=False), self._cores[1:2])
        return CollectorLoad(
            mix=self._mix,
            outcome=outcome,
            cpu_seconds=cpu_seconds(process) - before,
            worker_cpu_seconds=cpu_seconds(worker) - worker_before,
            resident_mb=resident_mb(process),
            worker_resident_mb=resident_mb(worker),
            history_mb=history_mb(self._folder),
        )

    def _settings(self, address: str, *, joins: bool, first: int = 0) -> LoadSettings:
        return LoadSettings(
            plan=str(self._plan),
            address=address,
            joins=joins,
            first=first,
            requests_per_second=_JOINS_PER_SECOND if joins else self._rate,
            seconds=self._seconds,
        )


def _count_envelopes(address: str, nodes: int, began: float) -> Iterator[int]:
    """Poll every node's containers until all have a 90th percentile; yields their number per node."""
    with closing(HTTPConnection(address)) as connection:
        for number in range(nodes):
            count = 0
            while count < CONTAINERS and time.monotonic() - began < _TIMEOUT_SECONDS:
                connection.request("GET", f"/v1/containers?node={node_name(number)}&limit=1000")
                containers = msgspec.json.decode(connection.getresponse().read())["containers"]
                count = sum(each["envelope"]["p90"].get("cpu_cores") is not None for each in containers)
            yield count


def _profile(cluster: _Cluster) -> tuple[Figure, ...]:
    """The cost of a report: of each part, of the whole collector, and of the floor."""
    unit = "CPU microseconds per report"
    parts = cluster.measure_parts()
    floor, whole = cluster.measure_floor(), cluster.measure()
    total = 1000 * whole.cpu_milliseconds_per_report
    return (
        *(Figure(name=name, value=value, unit=unit) for name, value in parts.items()),
        # What runs between these parts: the HTTP server, the event loop, analysis and retention.
        Figure(name="http_and_jobs", value=total - sum(parts.values()), unit=unit),
        Figure(name="collector", value=total, unit=unit),
        Figure(name="floor", value=1000 * floor.cpu_milliseconds_per_report, unit=unit),
        Figure(name="latency_p99", value=whole.latency_milliseconds(0.99), unit="ms"),
        Figure(name="latency_max", value=whole.latency_milliseconds(1.0), unit="ms"),
        Figure(name="floor_latency_p99", value=floor.latency_milliseconds(0.99), unit="ms"),
    )


def _figures(
    large: CollectorLoad, small: CollectorLoad, restart: Restart, options: argparse.Namespace
) -> tuple[Figure, ...]:
    unit = "CPU milliseconds per report"
    return (
        Figure(name="reports", value=large.per_second, unit="per second", at_least=options.rate),
        Figure(name="refused", value=large.outcome.rejected, unit="requests", at_most=0),
        Figure(name="latency_p50", value=large.latency_milliseconds(0.5), unit="ms"),
        Figure(
            name="latency_p99",
            value=large.latency_milliseconds(0.99),
            unit="ms",
            at_most=MOST_P99_MILLISECONDS,
        ),
        Figure(name="latency_max", value=large.latency_milliseconds(1.0), unit="ms"),
        Figure(name="resident_memory", value=large.resident_mb, unit="MB", at_most=MOST_RESIDENT_MB),
        Figure(name="resident_memory_of_worker", value=large.worker_resident_mb, unit="MB"),
        Figure(name="history", value=large.history_mb, unit="MB"),
        Figure(
            name="busy", value=100 * large.cpu_seconds / large.outcome.elapsed_seconds, unit="% of one core"
        ),
        Figure(
            name="busy_worker",
            value=100 * large.worker_cpu_seconds / large.outcome.elapsed_seconds,
            unit="% of one core",
        ),
        Figure(name="cost_with_many_nodes", value=large.cpu_milliseconds_per_report, unit=unit),
        Figure(name="cost_with_few_nodes", value=small.cpu_milliseconds_per_report, unit=unit),
        Figure(
            name="cost_ratio",
            value=large.cpu_milliseconds_per_report / small.cpu_milliseconds_per_report,
            unit="many to few",
            at_most=MOST_COST_RATIO,
        ),
        Figure(name="restart", value=restart.seconds, unit="s", at_most=MOST_RESTART_SECONDS),
        Figure(
            name="envelopes_after_restart",
            value=restart.containers,
            unit="containers",
            at_least=options.nodes * CONTAINERS,
        ),
        Figure(name="killed_after", value=restart.killed_after_seconds, unit="s"),
        Figure(name="acknowledged", value=restart.acknowledged, unit="reports", at_least=1),
        Figure(name="missing_after_kill", value=restart.missing, unit="reports", at_most=0),
        Figure(name="twice_after_kill", value=restart.twice, unit="reports", at_most=0),
    )
