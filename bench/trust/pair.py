"""Two collectors for one cluster with a hostile node: they give the same responses, and one of them acts.

    python -m bench.trust.pair FOLDER NAME

runs one of them. Each has its own history; they share the lease, the tokens, and an orchestrator, which is a
file that lists the node of each container. A move changes that file, and is logged with the collector that
report it.
"""

import asyncio
import fcntl
import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import msgspec

from bench.common.listening import await_url
from bench.common.progress import Progress
from bench.common.results import Figure
from bench.trust.adversary import HOSTILE, Adversary
from bench.trust.cluster import HonestNode, honest_report, node_name
from collector.act import loop as control_loop
from collector.act.drivers.interface import ActionResult, Driver, DriverError
from collector.act.drivers.table import DryRun
from collector.common.orchestrator import NodeView, OrchestratorState, ServiceView, TaskView
from collector.config import (
    AccessConfig,
    CollectorConfig,
    ControlConfig,
    DriverConfig,
    HistoryConfig,
    HttpConfig,
)
from collector.decide.policies.actions import Action, Move
from collector.main import running
from wire.messages import Alert, ContainerState, Report
from wire.resources import Quantities, Resource

NODES = 6
_PLACES, _ACTS, _LEASE = "orchestrator.json", "acts.jsonl", "lease.db"
_FIRST, _SECOND = "first", "second"
_CORES, _CROWD = 2.5, 6
"""Cores per container, and containers on an overloaded node: they use 15 of its 16 cores."""
_SHORT_CORES = 14.0
_LEASE_SECONDS = 3.0
_ROUND_SECONDS = 0.5
_TIMEOUT_SECONDS = 60.0


# --- One collector --------------------------------------------------------------------------


class FileOrchestrator(DryRun):
    """A driver whose orchestrator is a file. It only moves containers."""

    name = "file"
    dry = False

    def __init__(self, folder: Path, collector: str) -> None:
        self._folder, self._collector = folder, collector

    async def view(self) -> OrchestratorState:
        places = read_places(self._folder)
        return OrchestratorState(
            nodes=tuple(NodeView(name=node_name(number)) for number in range(NODES)),
            services=tuple(ServiceView(name=name) for name in sorted(map(service_of, places))),
            tasks=tuple(
                TaskView(container=each, service=service_of(each), node=node, state="running")
                for each, node in places.items()
            ),
        )

    async def carry_out(self, action: Action) -> ActionResult:
        if not isinstance(action, Move):
            raise DriverError("this orchestrator only moves containers")
        with _editing(self._folder) as places:
            found = places.pop(action.task, None)
            replacement = f"{service_of(action.task)}.{time.monotonic_ns()}"
            if found is not None:
                places[replacement] = action.target
            act = {"by": self._collector, "task": action.task, "was_there": found is not None}
            with (self._folder / _ACTS).open("a") as acts:
                acts.write(json.dumps(act) + "\n")
        if found is None:
            raise DriverError(f"there is no container {action.task}")
        return ActionResult(what="moved", containers=(replacement,))


def service_of(container: str) -> str:
    """Return the service of a container; a moved container has another id."""
    return container.partition(".")[0]


def read_places(folder: Path) -> dict[str, str]:
    """Read the node of each container."""
    places: dict[str, str] = json.loads((folder / _PLACES).read_text())
    return places


@contextmanager
def _editing(folder: Path) -> Iterator[dict[str, str]]:
    with (folder / "orchestrator.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        places = read_places(folder)
        yield places
        part = folder / f"{_PLACES}.part"
        part.write_text(json.dumps(places))
        part.rename(folder / _PLACES)


class _Control(ControlConfig, frozen=True):
    lease_seconds: ClassVar[float] = _LEASE_SECONDS


def _settings(folder: Path, name: str) -> CollectorConfig:
    return CollectorConfig(
        http=HttpConfig(listen="127.0.0.1:0"),
        access=AccessConfig(tokens=str(folder / "tokens.jsonl")),
        history=HistoryConfig(path=str(folder / f"{name}.db")),
        # Shorter times than the defaults, so that the run is short.
        control=_Control(
            lease_file=str(folder / _LEASE),
            check_seconds=0.4,
            verify_seconds=10.0,
            settle_seconds=1.0,
            cool_down_seconds=0.0,
        ),
    )


async def _serve(folder: Path, name: str) -> None:
    @asynccontextmanager
    async def open_driver(_settings: DriverConfig) -> AsyncIterator[Driver]:
        yield FileOrchestrator(folder, name)

    # The table of drivers has only real orchestrators.
    control_loop.open_driver = open_driver  # type: ignore[assignment, attr-defined]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with running(_settings(folder, name)) as collector:
        print(f"listening on {collector.address.url}", flush=True)
        await stop.wait()


# --- Both, and their cluster ----------------------------------------------------------------


@dataclass(slots=True)
class PairOutcome:
    """Responses and actions of two collectors."""

    answers: int = 0
    different: int = 0
    most_acting: int = 0
    """The highest number of collectors that acted at the same time."""
    acts: list[dict[str, Any]] = field(default_factory=list)
    second_history_refused: bool = False
    refused: int = 0

    def figures(self) -> Iterator[Figure]:
        """Yield the figures of the benchmark."""
        by = [each["by"] for each in self.acts]
        yield Figure(name="pair_answers_compared", value=self.answers, unit="answers", at_least=1)
        yield Figure(name="pair_answers_different", value=self.different, unit="answers", at_most=0)
        yield Figure(name="pair_acting_at_once", value=self.most_acting, unit="collectors", at_most=1)
        yield Figure(name="pair_steps_of_first", value=by.count(_FIRST), unit="steps", at_least=1)
        yield Figure(name="pair_steps_of_second", value=by.count(_SECOND), unit="steps", at_least=1)
        # The second collector acts only after the first was killed.
        out_of_turn = by != sorted(by)
        yield Figure(name="pair_steps_out_of_turn", value=float(out_of_turn), unit="flag", at_most=0)
        twice = sum(not each["was_there"] for each in self.acts)
        yield Figure(name="pair_steps_twice", value=twice, unit="steps", at_most=0)
        yield Figure(name="pair_honest_refused", value=self.refused, unit="requests", at_most=0)
        yield Figure(
            name="pair_history_shared", value=float(not self.second_history_refused), unit="flag", at_most=0
        )


class _Cluster:
    """Nodes that report the orchestrator's containers to both collectors."""

    def __init__(self, folder: Path, secrets: Mapping[str, str]) -> None:
        self._folder = folder
        self.senders = [
            [HonestNode(number, secrets[node_name(number)]) for number in range(NODES)] for _ in range(2)
        ]
        self.all_senders = [node for nodes in self.senders for node in nodes]
        self._sequence = 0
        self._short_since: dict[str, float] = {}
        self._began = time.monotonic()

    def crowd(self, node: int, name: str) -> None:
        """Start containers on a node until it is short of CPU."""
        with _editing(self._folder) as places:
            for number in range(_CROWD):
                places[f"{name}-{number}.0"] = node_name(node)

    @property
    def is_short(self) -> bool:
        """Whether a node has too many containers."""
        placed = list(read_places(self._folder).values())
        return any(_CORES * placed.count(node) >= _SHORT_CORES for node in placed)

    async def report(self, http: aiohttp.ClientSession, urls: list[str]) -> None:
        """Let all nodes report to the running collectors."""
        self._sequence += 1
        now, seconds, places = time.time(), time.monotonic() - self._began, read_places(self._folder)
        for number in range(NODES):
            running_there = sorted(each for each, node in places.items() if node == node_name(number))
            report = self._report(number, now, seconds, running_there)
            for sender in self.senders:
                sender[number].pending.append(report)
        await asyncio.gather(
            *(node.flush(http, url) for url, nodes in zip(urls, self.senders, strict=False) for node in nodes)
        )

    def _report(self, number: int, now: float, seconds: float, running_there: list[str]) -> Report:
        plain = honest_report(number, self._sequence, now, seconds)
        (template, *_) = plain.containers
        containers = tuple(_container(template, each, seconds) for each in running_there)
        cores, node = _CORES * len(containers), node_name(number)
        if cores >= _SHORT_CORES:
            self._short_since.setdefault(node, now)
        closed_at = None if cores >= _SHORT_CORES else now
        opened_at = self._short_since.get(node)
        alerts = () if opened_at is None else (Alert(Resource.CPU, opened_at, "busy", closed_at=closed_at),)
        if closed_at is not None:
            self._short_since.pop(node, None)
        assert plain.state is not None
        assert plain.heartbeat is not None
        used = Quantities(cores + 0.1, 2 << 30, 1e5, 1e5)
        return msgspec.structs.replace(
            plain,
            state=msgspec.structs.replace(plain.state, used=used),
            containers=containers,
            alerts=alerts,
            heartbeat=msgspec.structs.replace(plain.heartbeat, usage=()),
        )


def _container(template: ContainerState, identity: str, seconds: float) -> ContainerState:
    return msgspec.structs.replace(
        template,
        id=identity,
        name=identity,
        service=service_of(identity),
        cpu_seconds_total=_CORES * seconds,
        used=Quantities(_CORES, 1 << 28, 1000.0, 1000.0),
        started_at=time.time() - 10_000,
    )


async def run_pair(folder: Path, secrets: Mapping[str, str], progress: Progress, seed: int) -> PairOutcome:
    """Run two collectors and a hostile node; kill the one that acts, and let the other take over."""
    outcome = PairOutcome()
    (folder / _PLACES).write_text("{}")
    (folder / _ACTS).touch()
    cluster = _Cluster(folder, secrets)
    async with aiohttp.ClientSession() as http, aiohttp.ClientSession() as own:
        with _process(folder, _FIRST) as (first, first_url), _process(folder, _SECOND) as (_, second_url):
            outcome.second_history_refused = await asyncio.to_thread(_is_refused, folder)
            urls = [first_url, second_url]
            attackers = [Adversary(own, url, secrets[HOSTILE], seed) for url in urls]
            attacking = [asyncio.create_task(each.run(_TIMEOUT_SECONDS)) for each in attackers]
            watching = asyncio.create_task(_watch(http, urls, secrets["reader"], outcome))
            try:
                cluster.crowd(0, "early")
                await _until_relieved(cluster, http, urls)
                await _compare(http, urls, secrets["reader"], outcome)
                first.kill()
                await asyncio.to_thread(first.wait)
                cluster.crowd(1, "late")
                # From now on, only the second collector receives reports.
                cluster.senders.pop(0)
                await _until_relieved(cluster, http, urls[1:])
            finally:
                for task in (*attacking, watching):
                    task.cancel()
                await asyncio.gather(*attacking, watching, return_exceptions=True)
    outcome.acts = [json.loads(line) for line in (folder / _ACTS).read_text().splitlines()]
    outcome.refused = sum(node.refused for node in cluster.all_senders)
    progress.say(f"two collectors: {len(outcome.acts)} steps, {outcome.answers} answers compared")
    return outcome


async def _until_relieved(cluster: _Cluster, http: aiohttp.ClientSession, urls: list[str]) -> None:
    """Report until no node is short of CPU, and a little longer, or until a timeout."""
    until, rounds_left = time.monotonic() + _TIMEOUT_SECONDS / 2, 6
    while time.monotonic() < until and rounds_left:
        await cluster.report(http, urls)
        await asyncio.sleep(_ROUND_SECONDS)
        rounds_left -= not cluster.is_short


async def _watch(http: aiohttp.ClientSession, urls: list[str], secret: str, outcome: PairOutcome) -> None:
    """Count the collectors that act at the same time."""
    while True:
        found = await asyncio.gather(*(_request(http, f"{url}/v1/control", secret) for url in urls))
        outcome.most_acting = max(outcome.most_acting, sum(bool(each.get("active")) for each in found))
        await asyncio.sleep(_ROUND_SECONDS)


async def _compare(http: aiohttp.ClientSession, urls: list[str], secret: str, outcome: PairOutcome) -> None:
    """Compare the responses of both about honest nodes."""
    for number in range(NODES):
        pages = [await _request(http, f"{url}/v1/nodes?name={node_name(number)}", secret) for url in urls]
        answers: list[dict[str, Any]] = [next(iter(page.get("nodes", ())), {}) for page in pages]
        kept = [
            [each.get(key) for key in ("state", "used", "capacity", "power", "containers", "refused")]
            for each in answers
        ]
        outcome.answers += 1
        outcome.different += kept[0] != kept[1] or None in kept[0]


async def _request(http: aiohttp.ClientSession, url: str, secret: str) -> dict[str, Any]:
    try:
        async with http.get(url, headers={"Authorization": f"Bearer {secret}"}) as response:
            found: dict[str, Any] = await response.json() if response.ok else {}
            return found
    except (aiohttp.ClientError, OSError):
        return {}


@contextmanager
def _process(folder: Path, name: str) -> "Iterator[tuple[subprocess.Popen[bytes], str]]":
    log = folder / f"log-{name}"
    command = [sys.executable, "-m", "bench.trust.pair", str(folder), name]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process, await_url(process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _is_refused(folder: Path) -> bool:
    """Whether another collector with the history of the first one fails to start."""
    command = [sys.executable, "-m", "bench.trust.pair", str(folder), _FIRST]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode != 0 and b"another collector" in ended.stderr + ended.stdout


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2]))
