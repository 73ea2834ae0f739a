"""A small cluster whose nodes run one service, and the answers of its collector that follow from them."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from collector.config import CollectorConfig
from collector.features.sizing.jobs import SizingJob
from collector.main import RunningCollector, running
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import edit_tokens, make_token
from tests.collector.builders import CURVE, START, Client, Clock, container, report, settings
from wattpack.cli import main
from wire.messages import ContainerUsage, Heartbeat, Report, encode
from wire.resources import Quantities
from wire.sketch import Sketch, bin_of

BEAT_SECONDS = 300.0
HEARTBEAT = Heartbeat(agent_version="0.1.0", sample_seconds=1.0, beacon_seconds=3600.0, power_curve=CURVE)
CAPACITY = Quantities(16.0, 64 << 30, 5e8, 1.25e9)
CORES, MEMORY_BYTES = 0.5, 1 << 30
OPERATOR = "operator"
SNAPSHOT_SECONDS = 10.0
"""A snapshot is kept for a few seconds."""


def usage_of(
    name: str, cores: float, *, memory_bytes: float = MEMORY_BYTES, seconds: int = 300
) -> ContainerUsage:
    """The samples of a container since the last heartbeat, one per second, within a tenth of their mean."""
    found = []
    for mean in (cores, memory_bytes, 1000.0, 1000.0):
        sketch = Sketch(zeros=0 if mean else seconds)
        for place in range(10 if mean else 0):
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


@dataclass
class SmallCluster:
    """A collector, and what it answers about its honest nodes."""

    collector: RunningCollector
    client: Client

    tokens: Path | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The secrets of the nodes, if they need any."""

    async def send(self, *reports: Report) -> None:
        """Let each node send its report, with its own token if it needs one."""
        if not self.secrets:
            await self.client.send(*reports)
            return
        for each in reports:
            status, answer = await self.client.post(encode([each]), headers=bearer(self.secrets[each.node]))
            assert (status, answer["rejected"]) == (HTTPStatus.OK, 0), answer

    async def revoke(self, node: str) -> None:
        """Revoke the token of a node, and wait until the collector has taken out what it reported."""
        assert main(["token", "revoke", node, "--file", str(self.tokens)]) == 0
        while node in self.collector.core.registry.names():  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0.05)  # the token file is read once a second

    async def beat(self, *reports: Report) -> None:
        """Let reports arrive, and then a heartbeat's time pass."""
        await self.send(*reports)
        self.client.clock.now += BEAT_SECONDS

    def later(self, seconds: float) -> None:
        self.client.clock.now += seconds

    async def run_honest(self, nodes: int = 20, beats: Iterable[int] = range(12)) -> None:
        for beat in beats:
            await self.beat(*(heartbeat(f"node{number:02}", beat, _cores(number)) for number in range(nodes)))

    async def service(self, name: str = "shop") -> dict[str, Any]:
        self.later(SNAPSHOT_SECONDS)
        await self.collector.analysis.analyse()
        _, found = await self.client.ask("/v1/services?limit=1000")
        return next((each for each in found["services"] if each["name"] == name), {})

    async def fitting(self, service: str = "shop") -> list[str]:
        """The nodes that a new container of a service fits on."""
        await self.collector.analysis.analyse()
        self.later(SNAPSHOT_SECONDS)
        _, found = await self.client.post(
            msgspec.json.encode({"service": service, "limit": 1000}), "/v1/hints/placement"
        )
        return sorted(each["node"] for each in found.get("nodes", ()))

    async def answers(self) -> dict[str, Any]:
        """All answers that follow from the usage of containers, without times and groups."""
        core = self.collector.core
        self.later(SNAPSHOT_SECONDS)
        await self.collector.analysis.analyse()
        self.later(SNAPSHOT_SECONDS)
        await core.part(SizingJob).run_once()
        found: dict[str, Any] = {}
        await core.history.apply_retention(self.client.clock())  # updates the rollups
        for path in _PATHS:
            _, found[path] = await self.client.ask(path)
        _, found["hint"] = await self.client.post(
            msgspec.json.encode({"service": "shop", "limit": 1000}), "/v1/hints/placement"
        )
        return dict(_comparable(found))


_PATHS = (
    *("/v1/services?limit=1000", "/v1/nodes?limit=1000", "/v1/containers?service=shop", "/v1/sizes"),
    *("/v1/energy?by=service&start=1799990000&end=1800100000", "/v1/applications"),
    "/v1/energy?by=node&start=1799990000&end=1800100000",
)
# Groups of equal containers are arbitrary, and continue the last ones.
_LEFT_OUT = frozenset(
    {
        "at",
        "analyzed_at",
        "computed_at",
        "group",
        "seconds",
        "last_seen_at",
        "report_age_seconds",
        "age_seconds",
    }
)


def _comparable(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _comparable(each) for key, each in found.items() if key not in _LEFT_OUT}
    if isinstance(found, list):
        return [_comparable(each) for each in found]
    return float(f"{found:.9g}") if isinstance(found, float) else found


def _cores(number: int) -> float:
    return CORES * (0.9 + 0.2 * (number % 5) / 4)


def make_tokens(path: Path, nodes: Iterable[str]) -> dict[str, str]:
    """A token for each node, and one of an operator."""
    secrets = {}
    with edit_tokens(path) as tokens:
        for kind, name in [*((Scope.NODE, each) for each in nodes), (Scope.ADMIN, OPERATOR)]:
            token, secrets[name] = make_token(kind, name, START)
            tokens.append(token)
    return secrets


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


@asynccontextmanager
async def small_cluster(
    folder: Path | None = None,
    secrets: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    config: CollectorConfig | None = None,
) -> AsyncIterator[SmallCluster]:
    """Run a collector, with a history in a folder, and with the tokens of nodes there."""
    path = ":memory:" if folder is None else folder / "history.db"
    tokens = None if folder is None or secrets is None else folder / "tokens.jsonl"
    config = config or settings(path, tokens=tokens or "")
    clock = clock or Clock()
    headers = {} if secrets is None else bearer(secrets[OPERATOR])
    async with (
        running(config, clock=clock) as collector,
        aiohttp.ClientSession(headers=headers) as http,
    ):
        yield SmallCluster(collector, Client(collector.address.url, http, clock), tokens, secrets or {})
