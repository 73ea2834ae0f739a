"""A thousand nodes report to a collector on one core: throughput, latency, cost, and safety after a kill.

The collector is the real command with its history on disk, bound to one core; on the other core a load
generator sends, over real HTTP and at a fixed pace, what agents would send. Then the collector is killed at
a random moment of a second stretch and started again: every report that was acknowledged must be there,
once. A tenth of the nodes at the same pace show whether the cost of a report grows with the cluster.
"""

import argparse
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import msgspec
import psutil

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.ingest.load_generator import Findings, Orders
from bench.ingest.requests import CONTAINERS, Mix, make_plan, node_name
from wire.errors import UserError

LEAST_REPORTS_PER_SECOND = 800.0
MOST_P99_MILLISECONDS = 50.0
MOST_RESIDENT_MB = 600.0
MOST_COST_RATIO = 1.3
MOST_RESTART_SECONDS = 10.0

_PACE = 1.02
"""A little faster than what must be shown, since the last answers take their time."""
_JOINS_PER_SECOND = 60.0
_CORES = 2
_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_FEW = 10
"""How many times smaller the small cluster is."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--nodes", type=int, default=1000, help="nodes that report")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long they do")
    parser.add_argument("--rate", type=float, default=LEAST_REPORTS_PER_SECOND, help="reports per second")
    parser.add_argument(
        "--folder",
        type=Path,
        default=None,
        help="folder for the history; by default a temporary one",
    )


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Measure a large cluster, kill its collector, start it again, then measure a small one."""
    if options.nodes < _FEW or options.seconds <= 0 or options.rate <= 0:
        raise UserError(f"choose at least {_FEW} nodes, and seconds and a rate above zero")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < _CORES:
        raise UserError(
            "the collector and the load generator need a core each: run this on two cores or more"
        )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        many = _Cluster(Path(folder) / "many", options.nodes, options, cores, progress)
        large, restart = many.measure_and_kill()
        few = _Cluster(Path(folder) / "few", options.nodes // _FEW, options, cores, progress)
        small = few.measure()
    settings = {
        "nodes": options.nodes,
        "containers_per_node": CONTAINERS,
        "seconds": options.seconds,
        "requests_per_second": _PACE * options.rate,
        "requests": msgspec.to_builtins(large.mix),
        "requests_of_few_nodes": msgspec.to_builtins(small.mix),
        "latency": "from the time a request was due to its answer, at the client",
        "collector": "the command with its defaults, on one core; history on disk",
    }
    return Result(_figures(large, small, restart, options), settings)


@dataclass(frozen=True, slots=True)
class Load:
    """A collector under load."""

    mix: Mix
    findings: Findings
    cpu_seconds: float
    resident_mb: float
    history_mb: float

    @property
    def per_second(self) -> float:
        return len(self.findings.acknowledged) / self.findings.elapsed_seconds

    @property
    def cpu_milliseconds_per_report(self) -> float:
        return 1000 * self.cpu_seconds / max(1, len(self.findings.acknowledged))

    def latency_milliseconds(self, ratio: float) -> float | None:
        ordered = sorted(self.findings.latencies_seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(ratio * len(ordered)))] if ordered else None


@dataclass(frozen=True, slots=True)
class Restart:
    """After a kill."""

    killed_after_seconds: float
    acknowledged: int
    missing: int
    twice: int
    seconds: float
    """Until it answered with every container's envelope."""
    containers: int


class _Cluster:
    """Some nodes, their reports, and the collector that receives them."""

    def __init__(
        self, folder: Path, nodes: int, options: argparse.Namespace, cores: list[int], progress: Progress
    ) -> None:
        folder.mkdir()
        self._folder = folder
        self._nodes = nodes
        self._rate = _PACE * options.rate
        self._seconds = options.seconds
        self._cores = cores
        self._progress = progress
        self._database = folder / "collector.db"
        self._plan = folder / "plan"
        count = round(self._rate * self._seconds)
        # As much again for the stretch in which the collector is killed.
        plan, self._mix = make_plan(nodes, 2 * count, time.time(), progress)
        self._first_count = count
        self._plan.write_bytes(msgspec.msgpack.encode(plan))

    def measure(self) -> Load:
        """Join, then report at the given rate."""
        with self._collector() as (process, address):
            joins = self._send(address, joins=True)
            self._progress.say(f"{self._nodes} nodes have joined in {joins.elapsed_seconds:.1f} s")
            return self._load(process, address)

    def measure_and_kill(self) -> tuple[Load, Restart]:
        """The same, then go on, kill the collector meanwhile, and see what it knows when it is back."""
        with self._collector() as (process, address):
            joins = self._send(address, joins=True)
            self._progress.say(f"{self._nodes} nodes have joined in {joins.elapsed_seconds:.1f} s")
            load = self._load(process, address)
            after_seconds = random.uniform(0.1, 0.9) * self._seconds  # noqa: S311 - any moment will do
            self._progress.say(f"the collector will be killed after {after_seconds:.1f} s more")
            with self._generator(address, joins=False, first=self._first_count) as generator:
                _await_start(generator)
                time.sleep(after_seconds)
                process.kill()
                process.wait()
                last = _findings(generator)
        acknowledged = [*joins.acknowledged, *load.findings.acknowledged, *last.acknowledged]
        began = time.monotonic()
        with self._collector() as (_, address):
            containers = sum(_known_envelopes(address, self._nodes, began))
            seconds = time.monotonic() - began
        kept = self._kept()
        return load, Restart(
            killed_after_seconds=after_seconds,
            acknowledged=len(acknowledged),
            missing=sum((node_name(node), sequence) not in kept for node, sequence in acknowledged),
            twice=sum(times > 1 for times in kept.values()),
            seconds=seconds,
            containers=containers,
        )

    def _load(self, process: psutil.Popen, address: str) -> Load:
        before = _cpu_seconds(process)
        self._progress.say(f"{self._nodes} nodes report for {self._seconds:g} s")
        findings = self._send(address, joins=False)
        return Load(
            mix=self._mix,
            findings=findings,
            cpu_seconds=_cpu_seconds(process) - before,
            resident_mb=process.memory_info().rss / 1e6,
            history_mb=sum(each.stat().st_size for each in self._folder.glob("collector.db*")) / 1e6,
        )

    @contextmanager
    def _collector(self) -> Iterator[tuple[psutil.Popen, str]]:
        """The real command, on its core, while the block runs."""
        config = self._folder / "collector.toml"
        config.write_text(f'[http]\nlisten = "127.0.0.1:0"\n[history]\npath = "{self._database}"\n')
        log = self._folder / "collector.log"
        with log.open("w") as output:
            process = psutil.Popen(
                [sys.executable, "-m", "wattpack", "collector", "--config", str(config)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            process.cpu_affinity(self._cores[:1])
            yield process, _address(process, log)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(_PATIENCE_SECONDS)
                except psutil.TimeoutExpired:
                    process.kill()

    @contextmanager
    def _generator(self, address: str, *, joins: bool, first: int = 0) -> Iterator["subprocess.Popen[bytes]"]:
        """A load generator at work, on its core, while the block runs."""
        orders = Orders(
            plan=str(self._plan),
            address=address,
            joins=joins,
            first=first,
            requests_per_second=_JOINS_PER_SECOND if joins else self._rate,
            seconds=self._seconds,
        )
        with subprocess.Popen(
            [sys.executable, "-m", "bench.ingest.load_generator"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as generator:
            try:
                os.sched_setaffinity(generator.pid, self._cores[1:2])
                assert generator.stdin is not None
                generator.stdin.write(msgspec.json.encode(orders))
                generator.stdin.close()
                yield generator
            finally:
                generator.kill()

    def _send(self, address: str, *, joins: bool) -> Findings:
        with self._generator(address, joins=joins) as generator:
            _await_start(generator)
            return _findings(generator)

    def _kept(self) -> Mapping[tuple[str, int], int]:
        """How often each report is in the history."""
        with closing(sqlite3.connect(self._database)) as connection:
            rows = connection.execute(
                "SELECT n.name, r.sequence, count(*) FROM reports r JOIN boots b ON b.id = r.boot_id "
                "JOIN nodes n ON n.id = b.node_id GROUP BY 1, 2"
            )
            return {(node, sequence): times for node, sequence, times in rows}


def _await_start(generator: "subprocess.Popen[bytes]") -> None:
    assert generator.stdout is not None
    generator.stdout.readline()


def _findings(generator: "subprocess.Popen[bytes]") -> Findings:
    assert generator.stdout is not None
    output = generator.stdout.read()
    if not output:
        raise UserError("the load generator ended without a result: see its output above")
    return msgspec.msgpack.decode(output, type=Findings)


def _address(process: psutil.Popen, log: Path) -> str:
    """The address of the collector, from its log."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until and process.poll() is None:
        _, found, rest = log.read_text().partition("listening on http://")
        if found and "\n" in rest:
            return rest.split()[0].rstrip("/")
        time.sleep(_LOOK_SECONDS)
    raise UserError(f"the collector did not start: {log.read_text()[-500:]}")


def _known_envelopes(address: str, nodes: int, began: float) -> Iterator[int]:
    """Ask for every node's containers until all have what they did not exceed in nine samples of ten.

    Yields the number for each node, when all do or time is up.
    """
    with closing(HTTPConnection(address)) as connection:
        for number in range(nodes):
            known = 0
            while known < CONTAINERS and time.monotonic() - began < _PATIENCE_SECONDS:
                connection.request("GET", f"/v1/containers?node={node_name(number)}&limit=1000")
                listed = msgspec.json.decode(connection.getresponse().read())["containers"]
                known = sum(each["p90"].get("cpu_cores") is not None for each in listed)
            yield known


def _cpu_seconds(process: psutil.Popen) -> float:
    return float(sum(process.cpu_times()[:2]))


def _figures(large: Load, small: Load, restart: Restart, options: argparse.Namespace) -> tuple[Figure, ...]:
    unit = "CPU milliseconds per report"
    return (
        Figure(name="reports", value=large.per_second, unit="per second", at_least=options.rate),
        Figure(name="refused", value=large.findings.refused, unit="requests", at_most=0),
        Figure(name="latency_p50", value=large.latency_milliseconds(0.5), unit="ms"),
        Figure(
            name="latency_p99",
            value=large.latency_milliseconds(0.99),
            unit="ms",
            at_most=MOST_P99_MILLISECONDS,
        ),
        Figure(name="latency_max", value=large.latency_milliseconds(1.0), unit="ms"),
        Figure(name="resident_memory", value=large.resident_mb, unit="MB", at_most=MOST_RESIDENT_MB),
        Figure(name="history", value=large.history_mb, unit="MB"),
        Figure(
            name="busy", value=100 * large.cpu_seconds / large.findings.elapsed_seconds, unit="% of one core"
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
