"""The demo as a whole: the past, a real collector, simulated agents that report to it, and a driver."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from collector.act.drivers.interface import ActionResult, Driver, DriverError
from collector.common.orchestrator import Mode, NodeView, OrchestratorState, ServiceView, TaskView
from collector.common.periodic import in_background, repeat
from collector.common.text import counted
from collector.config import CollectorConfig
from collector.decide.policies.actions import Action, Cut, Kill, Move, Scale, describe
from collector.features.network.mesh.mesh import Mesh
from collector.main import RunningCollector
from collector.main import running as running_collector
from wattpack.demo.agents import DemoAgents
from wattpack.demo.cluster import DemoCluster
from wattpack.demo.past import write_past
from wattpack.demo.shop import Shop, make_shop
from wattpack.demo.tables import APPLICATION, ShopService, delay_seconds
from wire.address import parse_address
from wire.errors import UserError
from wire.http.serving import check_address
from wire.mesh import MeshMember, PeerResult
from wire.messages import MAX_BATCH, Report, encode
from wire.resources import Quantities

AGENTS_THREAD = "demo-agents"
"""The thread of the simulated agents: its CPU time is not the collector's."""
_SAMPLE_SECONDS = 5.0
_CONTAINERS_PER_SECOND = 1000.0
"""In a large cluster, agents sample less often: one process simulates them all."""
_MOVE_SECONDS = 2.0
"""Time that a new container takes to become healthy."""
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
    settings = {
        "http": {"listen": listen},
        "access": {"tokens": ""},
        "history": {"path": str(path)},
        "analysis": {"interval_seconds": 15.0},
        "control": {"settle_seconds": 30.0, "verdict_seconds": 200.0},
        # Services span nodes, as those of a Swarm do.
        "driver": {"name": "swarm"},
        "energy": {"price_per_kwh": 0.29, "currency": "EUR", "co2_grams_per_kwh": 310.0},
        "nodes": {each.name: {"zone": each.zone} for each in shop.nodes},
        "mesh": {"enabled": True},
        "applications": {APPLICATION: {"delay_max_seconds": _DELAY_MAX_SECONDS}},
    }
    return msgspec.convert(settings, CollectorConfig)


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


class DemoDriver(Driver):
    """Carries out actions in the demo cluster, as an orchestrator would."""

    name = "demo"
    dry = False
    has_queue = True

    def __init__(
        self, cluster: DemoCluster, clock: Callable[[], float], move_seconds: float = _MOVE_SECONDS
    ) -> None:
        self._cluster, self._clock, self._move_seconds = cluster, clock, move_seconds
        self._node_rows = {each.name: row for row, each in enumerate(cluster.shop.nodes)}
        self._stopped: dict[str, int] = {}
        """Replicas of the services that were stopped because resources were short."""

    async def view(self) -> OrchestratorState:
        shop, now = self._cluster.shop, self._clock()
        return OrchestratorState(
            nodes=tuple(
                NodeView(name=each.name, ready=self._cluster.is_up(row, now), labels={"zone": each.zone})
                for row, each in enumerate(shop.nodes)
            ),
            services=tuple(
                self._service_view(name, shop.containers[rows[0]].kind, rows)
                for name, rows in shop.rows.items()
            ),
            tasks=tuple(
                TaskView(
                    container=place.id,
                    service=shop.containers[row].service,
                    node=shop.nodes[place.node].name,
                    state="running",
                    reserve=self._cluster.limit_of(row),
                    id=f"{shop.containers[row].name}.{place.id[:8]}",
                    slot=str(shop.containers[row].slot),
                    created_at=place.started_at,
                    running_since=place.started_at,
                )
                for row, place in self._cluster.places().items()
            ),
        )

    def _service_view(self, name: str, kind: ShopService, rows: list[int]) -> ServiceView:
        limit = self._cluster.limit_of(rows[0]) if kind.replicas_max else Quantities()
        return ServiceView(
            name=name,
            mode=Mode.REPLICATED,
            replicas=self._cluster.replicas_of(name),
            reserve=limit,
            limit=limit,
            image=kind.image,
            labels=kind.labels,
            stays="it has a volume on its node" if kind.is_pinned else None,
            stopped_replicas=self._stopped.get(name, 0),
        )

    async def carry_out(self, action: Action) -> ActionResult:
        match action:
            case Move(task=task, target=target) | Kill(task=task, target=str(target)):
                await asyncio.sleep(self._move_seconds)
                new = self._cluster.move(self._row(task), self._node_rows[target], self._clock())
                return ActionResult(what=f"started {new[:12]} on {target}", before=b"{}", containers=(new,))
            case Cut(task=task, allocated=allocated):
                row = self._row(task)
                before = msgspec.json.encode(self._cluster.limit_of(row))
                self._cluster.limit(row, allocated)
                return ActionResult(what="changed its limits", before=before)
            case Scale():
                return await self._scale(action)
        raise DriverError(f"the demo cannot {describe(action)}")

    async def undo(self, action: Action, done: ActionResult) -> None:
        match action:
            case Move(node=source) | Kill(node=source):
                for container in done.containers:
                    self._cluster.move(self._row(container), self._node_rows[source], self._clock())
            case Cut(task=task):
                self._cluster.limit(self._row(task), msgspec.json.decode(done.before, type=Quantities))
            case Scale(service=service, replicas=replicas, replicas_before=before):
                # Unless someone changed it since.
                if self._cluster.replicas_of(service) == replicas:
                    self._set_replicas(action, before, replicas)
            case _:
                pass

    async def _scale(self, action: Scale) -> ActionResult:
        most = len(self._cluster.shop.rows.get(action.service, ()))
        if action.replicas > most:
            raise DriverError(f"the demo has {counted(most, 'container')} of {action.service} at most")
        before = self._cluster.replicas_of(action.service)
        known = {place.id for place in self._cluster.places().values()}
        await asyncio.sleep(0.0 if before == action.replicas else self._move_seconds)
        containers = self._set_replicas(action, action.replicas, before)
        names = [each.name for each in self._cluster.shop.nodes]
        new = sorted(
            {
                names[each.node]
                for each in self._cluster.places().values()
                if each.id in set(containers) - known
            }
        )
        what = f"scaled {action.service} from {before} to {action.replicas} replicas"
        return ActionResult(
            what=f"{what}, on {', '.join(new)}" if new else what,
            containers=containers,
            nothing_to_do=before == action.replicas,
        )

    def _set_replicas(self, action: Scale, replicas: int, before: int) -> tuple[str, ...]:
        """Scale a service, and note whether it is stopped because resources are short."""
        if action.sheds:
            self._stopped.pop(action.service, None)
            if not replicas:
                self._stopped[action.service] = before
        nodes = [self._node_rows[name] for name in action.nodes]
        return self._cluster.scale(action.service, replicas, nodes, self._clock())

    def _row(self, task: str) -> int:
        for row, place in self._cluster.places().items():
            if place.id == task:
                return row
        raise DriverError(f"container {task[:12]} no longer runs")
