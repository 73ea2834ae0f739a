"""What an agent sends to the collector about the mesh, and what it makes of the answers."""

import asyncio
import gzip
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from agent.config import DeliveryConfig
from agent.features.mesh.exchange import MeshExchange
from agent.features.mesh.peers import Peers
from tests.waiting import until
from wire.address import Address
from wire.mesh import KEY_BYTES, MeshAssignment, MeshPeer
from wire.messages import encode

Answer = Callable[[], web.Response]
BETA = MeshPeer("beta", 2, 9, "127.0.0.1", key=bytes(KEY_BYTES))


def assigned(version: int = 1, *peers: MeshPeer, unchanged: bool = False) -> Answer:
    assignment = MeshAssignment(version=version, peers=None if unchanged else peers, interval_seconds=30.0)
    return lambda: web.Response(body=encode(assignment))


class Collector:
    """Answers with each of its answers in turn, then with the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.reports: list[dict[str, object]] = []
        self.headers: list[dict[str, str]] = []

    async def take(self, request: web.Request) -> web.Response:
        self.reports.append(json.loads(gzip.decompress(await request.read())))
        self.headers.append(dict(request.headers))
        return (self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])()


@asynccontextmanager
async def exchanging(collector: Collector, peers: Peers, token_file: str = "") -> AsyncIterator[list[float]]:
    """Run the exchange of a node; yields the times that it slept."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    app = web.Application()
    app.router.add_post("/v1/mesh", collector.take)
    runner = web.AppRunner(app, auto_decompress=False, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    settings = DeliveryConfig(url=url, token_file=token_file)
    exchange = MeshExchange("alpha", 1, Address("10.0.0.5", 9641), settings, peers, sleep=sleep)
    task = asyncio.create_task(exchange.run())
    try:
        yield slept
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await runner.cleanup()


async def test_node_reports_its_address_and_uses_its_peers(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    peers, collector = Peers(), Collector(assigned(7, BETA))
    async with exchanging(collector, peers, str(tmp_path / "token")):
        await until(lambda: len(collector.reports) > 1)
    assert collector.reports[0] == {
        "node": "alpha",
        "session": 1,
        "port": 9641,
        "host": "10.0.0.5",
        "wait_seconds": 45.0,
    }
    assert collector.reports[1]["version"] == 7
    assert collector.reports[1]["wait_seconds"] == 2.0, "its first results are expected"
    assert collector.headers[0]["Authorization"] == "Bearer secret"
    assert peers.by_node["beta"].assigned == BETA
    assert peers.interval_seconds == 30.0


async def test_only_results_that_changed_are_sent() -> None:
    peers = Peers()
    now = time.monotonic()
    peers.assign([BETA], now)
    peers.by_node["beta"].probes.append((now, 0.01))
    collector = Collector(assigned(7, BETA), assigned(7, unchanged=True))
    async with exchanging(collector, peers):
        await until(lambda: len(collector.reports) > 2)
        assert collector.reports[0]["results"] == [["beta", 0.01, 0.01, 1, 0]]
        assert not any("results" in each for each in collector.reports[1:])
        peers.by_node["beta"].probes.append((now, 0.05))
        await until(lambda: any("results" in each for each in collector.reports[1:]))
        assert peers.by_node["beta"].assigned == BETA, "an unchanged answer keeps the peers"


async def test_all_results_are_sent_again_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agent.features.mesh")
    peers = Peers()
    peers.assign([BETA], time.monotonic())
    peers.by_node["beta"].probes.append((time.monotonic(), 0.01))
    collector = Collector(assigned(7, BETA), lambda: web.Response(status=503), assigned(7, unchanged=True))
    async with exchanging(collector, peers):
        await until(lambda: len(collector.reports) > 3)
    assert ["results" in each for each in collector.reports[:4]] == [True, False, True, False]
    assert "version" not in collector.reports[2]
    assert caplog.text.count("provides peers for the mesh again") == 1


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.Response(body=b"not json"),
        lambda: web.Response(body=b"{}"),
        lambda: web.Response(body=b'{"version": 1, "peers": [{}]}'),
        lambda: web.Response(body=encode({"version": 1, "interval_seconds": 0.001})),
        lambda: web.Response(body=b"[" * (1 << 20)),
        lambda: web.Response(status=500, body=b'{"x":' + b"[" * 60_000),
        assigned(1, MeshPeer("gamma", 3, 9, "peer.example.org", key=bytes(KEY_BYTES))),
        assigned(1, MeshPeer("gamma", 3, 9, "peer\0", key=bytes(KEY_BYTES))),
        assigned(1, MeshPeer("gamma", 3, 9, "fe80::1%\0", key=bytes(KEY_BYTES))),
        lambda: web.Response(status=302, headers={"Location": "/v1/mesh"}),
        lambda: web.Response(status=409),
    ],
)
async def test_response_without_an_assignment_changes_nothing(
    answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    peers = Peers()
    peers.assign([BETA], 0.0)
    collector = Collector(answer)
    async with exchanging(collector, peers) as slept:
        await until(lambda: len(slept) > 3)
    assert list(peers.by_node) == ["beta"]
    assert min(slept) > 0, "it waits before it asks again"
    assert caplog.text.count("cannot get peers for the mesh") == 1


async def test_requests_to_a_fast_collector_are_limited() -> None:
    collector = Collector(assigned(1), assigned(2), assigned(3))
    async with exchanging(collector, Peers()) as slept:
        await until(lambda: len(slept) > 2)
    assert all(0.5 < each <= 1.0 for each in slept[:3])
