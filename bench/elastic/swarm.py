"""A CPU-bound HTTP service on a real Swarm, under a load that rises fourfold and falls again.

Its collector scales it by the response times that agents measure, and is killed in the middle of a change.
The lab has no ingress network: every task has its own address on a bridge, and the load goes to the tasks
that Swarm wants to run, as with a load balancer. A task that is stopped accepts requests for two more seconds
and then completes those that it has.
"""

import math
import random
import resource
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Self

from bench.common.progress import Progress
from bench.common.results import Figure
from bench.slo.swarm import AGENTS
from bench.swarm.cluster import Cluster, Collector, cluster, until
from tests.lab.engines import image
from tests.lab.hosts.link import ip
from tests.lab.parts import find_program

NAME: Final = "web"
PORT: Final = 8080
PATH: Final = "/burn"
IMAGE: Final = "web:lab"
BACKLOG: Final = 1024
"""Connections that wait in the kernel. A short queue, such as the nine of busybox' web server, resets some of
them when one replica gets four times the load, before the service is scaled."""
AT_ONCE: Final = 16
"""Requests that a replica processes at once."""
REQUEST_SECONDS: Final = 0.010
"""CPU time of a request."""
LIMIT_CORES: Final = 0.15
"""CPU limit of a replica."""
TARGET_SECONDS: Final = 1.0
BASE_RATE: Final = 4.0
"""Requests per second; a replica can serve about thirteen."""
RISE: Final = 4.0
FEW: Final = 2
DRAIN_SECONDS: Final = 2
NODE_CORES: Final = 0.6
NODE_MEMORY_BYTES: Final = 512 << 20
_WINDOW_SECONDS = 20.0
_STABLE_SECONDS = 40.0
_TIMEOUT_SECONDS = 60.0
_WATCH_SECONDS = 0.2
_QUANTILE = 0.95
_WAIT_SECONDS = 90.0
_SEED = 17


@dataclass(frozen=True, slots=True)
class Phases:
    """Duration of each phase, in seconds."""

    quiet: float = 60.0
    high: float = 240.0
    fall: float = 600.0
    """Maximum; the phase ends when the service has few replicas again."""


def measure_rounds(seconds: float) -> int:
    """Measure how many iterations of a shell loop take this much CPU time."""
    shell, probe = find_program("busybox"), 200_000
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    loop = f"i=0; while [ $i -lt {probe} ]; do i=$((i+1)); done"
    subprocess.run([str(shell), "sh", "-c", loop], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(probe * seconds / used)


_SERVE: Final = f"""
printf '%s' "$BURN" >/tmp/burn
chmod +x /tmp/burn
waiting() {{ awk '$2 ~ /:{PORT:X}$/ && $4 == "0A" && $5 !~ /:0+$/' /proc/net/tcp | grep -q .; }}
socat TCP-LISTEN:{PORT},fork,reuseaddr,backlog={BACKLOG},max-children={AT_ONCE} EXEC:/tmp/burn &
server=$!
drain() {{ sleep {DRAIN_SECONDS}; while waiting || pidof burn >/dev/null; do sleep 0.2; done; }}
trap 'drain; kill $server; exit 0' TERM
wait $server
"""
"""The command of the service: a web server that queues requests and drains before it stops."""
_BURN: Final = r"""#!/bin/sh
end=$(printf '\r')
read -r method path version
while read -r line && [ "$line" != "$end" ]; do :; done
[ "$path" = /health ] || { i=0; while [ $i -lt %d ]; do i=$((i+1)); done; }
printf 'HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nok'
"""
"""A script that reads a request, loops to use CPU time, and responds."""


@contextmanager
def lan(nodes: Cluster) -> Iterator[str]:
    """Create a network on which every task has its own address; this machine routes to it via its node."""
    first = int(nodes.swarm.address.split(".")[2])
    routes = []
    for number, node in enumerate(nodes.swarm.nodes):
        subnet = f"10.213.{(first + number) % 256}.0/24"
        node.engine.docker("network", "create", "--config-only", f"--subnet={subnet}", "lan-config")
        routes.append((subnet, node.address))
    options = ("--driver=bridge", "--scope=swarm", "--config-from=lan-config")
    nodes.swarm.manager.docker("network", "create", *options, "lan")
    for subnet, gateway in routes:
        ip("route", "replace", subnet, "via", gateway)
    try:
        yield "lan"
    finally:
        for subnet, _ in routes:
            ip("route", "del", subnet)


def create(nodes: Cluster, network: str, rounds: int) -> None:
    """Create the service with one replica."""
    archive = image.archive("socat")
    for node in nodes.swarm.nodes:
        node.engine.docker("import", "-", IMAGE, input=archive)
    health = f"--health-cmd=wget -q -O /dev/null http://127.0.0.1:{PORT}/health"
    nodes.swarm.manager.docker(
        *("service", "create", "--detach", f"--name={NAME}", "--replicas=1", f"--network={network}"),
        *("--no-resolve-image", "--stop-grace-period=60s", f"--limit-cpu={LIMIT_CORES}"),
        *(health, "--health-interval=2s", "--health-timeout=30s", "--health-retries=30"),
        *(f"--container-label=wattpack.probe={PORT}{PATH}", f"--env=BURN={_BURN % rounds}"),
        *(IMAGE, "sh", "-c", _SERVE),
    )


@dataclass(slots=True)
class SentRequest:
    """One request."""

    at: float
    seconds: float = math.inf
    """Infinite until the response arrives."""
    error: str = ""


class Balancer(threading.Thread):
    """Tracks the running tasks that Swarm wants to run, and their addresses."""

    def __init__(self, nodes: Cluster) -> None:
        super().__init__(daemon=True)
        self._nodes, self._stopped = nodes, threading.Event()
        self._addresses: dict[str, str] = {}
        self._next_backend = 0
        self.backends: list[str] = []
        self.replicas: list[tuple[float, int]] = []
        """The desired number of replicas, from each time on."""
        self.running: list[tuple[float, int]] = []

    def run(self) -> None:
        while not self._stopped.wait(_WATCH_SECONDS):
            try:
                self._refresh()
            except OSError:  # the manager is busy
                continue

    def _refresh(self) -> None:
        now = time.monotonic()
        spec = self._nodes.swarm.manager.get(f"/services/{NAME}")["Spec"]
        desired = spec["Mode"]["Replicated"]["Replicas"]
        if not self.replicas or self.replicas[-1][1] != desired:
            self.replicas.append((now, desired))
        tasks = [
            each
            for each in self._nodes.swarm.tasks(NAME)
            if each.state == "running" and each.desired_state == "running" and each.container_id
        ]
        if not self.running or self.running[-1][1] != len(tasks):
            self.running.append((now, len(tasks)))
        found = []
        for task in tasks:
            container = str(task.container_id)
            if container not in self._addresses:
                engine = self._nodes.swarm.node(str(task.node)).engine
                networks = engine.inspect(container)["NetworkSettings"]["Networks"]
                self._addresses[container] = networks["lan"]["IPAddress"]
            found.append(self._addresses[container])
        self.backends = found

    def choose(self) -> str | None:
        """Return the address of the next replica, round-robin."""
        backends = self.backends
        self._next_backend += 1
        return backends[self._next_backend % len(backends)] if backends else None

    def stop(self) -> None:
        self._stopped.set()
        self.join()


class RequestLoad:
    """Sends requests at random times with an adjustable rate, without waiting for responses."""

    def __init__(self, balancer: Balancer) -> None:
        self._balancer, self._stopped = balancer, threading.Event()
        self._random = random.Random(_SEED)  # noqa: S311 - not a secret
        self._pool = ThreadPoolExecutor(512)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.rate = BASE_RATE
        self.sent: list[SentRequest] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._pool.shutdown(wait=True)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            due += self._random.expovariate(self.rate)
            self._stopped.wait(max(0.0, due - time.monotonic()))
            each = SentRequest(time.monotonic())
            self.sent.append(each)
            self._pool.submit(self._send, each)

    def _send(self, each: SentRequest) -> None:
        backend = self._balancer.choose()
        try:
            url = f"http://{backend}:{PORT}{PATH}"
            with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
                response.read()
        except OSError as error:
            each.error = f"{backend}: {error}"
        else:
            each.seconds = time.monotonic() - each.at


def quantile(sent: Sequence[SentRequest], at: float) -> float | None:
    """The 95th percentile of the requests sent in the seconds before a time."""
    seconds = sorted(each.seconds for each in sent if at - _WINDOW_SECONDS < each.at <= at)
    return seconds[math.ceil(_QUANTILE * len(seconds)) - 1] if seconds else None


def recovered_after(sent: Sequence[SentRequest], begin: float, end: float, target: float) -> float | None:
    """Seconds from `begin` until the percentile is below the target and stays there."""
    good_since: float | None = None
    at = begin + 1.0
    while at <= end:
        value = quantile(sent, at)
        if value is None or value > target:
            good_since = None
        else:
            good_since = at if good_since is None else good_since
            if at - good_since >= _STABLE_SECONDS:
                return good_since - begin
        at += 1.0
    return None


@dataclass(slots=True)
class Run:
    """Events and measurements of one run."""

    step_at: float = 0.0
    fall_at: float = 0.0
    few_after: float | None = None
    killed_during: str = ""
    sent: list[SentRequest] = field(default_factory=list)
    replicas: list[tuple[float, int]] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)


def measure(
    _data: Path | None,
    progress: Progress,
    phases: Phases = Phases(),  # noqa: B008 - immutable
    rule: Mapping[str, Any] | None = None,
) -> Iterator[Figure]:
    """Run the service with the default settings of elasticity, and kill its collector meanwhile."""
    with cluster(cores=NODE_CORES, memory_bytes=NODE_MEMORY_BYTES) as nodes, lan(nodes) as network:
        create(nodes, network, measure_rounds(REQUEST_SECONDS))
        settings = {
            "control": {"policy": ""},
            "elastic": {NAME: {"metric_max": TARGET_SECONDS, "replicas_max": 6, **(rule or {})}},
        }
        try:
            run = _run(nodes, settings, progress, phases)
        except Exception:
            print(nodes.logs())
            raise
        yield from figures(run)


def _run(nodes: Cluster, settings: Mapping[str, Any], progress: Progress, phases: Phases) -> Run:
    run, balancer = Run(), Balancer(nodes)
    balancer.start()
    until(lambda: balancer.backends, _WAIT_SECONDS)
    collector = nodes.collector(settings)
    nodes.watch(collector, {**AGENTS, "probe.enabled": "true"})
    try:
        with RequestLoad(balancer) as load:
            progress.wait("elastic: quiet", phases.quiet)
            run.step_at, load.rate = time.monotonic(), BASE_RATE * RISE
            collector, run.killed_during = _kill(nodes, collector, settings, phases.high)
            left = phases.high - (time.monotonic() - run.step_at)
            progress.wait("elastic: four times the load", max(0.0, left))
            run.fall_at, load.rate = time.monotonic(), BASE_RATE
            few, seconds = until(lambda: 0 < len(balancer.backends) <= FEW, phases.fall)
            run.few_after = seconds if few else None
            progress.wait("elastic: quiet again", 2 * _WINDOW_SECONDS)
        run.sent, run.replicas = load.sent, balancer.replicas
        until(lambda: not _open_decisions(collector), _WAIT_SECONDS)
        run.decisions = collector.decisions(limit="1000", trigger="elastic")
        (run.status,) = collector.get("/v1/elastic")["elastic"]
    finally:
        balancer.stop()
    return run


def _kill(
    nodes: Cluster, collector: Collector, settings: Mapping[str, Any], seconds: float
) -> tuple[Collector, str]:
    """Kill the collector as soon as it has started to scale the service, and start it again."""

    def started() -> str:
        states = (step["state"] for each in _open_decisions(collector) for step in each["steps"])
        return next((state for state in states if state in {"started", "done"}), "")

    state, _ = until(started, seconds)
    collector.process.end(signal.SIGKILL)
    return nodes.collector(settings), state or ""


def _open_decisions(collector: Collector) -> list[dict[str, Any]]:
    return [each for each in collector.decisions(trigger="elastic") if each["ended_at"] is None]


def figures(run: Run) -> Iterator[Figure]:
    """The figures of a run."""
    for each in reversed(run.decisions):
        for step in each["steps"]:
            action = step["action"]
            print(
                each["id"],
                action["kind"],
                action.get("replicas"),
                step["state"],
                step["why"],
                each["reasons"],
            )
    failed = [each for each in run.sent if each.error]
    for each in failed[:20]:
        print(f"failed {each.at - run.step_at:.1f} s after the step: {each.error}")
    print("replicas:", [(round(at - run.step_at, 1), count) for at, count in run.replicas])
    before, after = quantile(run.sent, run.step_at), quantile(run.sent, run.fall_at)
    yield Figure(name="swarm_p95_before_step", value=before, unit="s")
    yield Figure(
        name="swarm_p95_back_after",
        value=recovered_after(run.sent, run.step_at, run.fall_at, TARGET_SECONDS),
        unit=f"s from four times the load to p95 under {TARGET_SECONDS:g} s",
        at_most=180,
    )
    yield Figure(name="swarm_p95_at_end_of_high_load", value=after, unit="s", at_most=TARGET_SECONDS)
    yield Figure(
        name="swarm_most_replicas", value=max(count for _, count in run.replicas), unit="replicas", at_least=2
    )
    yield Figure(
        name="swarm_few_replicas_after",
        value=run.few_after,
        unit=f"s from the fall of the load to at most {FEW} replicas",
        at_most=600,
    )
    yield Figure(
        name="swarm_failed_requests", value=len(failed), unit=f"of {len(run.sent)} requests", at_most=0
    )
    yield from _journal(run)


def _journal(run: Run) -> Iterator[Figure]:
    steps = [
        step
        for each in reversed(run.decisions)
        for step in each["steps"]
        if step["action"]["kind"] == "scale" and step["state"] == "verified"
    ]
    desired = [count for _, count in run.replicas]
    changes = list(pairwise(desired))
    recorded = [(step["action"]["replicas_before"], step["action"]["replicas"]) for step in steps]
    yield Figure(
        name="swarm_changes_not_in_journal",
        value=sum(change not in recorded for change in changes) + abs(len(changes) - len(recorded)),
        unit=f"of {len(changes)} changes of the service",
        at_most=0,
    )
    yield Figure(
        name="swarm_open_decisions",
        value=sum(each["ended_at"] is None for each in run.decisions),
        unit=f"of {len(run.decisions)} decisions",
        at_most=0,
    )
    yield Figure(
        name="swarm_killed_in_motion",
        value=int(bool(run.killed_during)),
        unit=f"collector killed with -9 while a step was {run.killed_during or 'not started'}",
        at_least=1,
    )
