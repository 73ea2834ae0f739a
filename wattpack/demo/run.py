"""The demo as a whole: the past, a real collector, and simulated agents that report to it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from collector.common.periodic import in_background, repeat
from collector.config import (
    AccessConfig,
    AnalysisConfig,
    CollectorConfig,
    ControlConfig,
    DriverConfig,
    EnergyConfig,
    HistoryConfig,
    HttpConfig,
)
from collector.features.network.mesh.mesh import Mesh
from collector.features.network.settings import ApplicationRule, MeshConfig
from collector.main import RunningCollector
from collector.main import running as running_collector
from wattpack.demo.agents import DemoAgents
from wattpack.demo.cluster import DemoCluster
from wattpack.demo.driver import DemoDriver
from wattpack.demo.past import write_past
from wattpack.demo.shop import Shop, make_shop
from wattpack.demo.tables import APPLICATION, delay_seconds
from wire.address import parse_address
from wire.errors import UserError
from wire.http.serving import check_address
from wire.mesh import MeshMember, PeerResult
from wire.messages import MAX_BATCH, Report, encode

AGENTS_THREAD = "demo-agents"
"""The thread of the simulated agents: its CPU time is not the collector's."""
_SAMPLE_SECONDS = 5.0
_CONTAINERS_PER_SECOND = 1000.0
"""In a large cluster, agents sample less often: one process simulates them all."""
_MESH_SECONDS = 5.0
_PROBES = 5
_DELAY_MAX_SECONDS = 0.015
"""Frankfurt is near enough to both other zones; these are too far from each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The size of a demo, and where it runs."""

    folder: Path
    port: int = 0
    seed: int = 7
    nodes: int = 20
    containers: int = 200
    days: float = 30.0

    @property
    def sample_seconds(self) -> float:
        """Time between two samples of an agent."""
        return max(_SAMPLE_SECONDS, self.containers / _CONTAINERS_PER_SECOND)


@asynccontextmanager
async def running_demo(
    options: DemoOptions, progress: Callable[[float], None] = lambda _: None
) -> AsyncIterator[RunningCollector]:
    """Run a collector with the demo cluster while the block runs. Raise `UserError` if it cannot start."""
    listen = f"127.0.0.1:{options.port}"
    try:
        await check_address(parse_address(listen), "--port")
    except UserError:
        raise UserError(
            f"port {options.port} is in use: stop that process, or choose another one with --port, such as"
            " --port 0 for any that is free"
        ) from None
    path = options.folder / "collector.db"
    shop = make_shop(options.seed, options.nodes, options.containers)
    config = demo_config(shop, path, listen)
    cluster = DemoCluster(shop, time.time())
    agents = DemoAgents(cluster, options.sample_seconds)
    sampled_at = await write_past(config, agents, options.days, progress)
    driver = DemoDriver(cluster, time.time)
    async with (
        running_collector(config, driver=driver) as collector,
        _reporting(collector, agents, sampled_at, options.sample_seconds),
    ):
        yield collector


def demo_config(shop: Shop, path: Path, listen: str) -> CollectorConfig:
    """The settings of the demo's collector: the defaults, with shorter intervals for a quick start."""
    config = CollectorConfig(
        http=HttpConfig(listen=listen),
        access=AccessConfig(tokens=""),
        history=HistoryConfig(path=str(path)),
        analysis=AnalysisConfig(interval_seconds=15.0),
        control=ControlConfig(settle_seconds=30.0),
        # Services span nodes, as those of a Swarm do.
        driver=DriverConfig(name="swarm"),
        energy=EnergyConfig(price_per_kwh=0.29, currency="EUR", co2_grams_per_kwh=310.0),
        nodes={each.name: {"zone": each.zone} for each in shop.nodes},
    )
    rules = {APPLICATION: ApplicationRule(delay_max_seconds=_DELAY_MAX_SECONDS)}
    return msgspec.structs.replace(config, mesh=MeshConfig(enabled=True), applications=rules)


@asynccontextmanager
async def _reporting(
    collector: RunningCollector, agents: DemoAgents, sampled_at: float, sample_seconds: float
) -> AsyncIterator[None]:
    """Let the agents of the cluster report while the block runs."""
    url = f"{collector.address.url}/v1/reports"
    waiting: list[Report] = []
    with ThreadPoolExecutor(1, thread_name_prefix=AGENTS_THREAD) as thread:
        async with aiohttp.ClientSession() as session:

            async def report() -> None:
                nonlocal sampled_at
                now = time.time()
                interval, sampled_at = max(0.1, now - sampled_at), now
                loop = asyncio.get_running_loop()
                waiting.extend(await loop.run_in_executor(thread, agents.sample, now, interval))
                while waiting:
                    batch = waiting[:MAX_BATCH]
                    async with session.post(
                        url, data=encode(batch), headers={"Content-Type": "application/json"}
                    ) as response:
                        if not response.ok:
                            return  # overloaded: send them with the next sample
                    del waiting[: len(batch)]

            async def measure_round_trips() -> None:
                put_round_trips(collector.core.registry.part(Mesh), agents.cluster.shop, time.time())

            await report()
            async with in_background(
                repeat(report, sample_seconds, "the simulated agents"),
                repeat(measure_round_trips, _MESH_SECONDS, "the simulated mesh"),
            ):
                yield


def put_round_trips(mesh: Mesh, shop: Shop, now: float) -> None:
    """Add the round-trip times of every node to its peers."""
    zones = {each.name: each.zone for each in shop.nodes}
    for number, node in enumerate(shop.nodes):
        if number == shop.down_node:
            continue
        results = [
            PeerResult(peer, seconds, seconds * 1.2, _PROBES, 0)
            for peer in sorted(mesh.peers_of(node.name))
            for seconds in (delay_seconds(node.zone, zones[peer]),)
        ]
        host = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        mesh.put(MeshMember(node.name, number + 1, 9641, host), results, now)
