import asyncio
import gzip
import logging
import sqlite3
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from agent.config import DeliveryConfig, StorageConfig
from agent.delivery import sender as deliver
from agent.delivery.sender import ReportSender
from agent.delivery.spool import Spool
from tests.agent.fake_collector import FakeCollector, accept, serving_reports, status
from tests.waiting import until
from wire.messages import MAX_BATCH, ContainerState, NodeState, Receipt, Report, encode
from wire.resources import Quantities

MEMORY = StorageConfig(directory="")


def report(sequence: int, node: str = "n", boot: str = "b") -> Report:
    return Report(
        node=node,
        boot=boot,
        sequence=sequence,
        at=1.0,
        state=NodeState(used=Quantities(), capacity=Quantities()),
    )


class Waits:
    """A sleep that returns at once, and records its duration."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
async def receiver() -> AsyncIterator[tuple[FakeCollector, DeliveryConfig]]:
    receiver = FakeCollector()
    async with serving_reports(receiver) as settings:
        yield receiver, settings


@asynccontextmanager
async def sending(sender: ReportSender) -> AsyncIterator[None]:
    task = asyncio.create_task(sender.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await sender.close()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# --- The way there ---------------------------------------------------------------------------


async def test_reports_arrive_in_order_in_batches_and_are_counted(
    receiver: tuple[FakeCollector, DeliveryConfig], tmp_path: Path
) -> None:
    collector, settings = receiver
    sender = ReportSender(settings, StorageConfig(directory=str(tmp_path)))
    for sequence in range(1, 251):
        sender.enqueue(report(sequence))
    await until(lambda: len(sender) == 250)
    async with sending(sender):
        await until(lambda: sender.delivered == 250)
        assert len(sender) == 0
    assert [each for batch in collector.batches for each in batch] == list(range(1, 251))
    assert max(map(len, collector.batches)) == MAX_BATCH
    assert sender.dropped == 0
    assert sender.spool.gap is None


async def test_a_report_goes_at_once_while_nothing_else_waits(
    receiver: tuple[FakeCollector, DeliveryConfig],
) -> None:
    collector, settings = receiver
    sender = ReportSender(settings, MEMORY)
    async with sending(sender):
        for sequence in range(1, 6):
            sender.enqueue(report(sequence))
            await until(lambda expected=sequence: sender.delivered == expected)  # type: ignore[misc]
    assert collector.batches == [[1], [2], [3], [4], [5]]


async def test_a_batch_is_bounded_by_its_bytes_too(
    receiver: tuple[FakeCollector, DeliveryConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, settings = receiver
    monkeypatch.setattr(deliver, "_BATCH_BYTES", 3 * len(encode(report(1))))
    sender = ReportSender(settings, MEMORY)
    for sequence in range(1, 8):
        sender.enqueue(report(sequence))
    async with sending(sender):
        await until(lambda: sender.delivered == 7)
    assert collector.batches == [[1, 2, 3], [4, 5, 6], [7]]


async def test_requests_are_compressed_over_one_connection(
    receiver: tuple[FakeCollector, DeliveryConfig],
) -> None:
    collector, settings = receiver
    sender = ReportSender(settings, MEMORY)
    async with sending(sender):
        for sequence in range(1, 21):
            sender.enqueue(report(sequence))
        await until(lambda: sender.delivered == 20)
        sender.enqueue(Report(node="n", boot="b", sequence=21, at=1.0))
        await until(lambda: sender.delivered == 21)
    assert len({request.transport for request in collector.requests}) == 1
    assert max(len(request.headers) for request in collector.requests) == 5
    beacon = collector.requests[-1]
    assert collector.body_bytes[-1] < 60
    assert sum(len(name) + len(value) + 4 for name, value in beacon.headers.items()) < 150
    packed = [request.headers.get("Content-Encoding") for request in collector.requests]
    assert (packed[0], packed[-1]) == ("gzip", None)


async def test_reports_of_an_earlier_run_are_sent_first(
    receiver: tuple[FakeCollector, DeliveryConfig], tmp_path: Path
) -> None:
    collector, settings = receiver
    spool = StorageConfig(directory=str(tmp_path))
    earlier = ReportSender(DeliveryConfig(url="http://127.0.0.1:1"), spool)
    for sequence in range(1, 4):
        earlier.enqueue(report(sequence, boot="earlier"))
    await earlier.close()

    later = ReportSender(settings, spool)
    later.enqueue(report(1, boot="later"))
    async with sending(later):
        await until(lambda: later.delivered == 4)
    assert list(collector.reports) == [
        ("n", "earlier", 1),
        ("n", "earlier", 2),
        ("n", "earlier", 3),
        ("n", "later", 1),
    ]


# --- Answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [500, 503, 429, 408, 302, 401, 403, 404, 405])
async def test_temporary_errors_are_retried_and_logged_once(
    code: int, receiver: tuple[FakeCollector, DeliveryConfig], waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    collector, settings = receiver
    collector.answers = [status(code)] * 30
    sender = ReportSender(settings, MEMORY, sleep=waits)
    sender.enqueue(report(1))
    async with sending(sender):
        await until(lambda: sender.delivered == 1)
    assert collector.batches == [[1]] * 31
    assert sender.dropped == 0
    assert len(waits.seconds) == 30
    assert 0.5 <= waits.seconds[0] <= 1
    assert 15 <= waits.seconds[-1] <= 120
    (line,) = lines(caplog)
    assert "cannot send reports" in line


async def test_response_without_a_receipt_is_no_acknowledgement(
    receiver: tuple[FakeCollector, DeliveryConfig], waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    collector, settings = receiver
    collector.answers = [lambda _: web.Response(text="<html>some other service</html>")]
    sender = ReportSender(settings, MEMORY, sleep=waits)
    sender.enqueue(report(1))
    async with sending(sender):
        await until(lambda: sender.delivered == 1)
    assert collector.batches == [[1], [1]]
    assert "check that collector.url is a collector" in lines(caplog)[0]


async def test_retry_after_is_honoured(receiver: tuple[FakeCollector, DeliveryConfig], waits: Waits) -> None:
    collector, settings = receiver
    collector.answers = [status(429, **{"Retry-After": "77"}), status(503, **{"Retry-After": "60"})]
    sender = ReportSender(settings, MEMORY, sleep=waits)
    sender.enqueue(report(1))
    async with sending(sender):
        await until(lambda: sender.delivered == 1)
    assert 77 <= waits.seconds[0] <= 77 * 1.25
    assert 60 <= waits.seconds[1] <= 60 * 1.25


async def test_rejected_report_does_not_affect_others(
    receiver: tuple[FakeCollector, DeliveryConfig], waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    collector, settings = receiver
    collector.otherwise = lambda batch: status(400)(batch) if 37 in batch else accept(batch)
    sender = ReportSender(settings, MEMORY, sleep=waits)
    for sequence in range(1, 101):
        sender.enqueue(report(sequence))
    async with sending(sender):
        await until(lambda: sender.delivered + sender.dropped == 100)
    assert (sender.delivered, sender.dropped) == (99, 1)
    assert collector.sequences("b") == [each for each in range(1, 101) if each != 37]
    assert len(collector.batches) < 25
    (line,) = lines(caplog)
    assert "rejected a report" in line


async def test_rejecting_collector_does_not_empty_the_spool_at_once(
    receiver: tuple[FakeCollector, DeliveryConfig], waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    collector, settings = receiver
    collector.otherwise = status(400)
    sender = ReportSender(settings, MEMORY, sleep=waits)
    for sequence in range(1, 101):
        sender.enqueue(report(sequence))
    async with sending(sender):
        await until(lambda: sender.dropped >= 20)
        assert sum(waits.seconds) > 200
        assert len(lines(caplog)) == 1


async def test_closed_idle_connection_is_not_logged(
    receiver: tuple[FakeCollector, DeliveryConfig], waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    collector, settings = receiver

    def hang_up(_: list[int]) -> web.Response:
        transport = collector.requests[-1].transport
        assert transport is not None
        transport.abort()
        return web.Response()

    collector.answers = [hang_up]
    sender = ReportSender(settings, MEMORY, sleep=waits)
    sender.enqueue(report(1))
    async with sending(sender):
        await until(lambda: sender.delivered == 1)
    assert collector.times_taken == {("n", "b", 1): 2}, "it knows the report by its key"
    assert lines(caplog) == []
    assert waits.seconds == []


async def test_the_collectors_clock_is_compared_with_this_nodes(
    receiver: tuple[FakeCollector, DeliveryConfig],
) -> None:
    collector, settings = receiver
    collector.otherwise = lambda batch: web.Response(
        body=encode(Receipt(accepted=len(batch), duplicates=0, rejected=0, server_time=5012.5))
    )
    sender = ReportSender(settings, MEMORY, wall=lambda: 5000.0, monotonic=lambda: 10.0)
    assert sender.clock_offset.seconds is None
    sender.enqueue(report(1))
    async with sending(sender):
        await until(lambda: sender.delivered == 1)
    assert sender.clock_offset.seconds == 12.5


async def test_unreachable_collector_is_logged_once_and_its_return_once(
    waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    collector = FakeCollector()
    async with serving_reports(collector) as settings:
        pass
    sender = ReportSender(settings, MEMORY, sleep=waits)
    sender.enqueue(report(1))
    async with sending(sender):
        await until(lambda: len(waits.seconds) > 5)
        async with serving_reports(collector, int(settings.url.rstrip("/").rpartition(":")[2])):
            await until(lambda: sender.delivered == 1)
    body_text = [record.getMessage() for record in caplog.records if record.name == deliver.__name__]
    assert len(body_text) == 2
    assert ": connection refused" in body_text[0]
    assert "accepts reports again" in body_text[1]


# --- Never in the way ------------------------------------------------------------------------


async def test_hanging_disk_blocks_nothing_and_uses_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works_again = threading.Event()
    added: list[bytes] = []

    def hang(_: Spool, bodies: tuple[bytes, ...]) -> None:
        works_again.wait(20)
        added.extend(bodies)

    monkeypatch.setattr(Spool, "add", hang)
    monkeypatch.setattr(deliver, "MEMORY_BYTES", 10_000)
    sender = ReportSender(DeliveryConfig(), MEMORY)
    try:
        async with asyncio.timeout(5):
            for sequence in range(1, 1001):
                sender.enqueue(report(sequence))
                await asyncio.sleep(0)
        size = len(encode(report(1000)))
        assert 10_000 / size - 2 < len(sender) < 10_000 / size + 40
        assert sender.dropped == 1000 - len(sender)
    finally:
        works_again.set()
    await until(lambda: len(sender) == 0)
    await sender.close()


async def test_enqueue_never_raises(tmp_path: Path) -> None:
    (tmp_path / "spool.db").mkdir()
    sender = ReportSender(DeliveryConfig(url="http://127.0.0.1:1"), StorageConfig(directory=str(tmp_path)))
    sender.enqueue(report(1))
    await sender.close()
    sender.enqueue(report(2))
    assert sender.dropped == 1


@pytest.mark.parametrize("order", ["closed while it runs", "closed after it was cancelled"])
async def test_closing_sends_what_is_left(
    order: str, receiver: tuple[FakeCollector, DeliveryConfig], tmp_path: Path
) -> None:
    collector, settings = receiver
    sender = ReportSender(settings, StorageConfig(directory=str(tmp_path)))
    task = asyncio.create_task(sender.run())
    sender.enqueue(report(1))
    await until(lambda: sender.delivered == 1)
    for sequence in range(2, 301):
        sender.enqueue(report(sequence))
    if order == "closed while it runs":
        await sender.close()
        await asyncio.wait_for(task, 1)
    else:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await sender.close()
    assert collector.sequences("b") == list(range(1, 301))
    assert len(sender) == 0


@pytest.mark.slow
async def test_closing_does_not_wait_for_a_collector_that_does_not_answer(tmp_path: Path) -> None:
    never = asyncio.Event()

    async def silence(_: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/reports", silence)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    path = tmp_path / "spool.db"
    sender = ReportSender(
        DeliveryConfig(url=f"http://127.0.0.1:{runner.addresses[0][1]}"),
        StorageConfig(directory=str(path.parent)),
    )
    for sequence in range(1, 6):
        sender.enqueue(report(sequence))
    task = asyncio.create_task(sender.run())
    async with asyncio.timeout(4):
        await sender.close()
    await task
    never.set()
    await runner.cleanup()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM report").fetchone() == (5,)
    connection.close()


# --- A collector that wants to harm ----------------------------------------------------------


def bomb(_: list[int]) -> web.Response:
    """A small answer that would unpack to a gigabyte."""
    packed = gzip.compress(bytes(1 << 20))
    return web.Response(body=packed * 1024, headers={"Content-Encoding": "gzip"})


def endless(_: list[int]) -> web.Response:
    async def body() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 20)

    return web.Response(body=body())


def receipt_for(count: int) -> Callable[[list[int]], web.Response]:
    receipt = Receipt(accepted=count, duplicates=0, rejected=0, server_time=1.0)
    return lambda _: web.Response(body=encode(receipt))


@pytest.mark.parametrize(
    "answer",
    [
        bomb,
        endless,
        receipt_for(0),
        receipt_for(7),
        receipt_for(2**63 - 1),
        status(503, **{"Retry-After": "9" * 400}),
        status(503, **{"Retry-After": "Mon, 01 Jan 0001 00:00:00 +2359"}),
        status(503, **{"Retry-After": "Fri, 31 Dec 9999 23:59:59 -2359"}),
    ],
)
async def test_no_response_loses_a_report_or_stops_the_sender(
    receiver: tuple[FakeCollector, DeliveryConfig], waits: Waits, answer: Callable[[list[int]], web.Response]
) -> None:
    collector, settings = receiver
    collector.answers = [answer]
    sender = ReportSender(settings, MEMORY, sleep=waits)
    peak = tracemalloc_peak()
    async with sending(sender):
        sender.enqueue(report(1))
        await until(lambda: len(collector.batches) >= 2 and sender.delivered == 1)
    assert sender.dropped == 0
    assert max(waits.seconds) <= 900 * 1.25
    assert peak() < 16 << 20


def tracemalloc_peak() -> Callable[[], int]:
    tracemalloc.start()

    def peak() -> int:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    return peak


async def test_a_report_that_is_too_large_is_sent_without_labels(
    receiver: tuple[FakeCollector, DeliveryConfig], waits: Waits
) -> None:
    collector, settings = receiver
    collector.answers = [status(413)]
    sender = ReportSender(settings, MEMORY, sleep=waits)
    large = ContainerState(
        id="c",
        name="c",
        runtime="docker",
        cpu_seconds_total=1.0,
        used=Quantities(),
        labels={"a": "b", "wattpack.class": "2"},
    )
    async with sending(sender):
        sender.enqueue(msgspec.structs.replace(report(1), containers=(large,)))
        await until(lambda: sender.delivered == 1)
    assert sender.dropped == 0
    (arrived,) = collector.reports.values()
    assert arrived.containers[0].labels == {"wattpack.class": "2"}
