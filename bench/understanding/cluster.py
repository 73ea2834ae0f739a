"""A real collector process that is filled over HTTP with a day of many containers.

The usage of containers is drawn from a few kinds of load, wide enough that their histograms are as full as
real ones after a day: three heartbeats, eight hours apart, so that every bucket of the window has samples.
"""

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import aiohttp
import psutil

from bench.common.listening import await_url
from bench.common.progress import Progress
from bench.common.simulated_node import container_id
from wire.errors import UserError
from wire.messages import ContainerState, ContainerUsage, Heartbeat, NodeState, Report, encode
from wire.resources import Quantities
from wire.sketch import Sketch

PERIOD_SECONDS = 1.0
"""Time between two passes: short, so that a pass is nearly always running."""
_BUCKET_SECONDS = 8 * 3600.0
_BUCKETS = 3
_COLLECTOR = (
    "from collector.config import AnalysisConfig; from wattpack.cli import main;"
    " AnalysisConfig.full_pass_seconds = 0.0; raise SystemExit(main())"
)
"""Every pass covers all containers, not only those that were reported since the last one."""
_LOADS = (
    # Cores, bytes of memory, bytes per second of disk and network; and the scatter of each.
    ((2.0, 4e8, 1e5, 1e5), (0.3, 0.02, 0.8, 0.8)),
    ((0.1, 6e9, 1e5, 1e5), (0.6, 0.05, 0.8, 0.8)),
    ((0.2, 4e8, 3e7, 1e5), (0.4, 0.02, 1.2, 0.8)),
    ((0.2, 4e8, 1e5, 2e7), (0.4, 0.02, 0.8, 1.2)),
)
_SAMPLES = 200
_TEMPLATES = 40
"""Number of drawn loads; containers share them."""
_SERVICES = 500
_AT_ONCE = 4
_TIMEOUT_SECONDS = 120.0
_POLL_SECONDS = 0.05
_CAPACITY = Quantities(32.0, 256_000_000_000, 1e9, 1.25e9)


@dataclass(slots=True)
class Latencies:
    """Latencies of requests."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    def milliseconds(self, ratio: float) -> float | None:
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(ratio * len(ordered)))] if ordered else None


class ReportedCluster:
    """Simulated nodes that report to a collector."""

    def __init__(self, nodes: int, containers: int) -> None:
        rng = random.Random(1)  # noqa: S311 - reproducible, not a secret
        self.names = [f"node-{number:04}" for number in range(nodes)]
        self._containers = containers
        self._loads = [_usage(rng, number) for number in range(_TEMPLATES)]
        self._sequence = count(1)

    def heartbeats(self, now: float) -> Iterator[bytes]:
        """Yield a day of all nodes, as three heartbeats each."""
        for bucket in reversed(range(_BUCKETS)):
            for name in self.names:
                yield self._body(name, now - bucket * _BUCKET_SECONDS, with_usage=True)

    def news(self, now: float) -> bytes:
        """Make a report of one node, with changed usage of a few containers."""
        sequence = next(self._sequence)
        name = self.names[sequence % len(self.names)]
        states = tuple(self._state(name, number) for number in range(5))
        return encode([Report(name, "boot", sequence, now, state=_state(), containers=states)])

    def _body(self, name: str, at: float, *, with_usage: bool) -> bytes:
        states = tuple(self._state(name, number) for number in range(self._containers))
        usage = tuple(
            ContainerUsage(each.id, *self._loads[number % _TEMPLATES]) for number, each in enumerate(states)
        )
        heartbeat = Heartbeat("0", sample_seconds=5.0, beacon_seconds=60.0, usage=usage if with_usage else ())
        report = Report(
            name, "boot", next(self._sequence), at, state=_state(), containers=states, heartbeat=heartbeat
        )
        return encode([report])

    def _state(self, node: str, number: int) -> ContainerState:
        (cpu, memory, disk, network), _ = _LOADS[number % len(_LOADS)]
        place = int(node.rpartition("-")[2]) * self._containers + number
        return ContainerState(
            id=container_id(f"{node}/{number}"),
            name=f"c{number}-{node}",
            runtime="docker",
            cpu_seconds_total=1.0,
            used=Quantities(cpu, int(memory), disk, network),
            limit=Quantities(2 * cpu, 2 * int(memory)),
            image="example/load:1",
            service=f"service-{place % _SERVICES}",
        )


def _usage(rng: random.Random, number: int) -> tuple[Sketch, ...]:
    levels, scatters = _LOADS[number % len(_LOADS)]
    sketches = tuple(Sketch() for _ in levels)
    for sketch, level, scatter in zip(sketches, levels, scatters, strict=True):
        for _ in range(_SAMPLES):
            sketch.add(level * rng.lognormvariate(0.0, scatter))
    return sketches


def _state() -> NodeState:
    return NodeState(used=Quantities(12.0, 100_000_000_000, 3e8, 2e8), capacity=_CAPACITY)


# --- The collector --------------------------------------------------------------------------


@contextmanager
def collector(folder: Path) -> Iterator[tuple[psutil.Popen, str]]:
    """Run the real command while the block runs; yields its process and address."""
    config, log = folder / "collector.toml", folder / "collector.log"
    config.write_text(
        f'[http]\nlisten = "127.0.0.1:0"\n[history]\npath = "{folder / "collector.db"}"\n'
        f'[access]\ntokens = ""\n[analysis]\ninterval_seconds = {PERIOD_SECONDS}\n'
    )
    with log.open("w") as output:
        process = psutil.Popen(
            [sys.executable, "-c", _COLLECTOR, "collector", "--config", str(config)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process, await_url(process, log)
    finally:
        process.terminate()
        try:
            process.wait(_TIMEOUT_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait()


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a client session to the collector."""
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(address, headers=headers) as http:
        yield http


async def fill(http: aiohttp.ClientSession, bodies: Iterator[bytes], total: int, progress: Progress) -> None:
    """Send all bodies, a few at a time."""
    with progress.track("heartbeats", total) as show:
        done = count(1)

        async def send() -> None:
            for body in bodies:
                async with http.post("/v1/reports", data=body) as response:
                    if response.status != 200:  # noqa: PLR2004 - OK
                        raise UserError(f"the collector rejected a heartbeat: {await response.text()}")
                show(next(done))

        await asyncio.gather(*(send() for _ in range(_AT_ONCE)))


async def send_requests(
    http: aiohttp.ClientSession, paths: Sequence[str], per_second: float, seconds: float
) -> Latencies:
    """Request the paths in turn, at a rate that does not depend on responses."""
    latencies = Latencies()
    requested = [path for _, path in zip(range(round(per_second * seconds)), _cycle(paths), strict=False)]
    began = time.monotonic()

    async def request(path: str, due: float) -> None:
        await asyncio.sleep(due - time.monotonic())
        try:
            async with http.get(path) as response:
                await response.read()
                latencies.failed += response.status != 200  # noqa: PLR2004 - OK
        except (aiohttp.ClientError, TimeoutError):
            latencies.failed += 1
        latencies.seconds.append(time.monotonic() - due)

    await asyncio.gather(
        *(request(path, began + number / per_second) for number, path in enumerate(requested))
    )
    return latencies


def _cycle(paths: Sequence[str]) -> Iterator[str]:
    for number in count():
        yield paths[number % len(paths)]
