"""A collector and a simulated cluster that reports to it, in two processes: `python -m bench.page.cluster`.

This keeps the CPU time of the collector separate from that of the agents. This process simulates the agents;
it starts the collector, and prints its address and process id.
"""

import asyncio
import multiprocessing
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import aiohttp

from collector.common.periodic import repeat
from collector.features.network.mesh.mesh import Mesh
from collector.main import running
from wattpack.demo.agents import DemoAgents
from wattpack.demo.cluster import DemoCluster
from wattpack.demo.past import write_past
from wattpack.demo.run import DemoDriver, DemoOptions, demo_config, put_round_trips
from wattpack.demo.shop import Shop, make_shop
from wire.messages import MAX_BATCH, encode

_MESH_SECONDS = 5.0
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class _Start:
    """Settings from which both processes make the same cluster."""

    options: DemoOptions
    starts_at: float

    @property
    def shop(self) -> Shop:
        return make_shop(self.options.seed, self.options.nodes, self.options.containers)

    @property
    def database(self) -> Path:
        return self.options.folder / "collector.db"


def main(nodes: int, containers: int) -> None:
    """Run until this process is terminated."""
    with tempfile.TemporaryDirectory() as folder:
        start = _Start(DemoOptions(folder=Path(folder), nodes=nodes, containers=containers), time.time())
        with suppress(asyncio.CancelledError):
            asyncio.run(_report(start))


async def _report(start: _Start) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    cluster = DemoCluster(start.shop, start.starts_at)
    agents = DemoAgents(cluster, start.options.sample_seconds)
    config = demo_config(cluster.shop, start.database, "127.0.0.1:0")
    sampled_at = await write_past(config, agents, start.options.days, lambda _: None)
    async with _collector(start) as (url, pid), aiohttp.ClientSession(url) as session:
        # This process does not execute the collector's decisions.
        async with session.post("/v1/control", json={"paused": True, "why": "a benchmark"}) as response:
            response.raise_for_status()

        async def report() -> None:
            nonlocal sampled_at
            now = time.time()
            interval, sampled_at = max(0.1, now - sampled_at), now
            reports = await asyncio.to_thread(agents.sample, now, interval)
            for begin in range(0, len(reports), MAX_BATCH):
                body = encode(reports[begin : begin + MAX_BATCH])
                async with session.post("/v1/reports", data=body, headers=_JSON) as response:
                    response.raise_for_status()

        await report()
        print(f"page {url} process {pid}", flush=True)
        await repeat(report, start.options.sample_seconds, "the simulated agents")


@asynccontextmanager
async def _collector(start: _Start) -> AsyncIterator[tuple[str, int]]:
    """Run a collector in its own process while the block runs; yields its address and process id."""
    own, other = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_collect, args=(start, other), daemon=True)
    process.start()
    try:
        yield await asyncio.to_thread(own.recv), process.pid or 0
    finally:
        process.terminate()
        await asyncio.to_thread(process.join)


def _collect(start: _Start, ready: Connection) -> None:
    asyncio.run(_run_collector(start, ready))


async def _run_collector(start: _Start, ready: Connection) -> None:
    shop = start.shop
    config = demo_config(shop, start.database, "127.0.0.1:0")
    driver = DemoDriver(DemoCluster(shop, start.starts_at), time.time)
    async with running(config, driver=driver) as collector:
        ready.send(collector.address.url)

        async def measure_distances() -> None:
            put_round_trips(collector.core.registry.part(Mesh), shop, time.time())

        await repeat(measure_distances, _MESH_SECONDS, "the simulated mesh")


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:]))
