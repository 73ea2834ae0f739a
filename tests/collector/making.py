"""Reports, and a collector to hand them to."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from collector.config import CollectorConfig, History, Http, Liveness
from collector.main import running
from wire.messages import (
    ContainerPower,
    ContainerState,
    Gap,
    NodePower,
    NodeState,
    PowerSource,
    Pressure,
    Receipt,
    Report,
    encode,
    parse_receipt,
)
from wire.resources import Quantities

START = 1_800_000_000.0
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
        power=ContainerPower(2.5, PowerSource.MODEL, 0.2, 75.0),
        image="example/web:1",
        service="shop",
        started_at=START - 100,
    )
    return msgspec.structs.replace(whole, **changes)


def report(
    node: str = "alpha",
    *,
    boot: str = "first",
    sequence: int = 1,
    at: float = START,
    containers: Iterable[ContainerState] = (),
    **state: Any,
) -> Report:
    whole = NodeState(
        used=Quantities(1.0, 2_000_000_000, 3000.0, 4000.0),
        capacity=Quantities(4.0, 8_000_000_000, None, 125_000_000.0),
        pressure=Pressure(0.01, None, 0.03),
        power=NodePower(50.0, 30.0, 5.0, PowerSource.RAPL, 0.03, 1500.0),
        gaps=(Gap("names", "the engine's socket is not there"),),
    )
    return Report(
        node=node,
        boot=boot,
        sequence=sequence,
        at=at,
        interval_seconds=3.0,
        agent_version="0.1.0",
        state=msgspec.structs.replace(whole, **state),
        containers=tuple(containers),
    )


@dataclass
class Clock:
    """A clock that stands still until it is told."""

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
            said = await answer.read()
            assert answer.status == HTTPStatus.OK, said
            return parse_receipt(said)

    async def ask(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.http.get(self.url + path, headers=headers) as answer:
            return answer.status, json.loads(await answer.read())

    async def nodes(self, query: str = "") -> list[dict[str, Any]]:
        status, said = await self.ask("/v1/nodes" + query)
        assert status == HTTPStatus.OK, said
        return list(said["nodes"])

    async def containers(self, query: str = "") -> list[dict[str, Any]]:
        status, said = await self.ask("/v1/containers" + query)
        assert status == HTTPStatus.OK, said
        return list(said["containers"])


def settings(path: Path | str = ":memory:", *, retention_hours: float = 6.0, **http: Any) -> CollectorConfig:
    return CollectorConfig(
        http=Http(listen="127.0.0.1:0", **http),
        history=History(path=str(path), retention_hours=retention_hours),
        liveness=Liveness(silent_after_seconds=15.0, forget_after_hours=6.0),
    )


@asynccontextmanager
async def collecting(config: CollectorConfig, clock: Clock | None = None) -> AsyncIterator[Client]:
    clock = clock or Clock()
    async with running(config, clock=clock) as collector, aiohttp.ClientSession() as http:
        yield Client(collector.address.url, http, clock)
