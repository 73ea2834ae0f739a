"""The mesh: cost of a node among 64, error of estimates among 1,000, and cost of invalid probes."""

import asyncio
import json
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agent.features.mesh.packets import PACKET_BYTES, REQUEST, Packet, encode_packet
from bench.common.progress import Progress
from bench.common.results import Figure
from bench.network.mesh_node import PEER_SESSION
from collector.common.arrays import Floats
from collector.config import AccessConfig, CollectorConfig, HistoryConfig, HttpConfig
from collector.features.network.mesh.coordinates import fit_coordinates
from collector.features.network.mesh.delays import Delays
from collector.features.network.mesh.planning import RowPair, choose_near, choose_pairs
from collector.features.network.settings import MeshConfig
from collector.main import running
from wire.mesh import KEY_BYTES

_NODES = 64
_COST_SECONDS = 120.0
_SETTLE_SECONDS = 60.0
_MOST_CPU_PERCENT, _MOST_BYTES_PER_SECOND = 0.1, 200.0
_DATAGRAM_HEADERS, _SEGMENT_HEADERS = 28, 40
"""Bytes of IPv4 and UDP headers, and of IPv4 and TCP headers. Each TCP segment has an acknowledgement."""

_LARGE = 1000
_NOISE = 0.03
_DETOURS = "detours"
_NEAR_ENOUGH, _MIN_SHARE = 0.15, 90.0

_FLOOD_PER_SECOND, _FLOOD_SECONDS = 10_000, 5.0
_MOST_FLOOD_PERCENT = 5.0

GE_KUBE = np.array([[1, 100, 135, 32], [100, 1, 33, 82], [135, 33, 1, 115], [32, 82, 115, 1]]) / 1000
"""Round-trip times between the four regions of ge-kube, in seconds."""


def figures(progress: Progress) -> Iterator[Figure]:
    """Measure estimates, floods and cost."""
    yield from estimates(progress)
    yield from flood(progress)
    yield from cost(progress)


# --- Estimates ------------------------------------------------------------------------------------


def estimates(progress: Progress) -> Iterator[Figure]:
    """The error of estimates in clusters of 1,000 nodes with 20 peers each."""
    generator = np.random.default_rng(1)
    for name, make in (
        ("ge_kube_regions", _regions),
        ("30_zones", _zones),
        ("spread", _spread),
        (_DETOURS, _detours),
    ):
        table = make(generator)
        progress.say(f"estimates of {_LARGE} nodes, {name}")
        fit = _estimate(table, generator)
        upper = np.triu_indices(_LARGE, 1)
        errors = np.abs(fit.delays.among(np.arange(_LARGE))[upper] - table[upper]) / table[upper]
        yield Figure(name=f"mesh_{name}_peers", value=fit.peers, unit="peers", at_most=20)
        yield Figure(
            name=f"mesh_{name}_within_15_percent",
            value=100 * float((errors <= _NEAR_ENOUGH).mean()),
            unit="% of pairs",
            # No coordinates fit a network in which detours are shorter, so this figure has no bound.
            at_least=None if name == _DETOURS else _MIN_SHARE,
        )
        for share in (50, 90, 99):
            yield Figure(
                name=f"mesh_{name}_error_p{share}",
                value=100 * float(np.quantile(errors, share / 100)),
                unit="%",
            )
        yield Figure(name=f"mesh_{name}_stated_error", value=100 * (fit.stated_error or np.nan), unit="%")
        yield Figure(name=f"mesh_{name}_fit", value=fit.seconds, unit="s")


@dataclass(frozen=True, slots=True)
class _Fit:
    delays: Delays
    stated_error: float | None
    peers: int
    seconds: float


def _estimate(table: Floats, generator: np.random.Generator) -> _Fit:
    """Estimate delays as a collector does: near peers are chosen by the first coordinates."""
    first = _fit(table, [], generator)
    return _fit(table, choose_near(len(table), first.delays.from_node), generator)


def _fit(table: Floats, near: list[RowPair], generator: np.random.Generator) -> _Fit:
    names = [f"node{number}" for number in range(len(table))]
    pairs = np.array(sorted(choose_pairs(names, near)), dtype=np.intp)
    measured = table[pairs[:, 0], pairs[:, 1]] * generator.lognormal(0.0, _NOISE, len(pairs))
    began = time.process_time()
    found = fit_coordinates(len(table), pairs, measured)
    seconds = time.process_time() - began
    delays = Delays.of_pairs(pairs, measured, found.positions, found.heights)
    return _Fit(delays, found.error_ratio, int(np.bincount(pairs.ravel()).max()), seconds)


def _regions(generator: np.random.Generator) -> Floats:
    """The four regions of ge-kube."""
    region = generator.integers(0, len(GE_KUBE), _LARGE)
    return _with_heights(GE_KUBE[np.ix_(region, region)], generator.gamma(4.0, 40e-6, _LARGE))


def _zones(generator: np.random.Generator) -> Floats:
    """Ten regions on a plane 100 ms wide, with three zones each, 1.2 ms apart."""
    region, zone = generator.integers(0, 10, _LARGE), generator.integers(0, 3, _LARGE)
    between = _distances(generator.uniform(0.0, 0.1, (10, 2)))[np.ix_(region, region)]
    same_region = region[:, np.newaxis] == region
    between = np.where(same_region & (zone[:, np.newaxis] != zone), 0.0012, between)
    return _with_heights(between, generator.gamma(4.0, 40e-6, _LARGE))


def _spread(generator: np.random.Generator) -> Floats:
    """Nodes all over a plane 50 ms wide, with slow access links."""
    return _with_heights(
        _distances(generator.uniform(0.0, 0.05, (_LARGE, 2))), generator.gamma(2.0, 500e-6, _LARGE)
    )


def _detours(generator: np.random.Generator) -> Floats:
    """Eight regions with times at random between them, 10 to 200 ms: a detour is often shorter."""
    region = generator.integers(0, 8, _LARGE)
    between = generator.uniform(0.01, 0.2, (8, 8))
    between = np.maximum(between, between.T)
    np.fill_diagonal(between, 0.001)
    return _with_heights(between[np.ix_(region, region)], generator.gamma(4.0, 40e-6, _LARGE))


def _distances(places: Floats) -> Floats:
    distances: Floats = np.sqrt(np.square(places[:, np.newaxis] - places).sum(axis=2))
    return distances


def _with_heights(between: Floats, heights: Floats) -> Floats:
    table: Floats = between + heights[:, np.newaxis] + heights
    np.fill_diagonal(table, 0.0)
    return table


# --- A flood --------------------------------------------------------------------------------------


def flood(progress: Progress) -> Iterator[Figure]:
    """CPU of an agent that receives 10,000 invalid datagrams per second."""
    key = secrets.token_bytes(KEY_BYTES)
    with _process("target", key.hex()) as target:
        state = target.state()
        session = state["session"]
        request = encode_packet(Packet(REQUEST, 0, session, PEER_SESSION, 1), key)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect(("127.0.0.1", state["port"]))
            sender.send(request)
            while target.state()["answers"] == 0:
                time.sleep(0.01)
            floods: dict[str, Callable[[], bytes]] = {
                "random": lambda: secrets.token_bytes(PACKET_BYTES),
                "oversized": lambda: request + bytes(1000),
                "replayed": lambda: request,
                "forged": lambda: request[:20] + b"\x7f" + secrets.token_bytes(PACKET_BYTES - 21),
            }
            for name, make in floods.items():
                progress.say(f"flood of {name} probes")
                before, sent = target.state(), _send(sender, make)
                after = target.state()
                percent = 100 * (after["cpu_seconds"] - before["cpu_seconds"]) / _FLOOD_SECONDS
                yield Figure(
                    name=f"mesh_{name}_sent", value=sent / _FLOOD_SECONDS, unit="1/s", at_least=9_900
                )
                yield Figure(
                    name=f"mesh_{name}_cpu", value=percent, unit="% of a core", at_most=_MOST_FLOOD_PERCENT
                )
                changes = sum(after[field] != before[field] for field in ("answers", "last_sequence"))
                yield Figure(name=f"mesh_{name}_effects", value=changes, unit="changes", at_most=0)


def _send(sender: socket.socket, make: Callable[[], bytes]) -> int:
    """Send datagrams at the rate of the flood, in small bursts; returns their number."""
    sent, began = 0, time.monotonic()
    while (elapsed := time.monotonic() - began) < _FLOOD_SECONDS:
        while sent < elapsed * _FLOOD_PER_SECOND:
            sender.send(make())
            sent += 1
        time.sleep(0.001)
    return sent


# --- Cost of one node of 64 -----------------------------------------------------------------------


def cost(progress: Progress) -> Iterator[Figure]:
    """CPU and traffic of one node in a mesh of 64, at the default rate."""
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(_cost(Path(folder), progress))


async def _cost(folder: Path, progress: Progress) -> list[Figure]:
    config = CollectorConfig(
        http=HttpConfig(listen="127.0.0.1:0"),
        access=AccessConfig(tokens=""),
        history=HistoryConfig(path=str(folder / "history.db")),
    ).with_section(MeshConfig(enabled=True))
    async with running(config) as collector, _counting_proxy(collector.address.port) as traffic:
        url = collector.address.url
        with (
            _process("members", url, "1", str(_NODES - 1)) as others,
            _process("members", f"http://127.0.0.1:{traffic.port}", "0", "1") as one,
        ):
            progress.say(f"a mesh of {_NODES} nodes settles")
            while (await asyncio.to_thread(one.state))["measured"] < _NODES - 1:  # noqa: ASYNC110 - a process
                await asyncio.sleep(1)
            await asyncio.sleep(_SETTLE_SECONDS)
            assert others.is_running
            progress.say(f"one node of {_NODES}, for {_COST_SECONDS:g} s")
            began, http_before = time.monotonic(), traffic.wire_bytes
            before = await asyncio.to_thread(one.state)
            await asyncio.sleep(_COST_SECONDS)
            after = await asyncio.to_thread(one.state)
            seconds = time.monotonic() - began
    probes = (after["packets"] - before["packets"]) * (PACKET_BYTES + _DATAGRAM_HEADERS) / seconds
    requests = (traffic.wire_bytes - http_before) / seconds
    return [
        Figure(
            name="mesh_node_cpu",
            value=100 * (after["cpu_seconds"] - before["cpu_seconds"]) / seconds,
            unit="% of a core",
            at_most=_MOST_CPU_PERCENT,
        ),
        Figure(
            name="mesh_node_traffic",
            value=probes + requests,
            unit="bytes/s",
            at_most=_MOST_BYTES_PER_SECOND,
        ),
        Figure(name="mesh_node_traffic_probes", value=probes, unit="bytes/s"),
        Figure(name="mesh_node_traffic_requests", value=requests, unit="bytes/s"),
    ]


@dataclass(slots=True)
class _Traffic:
    port: int = 0
    wire_bytes: int = 0


@asynccontextmanager
async def _counting_proxy(port: int) -> AsyncIterator[_Traffic]:
    """Forward connections to a local port, and count their bytes with headers and acknowledgements."""
    traffic = _Traffic()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1 << 16):
            segments = -(-len(chunk) // 1448)
            traffic.wire_bytes += len(chunk) + 2 * segments * _SEGMENT_HEADERS
            writer.write(chunk)
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    traffic.port = server.sockets[0].getsockname()[1]
    try:
        yield traffic
    finally:
        server.close()


# --- Processes ------------------------------------------------------------------------------------


class _Process:
    """A process of `bench.network.mesh_node`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def state(self) -> dict[str, Any]:
        """Read its state."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))


@contextmanager
def _process(*arguments: str) -> Iterator[_Process]:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.network.mesh_node", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield _Process(started)
        finally:
            started.kill()
