"""A small cluster whose nodes run one service, and the answers of its collector that follow from them."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from collector.config import CollectorConfig
from collector.features.sizing.jobs import SizingJob
from collector.main import RunningCollector, running
from tests.collector.builders import CURVE, START, Client, Clock, container, report, settings
from wire.messages import ContainerState, ContainerUsage, Heartbeat, Report
from wire.resources import Quantities
from wire.sketch import Sketch, bin_of

BEAT_SECONDS = 300.0
HEARTBEAT = Heartbeat(agent_version="0.1.0", sample_seconds=1.0, beacon_seconds=60.0, power_curve=CURVE)
CAPACITY = Quantities(16.0, 64 << 30, 5e8, 1.25e9)
CORES, MEMORY_BYTES = 0.5, 1 << 30
_SNAPSHOT_SECONDS = 10.0
"""A snapshot is kept for a few seconds."""


def usage_of(
    name: str, cores: float, *, memory_bytes: float = MEMORY_BYTES, seconds: int = 300
) -> ContainerUsage:
    """The samples of a container since the last heartbeat, one per second, within a tenth of their mean."""
    found = []
    for mean in (cores, memory_bytes, 1000.0, 1000.0):
        sketch = Sketch()
        for place in range(10):
            index = bin_of(mean * (0.9 + place / 50))
            sketch.bins[index] = sketch.bins.get(index, 0) + seconds // 10
        found.append(sketch)
    return ContainerUsage(f"id-of-{name}", *found)


def heartbeat(  # noqa: PLR0913 - what a report says
    node: str,
    beat: int,
    cores: float = CORES,
    *,
    service: str = "shop",
    containers: int = 1,
    capacity: Quantities = CAPACITY,
    heartbeat: Heartbeat = HEARTBEAT,
    usage: Iterable[ContainerUsage] | None = None,
    **changes: Any,
) -> Report:
    """The report of a node after this many heartbeats."""
    names = [f"{node}-{place}" for place in range(containers)]
    states = [
        container(name, service=service, used=Quantities(cores, MEMORY_BYTES, 1000.0, 1000.0), **changes)
        for name in names
    ]
    samples = tuple(usage_of(name, cores) for name in names) if usage is None else tuple(usage)
    whole = report(
        node, sequence=beat + 1, at=START + BEAT_SECONDS * beat, containers=states, capacity=capacity
    )
    return msgspec.structs.replace(whole, heartbeat=msgspec.structs.replace(heartbeat, usage=samples))


def labelled(state: ContainerState, labels: Mapping[str, str]) -> ContainerState:
    return msgspec.structs.replace(state, labels=dict(labels))


@dataclass
class SmallCluster:
    """A collector, and what it answers about its honest nodes."""

    collector: RunningCollector
    client: Client

    async def beat(self, *reports: Report) -> None:
        """Let reports arrive, and then a heartbeat's time pass."""
        await self.client.send(*reports)
        self.client.clock.now += BEAT_SECONDS

    def later(self, seconds: float) -> None:
        self.client.clock.now += seconds

    async def run_honest(self, nodes: int = 20, beats: Iterable[int] = range(12)) -> None:
        for beat in beats:
            await self.beat(*(heartbeat(f"node{number:02}", beat, _cores(number)) for number in range(nodes)))

    async def service(self, name: str = "shop") -> dict[str, Any]:
        self.later(_SNAPSHOT_SECONDS)
        await self.collector.analysis.analyse()
        _, found = await self.client.ask("/v1/services?limit=1000")
        return next((each for each in found["services"] if each["name"] == name), {})

    async def fitting(self, service: str = "shop") -> list[str]:
        """The nodes that a new container of a service fits on."""
        await self.collector.analysis.analyse()
        self.later(_SNAPSHOT_SECONDS)
        _, found = await self.client.post(
            msgspec.json.encode({"service": service, "limit": 1000}), "/v1/hints/placement"
        )
        return sorted(each["node"] for each in found.get("nodes", ()))

    async def answers(self) -> dict[str, Any]:
        """All answers that follow from the usage of containers, without times."""
        core = self.collector.core
        self.later(_SNAPSHOT_SECONDS)
        await self.collector.analysis.analyse()
        await core.part(SizingJob).run_once()
        found: dict[str, Any] = {}
        for path in _PATHS:
            _, found[path] = await self.client.ask(path)
        _, found["hint"] = await self.client.post(
            msgspec.json.encode({"service": "shop", "limit": 1000}), "/v1/hints/placement"
        )
        return dict(_without_times(found))


_PATHS = (
    *("/v1/services?limit=1000", "/v1/nodes?limit=1000", "/v1/containers?service=shop", "/v1/sizes"),
    *("/v1/groups", "/v1/energy?by=service&start=1799990000&end=1800100000", "/v1/applications"),
    "/v1/energy?by=node&start=1799990000&end=1800100000",
)
_TIMES = frozenset({"at", "seconds", "last_seen_at", "report_age_seconds", "age_seconds"})


def _without_times(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _without_times(each) for key, each in found.items() if key not in _TIMES}
    return [_without_times(each) for each in found] if isinstance(found, list) else found


def _cores(number: int) -> float:
    return CORES * (0.9 + 0.2 * (number % 5) / 4)


@asynccontextmanager
async def small_cluster(
    path: Path | str = ":memory:", config: CollectorConfig | None = None, clock: Clock | None = None
) -> AsyncIterator[SmallCluster]:
    clock = clock or Clock()
    async with running(config or settings(path), clock=clock) as collector, aiohttp.ClientSession() as http:
        yield SmallCluster(collector, Client(collector.address.url, http, clock))
