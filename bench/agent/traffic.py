"""Traffic between a node with steady containers and a real collector.

A relay between the two counts bytes. Reports are made on simulated time and delivered one by one: reports
that are delivered together are compressed together, and would take fewer bytes.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agent.config import DeliveryConfig, ReportingConfig, SamplingConfig, StorageConfig
from agent.delivery.sender import ReportSender
from agent.reporting.reporter import Reporter
from bench.common.progress import Progress
from bench.common.simulated_node import SimulatedNode, Used
from collector.config import CollectorConfig, HistoryConfig, HttpConfig
from collector.main import running
from wire.address import Address
from wire.messages import Report
from wire.resources import Quantities

CONTAINERS = 50
_SETTLE_MINUTES = 5
"""The first full window and the first heartbeats report everything once more."""
_MINUTES = 20
_TIMEOUT_SECONDS = 10.0
_POLL_SECONDS = 0.002
_CHUNK_BYTES = 1 << 16
_CAPACITY = Quantities(
    cpu_cores=32.0, memory_bytes=128 << 30, disk_bytes_per_second=5e8, network_bytes_per_second=1.25e9
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Traffic through the relay, per minute."""

    bytes_per_minute: float
    """Requests and responses."""
    sent_bytes_per_minute: float
    """Requests only."""
    reports_per_minute: float
    largest_report_bytes: int
    """The request with a heartbeat."""


def measure(progress: Progress) -> Traffic:
    """Let a node with steady containers report to a collector."""
    return asyncio.run(_measure(progress))


async def _measure(progress: Progress) -> Traffic:
    config = CollectorConfig(http=HttpConfig(listen="127.0.0.1:0"), history=HistoryConfig(path=":memory:"))
    exchanges: list[_Exchange] = []
    async with running(config) as collector, _relay(collector.address) as relay:
        sender = ReportSender(DeliveryConfig(url=relay.address.url), StorageConfig(directory=""))
        delivery = asyncio.create_task(sender.run())
        with progress.track("steady containers", _SETTLE_MINUTES + _MINUTES, " min") as show:
            for number, (minute, report) in enumerate(_reports(), start=1):
                sent_bytes, received_bytes = relay.sent_bytes, relay.received_bytes
                sender.enqueue(report)
                await _until_delivered(sender, number)
                if minute >= _SETTLE_MINUTES:
                    exchanges.append(
                        _Exchange(relay.sent_bytes - sent_bytes, relay.received_bytes - received_bytes)
                    )
                show(minute)
        await sender.close()
        await delivery
    sent_bytes = sum(each.sent_bytes for each in exchanges)
    return Traffic(
        bytes_per_minute=(sent_bytes + sum(each.received_bytes for each in exchanges)) / _MINUTES,
        sent_bytes_per_minute=sent_bytes / _MINUTES,
        reports_per_minute=len(exchanges) / _MINUTES,
        largest_report_bytes=max(each.sent_bytes for each in exchanges),
    )


async def _until_delivered(sender: ReportSender, count: int) -> None:
    async with asyncio.timeout(_TIMEOUT_SECONDS):
        while sender.delivered < count:
            if sender.dropped:
                raise RuntimeError("the collector rejected a report of the agent")
            await asyncio.sleep(_POLL_SECONDS)


def _reports() -> Iterator[tuple[float, Report]]:
    """The reports of a node with steady containers, by minute."""
    rng = random.Random(CONTAINERS)  # noqa: S311 - reproducible, not a secret
    sample_seconds = SamplingConfig().interval_seconds
    limits = {
        f"shop-{number}": Quantities(cpu_cores=1.0, memory_bytes=1 << 30) if number % 2 else Quantities()
        for number in range(CONTAINERS)
    }
    levels: list[Used] = [
        (
            rng.lognormvariate(-3.5, 1.0),
            rng.lognormvariate(18.0, 1.0),
            # Few containers write to disk, most use the network.
            rng.lognormvariate(10.0, 1.0) if number % 4 == 0 else 0.0,
            rng.lognormvariate(9.0, 1.0) if number % 4 else 0.0,
        )
        for number in range(CONTAINERS)
    ]
    node = SimulatedNode(limits, _CAPACITY, sample_seconds)
    reporter = Reporter("node1", "1f0e3dad99908345", ReportingConfig(), sample_seconds)
    for tick in range(1, round((_SETTLE_MINUTES + _MINUTES) * 60 / sample_seconds) + 1):
        report = reporter.report(node.sample(tick, levels), (), ())
        if report is not None:
            yield tick * sample_seconds / 60, report


# --- The relay ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One request and its response, with headers."""

    sent_bytes: int
    received_bytes: int


@dataclass(slots=True)
class _Relay:
    """Forwards bytes and counts them."""

    address: Address
    sent_bytes: int = 0
    received_bytes: int = 0


@asynccontextmanager
async def _relay(target: Address) -> AsyncIterator[_Relay]:
    """Relay connections to `target` while the block runs."""
    relay = _Relay(target)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection(target.host, target.port)

        async def forward() -> None:
            while data := await reader.read(_CHUNK_BYTES):
                relay.sent_bytes += len(data)
                to_writer.write(data)
            to_writer.close()

        async def backward() -> None:
            while data := await to_reader.read(_CHUNK_BYTES):
                relay.received_bytes += len(data)
                writer.write(data)
            writer.close()

        await asyncio.gather(forward(), backward())

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        relay.address = Address(host, port)
        yield relay
