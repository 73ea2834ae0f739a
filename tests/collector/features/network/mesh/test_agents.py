"""Agents that measure each other by real UDP, with peers and keys of a real collector."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from agent.config import (
    DeliveryConfig,
)
from agent.features import settings_class
from agent.features.mesh.exchange import open_mesh
from agent.features.mesh.settings import MeshConfig
from agent.main import running as running_agent
from collector.config import CollectorConfig
from collector.features.network import settings as network_settings
from tests.agent.trees import make_host, make_v2
from tests.collector.builders import Client, collecting, report, settings

NODES = ("alpha", "beta", "gamma")


def with_mesh(config: CollectorConfig) -> CollectorConfig:
    return config.with_section(network_settings.MeshConfig(enabled=True))


@asynccontextmanager
async def agents(url: str, *nodes: str) -> AsyncIterator[None]:
    """Run the mesh of these nodes."""
    async with AsyncExitStack() as stack:
        tasks = []
        for node in nodes:
            mesh = await stack.enter_async_context(
                open_mesh(node, MeshConfig(enabled=True, listen="127.0.0.1:0"), DeliveryConfig(url=url))
            )
            tasks.append(asyncio.create_task(mesh.run()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def network(collector: Client, kind: str) -> dict[str, Any]:
    """The network as soon as all pairs are of a kind."""
    async with asyncio.timeout(120):
        while True:
            status, answer = await collector.ask("/v1/network")
            assert status == 200, answer
            if {each for row in answer["kinds"] for each in row} == {kind}:
                return dict(answer)
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_agents_measure_each_other(tmp_path: Path) -> None:
    async with collecting(with_mesh(settings(tmp_path / "history.db"))) as collector:
        for node in NODES:
            await collector.send(report(node))
        async with agents(collector.url, *NODES):
            found = await network(collector, "measured")
            status, one = await collector.ask("/v1/network/beta")
    assert found["enabled"]
    assert [each["name"] for each in found["nodes"]] == list(NODES)
    assert {each["cluster"] for each in found["nodes"]} == {0}
    assert {each["peers"] for each in found["nodes"]} == {2}
    table = found["p50_seconds"]
    for row in range(3):
        assert table[row][row] == 0
        for other in range(row):
            assert table[row][other] == table[other][row]
            assert 0 < table[row][other] < 0.5
    assert status == 200
    assert sorted(each["peer"] for each in one["round_trips"]) == ["alpha", "gamma"]
    assert {each["kind"] for each in one["round_trips"]} == {"measured"}
    assert {each["lost_ratio"] for each in one["round_trips"]} == {0}


@pytest.mark.slow
async def test_a_restarted_collector_gets_all_results_again(tmp_path: Path) -> None:
    config = with_mesh(settings(tmp_path / "history.db"))
    async with collecting(config) as collector:
        for node in NODES:
            await collector.send(report(node))
        port = int(collector.url.rpartition(":")[2])
        stack = AsyncExitStack()
        await stack.enter_async_context(agents(collector.url, *NODES))
        await network(collector, "measured")
    async with stack:
        again = msgspec.structs.replace(
            config, http=msgspec.structs.replace(config.http, listen=f"127.0.0.1:{port}")
        )
        async with collecting(again) as collector:
            await network(collector, "measured")


async def test_a_whole_agent_exposes_its_round_trip_times(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    make_v2(host)
    async with collecting(with_mesh(settings(tmp_path / "history.db"))) as collector:
        tables = {
            "node": "alpha",
            "http": {"listen": "127.0.0.1:0"},
            "collector": {"enabled": False, "url": collector.url},
            "docker": {"socket": ""},
            "host": {"root": str(tmp_path)},
            "storage": {"directory": ""},
            "mesh": {"enabled": True, "listen": "127.0.0.1:0"},
        }
        config = msgspec.convert(tables, settings_class())
        async with (
            running_agent(config) as agent,
            agents(collector.url, "beta"),
            aiohttp.ClientSession() as http,
            asyncio.timeout(30),
        ):
            while True:
                async with http.get(f"http://127.0.0.1:{agent.address.port}/metrics") as answer:
                    lines = (await answer.text()).splitlines()
                series = [line for line in lines if line.startswith("wattpack_peer_round_trip_seconds{")]
                if series:
                    break
                await asyncio.sleep(0.05)
    assert [line.rpartition(" ")[0] for line in series] == [
        'wattpack_peer_round_trip_seconds{peer="beta",quantile="0.5"}',
        'wattpack_peer_round_trip_seconds{peer="beta",quantile="0.95"}',
    ]
    assert 'wattpack_peer_lost_ratio{peer="beta"} 0.0' in lines
