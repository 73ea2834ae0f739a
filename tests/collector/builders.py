"""Reports, and a collector to hand them to."""

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from collector.analysis.usage import UsageRing, UsageWeights, add_samples, update_statistics
from collector.config import AccessConfig, CollectorConfig, HistoryConfig, HttpConfig, LivenessConfig
from collector.history.interface import UsageKey
from collector.main import running
from collector.observe.registry import Registry
from wire.messages import (
    ContainerPower,
    ContainerState,
    ContainerUsage,
    Gap,
    Heartbeat,
    NodePower,
    NodeState,
    PowerCurve,
    PowerSource,
    Pressure,
    Receipt,
    Report,
    encode,
    parse_receipt,
)
from wire.resources import Quantities
from wire.settings import AnySection

START = 1_800_000_000.0
HEARTBEAT = Heartbeat(agent_version="0.1.0", sample_seconds=3.0, beacon_seconds=5.0)
CURVE = PowerCurve(
    source=PowerSource.MODEL,
    error_ratio=0.1,
    idle_watts=20.0,
    cpu_ratios=(0.0, 0.5, 1.0),
    cpu_watts=(0.0, 30.0, 40.0),
    memory_watts=8.0,
    disk_watts=3.0,
    network_watts=2.0,
)
"""Steep at first, as real ones are."""
JSON = {"Content-Type": "application/json"}


def container(name: str = "web", *, cpu_seconds_total: float = 10.0, **changes: Any) -> ContainerState:
    whole = ContainerState(
        id=f"id-of-{name}",
        name=name,
        runtime="docker",
        cpu_seconds_total=cpu_seconds_total,
        used=Quantities(0.25, 50_000_000, 1000.0, 2000.0),
        limit=Quantities(1.0, 100_000_000),
        pressure=Pressure(0.1, 0.2, 0.3),
        power=ContainerPower(2.5, PowerSource.MODEL, 0.2, 75.0, idle_watts=0.5),
        image="example/web:1",
        service="shop",
        started_at=START - 100,
    )
    return msgspec.structs.replace(whole, **changes)


def state(**changes: Any) -> NodeState:
    whole = NodeState(
        used=Quantities(1.0, 2_000_000_000, 3000.0, 4000.0),
        capacity=Quantities(4.0, 8_000_000_000, None, 125_000_000.0),
        pressure=Pressure(0.01, None, 0.03),
        power=NodePower(50.0, 30.0, 5.0, PowerSource.RAPL, 0.03, 1500.0),
        gaps=(Gap("names", "the engine's socket is not there"),),
    )
    return msgspec.structs.replace(whole, **changes)


def partial_report(
    node: str = "alpha", *, boot: str = "first", sequence: int = 1, at: float = START, **parts: Any
) -> Report:
    """A report with these parts; a beacon without any."""
    return Report(node=node, boot=boot, sequence=sequence, at=at, **parts)


def report(
    node: str = "alpha",
    *,
    boot: str = "first",
    sequence: int = 1,
    at: float = START,
    containers: Iterable[ContainerState] = (),
    **changes: Any,
) -> Report:
    """A full heartbeat."""
    return partial_report(
        node,
        boot=boot,
        sequence=sequence,
        at=at,
        state=state(**changes),
        containers=tuple(containers),
        heartbeat=HEARTBEAT,
    )


def apply_report(registry: Registry, report: Report, received_at: float) -> None:
    """Apply a new report to a registry, as the ingestion does."""
    registry.apply(report, received_at)
    if report.heartbeat is not None:
        key = UsageKey.received(report, received_at)
        list(registry.usage.add(key, report.heartbeat.usage))


@dataclass
class Clock:
    """A clock that tests set."""

    now: float = START

    def __call__(self) -> float:
        return self.now


@dataclass
class Client:
    """A running collector, seen from outside."""

    url: str
    http: aiohttp.ClientSession
    clock: Clock

    async def post(
        self, body: bytes, path: str = "/v1/reports", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        async with self.http.post(self.url + path, data=body, headers=JSON | (headers or {})) as answer:
            return answer.status, json.loads(await answer.read())

    async def send(self, *reports: Report) -> Receipt:
        async with self.http.post(self.url + "/v1/reports", data=encode(reports), headers=JSON) as answer:
            body = await answer.read()
            assert answer.status == HTTPStatus.OK, body
            return parse_receipt(body)

    async def ask(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.http.get(self.url + path, headers=headers) as answer:
            return answer.status, json.loads(await answer.read())

    async def nodes(self, query: str = "") -> list[dict[str, Any]]:
        status, answer = await self.ask("/v1/nodes" + query)
        assert status == HTTPStatus.OK, answer
        return list(answer["nodes"])

    async def alerts(self, query: str = "") -> list[dict[str, Any]]:
        status, answer = await self.ask("/v1/alerts" + query)
        assert status == HTTPStatus.OK, answer
        return list(answer["alerts"])

    async def events(self, query: str = "") -> list[dict[str, Any]]:
        status, answer = await self.ask("/v1/events" + query)
        assert status == HTTPStatus.OK, answer
        return list(answer["events"])

    async def containers(self, query: str = "") -> list[dict[str, Any]]:
        status, answer = await self.ask("/v1/containers" + query)
        assert status == HTTPStatus.OK, answer
        return list(answer["containers"])


def altered(section: AnySection, **constants: Any) -> AnySection:
    """The same settings with other constants of their class."""
    kind = type(section)
    changed = type(kind.__name__, (kind,), constants)
    made: AnySection = changed(**msgspec.structs.asdict(section))
    return made


def settings(
    path: Path | str = ":memory:", *, retention_hours: float = 6.0, tokens: Path | str = "", **http: Any
) -> CollectorConfig:
    return CollectorConfig(
        http=HttpConfig(listen="127.0.0.1:0", **http),
        access=AccessConfig(tokens=str(tokens)),
        history=HistoryConfig(path=str(path), retention_hours=retention_hours),
        liveness=LivenessConfig(down_after_beacons=6.0, forget_after_hours=6.0),
    )


@asynccontextmanager
async def collecting(config: CollectorConfig, clock: Clock | None = None) -> AsyncIterator[Client]:
    clock = clock or Clock()
    async with running(config, clock=clock) as collector, aiohttp.ClientSession() as http:
        yield Client(collector.address.url, http, clock)


def add_heartbeat(
    rings: dict[str, UsageRing], bucket: int, usages: Sequence[ContainerUsage], weights: UsageWeights
) -> None:
    """Add the samples of a heartbeat, and update the statistics."""
    update_statistics(add_samples(rings, bucket, usages), weights)
