import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from agent import deliver
from agent.config import Collector
from agent.deliver import Outbox
from tests.waiting import until
from wire.messages import NodeState, Receipt, Report, encode, parse_batch
from wire.resources import Quantities

Answer = Callable[[list[int]], web.Response]


def report(sequence: int, node: str = "n") -> Report:
    return Report(
        node=node,
        boot="b",
        sequence=sequence,
        at=1.0,
        interval_seconds=3.0,
        agent_version="0",
        state=NodeState(used=Quantities(), capacity=Quantities()),
    )


def taken(sequences: list[int]) -> web.Response:
    return web.Response(body=encode(Receipt(taken=len(sequences), known=0, server_time=1.0)))


class Receiver:
    """A collector that answers as it is told; for faults that a real one does not have."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.received: list[list[int]] = []
        self.came = asyncio.Event()

    async def take(self, request: web.Request) -> web.Response:
        sequences = [each.sequence for each in parse_batch(await request.read())]
        self.received.append(sequences)
        self.came.set()
        return (self.answers.pop(0) if self.answers else taken)(sequences)


@pytest.fixture
async def receiver() -> AsyncIterator[tuple[Receiver, Collector]]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/v1/reports", receiver.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield receiver, Collector(url=f"http://127.0.0.1:{port}/")
    await runner.cleanup()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "_BACKOFF_SECONDS", (0.01,))


@asynccontextmanager
async def sending(outbox: Outbox) -> AsyncIterator[None]:
    task = asyncio.create_task(outbox.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_reports_arrive_in_order_and_are_counted(receiver: tuple[Receiver, Collector]) -> None:
    collector, settings = receiver
    outbox = Outbox(settings)
    for sequence in range(1, 51):
        outbox.offer(report(sequence))
    async with sending(outbox):
        await until(lambda: outbox.delivered == 50)
    assert [each for batch in collector.received for each in batch] == list(range(1, 51))
    assert len(outbox) == 0
    assert outbox.dropped == 0


@pytest.mark.parametrize("status", [500, 503, 429, 408, 302])
async def test_what_may_pass_is_tried_again_until_it_is_taken(
    status: int, receiver: tuple[Receiver, Collector]
) -> None:
    collector, settings = receiver
    collector.answers = [lambda _: web.Response(status=status)] * 3
    outbox = Outbox(settings)
    outbox.offer(report(1))
    async with sending(outbox):
        await until(lambda: outbox.delivered == 1)
    assert collector.received == [[1]] * 4


async def test_an_answer_that_is_no_receipt_is_no_acknowledgement(
    receiver: tuple[Receiver, Collector],
) -> None:
    collector, settings = receiver
    collector.answers = [lambda _: web.Response(text="<html>some other service</html>")]
    outbox = Outbox(settings)
    outbox.offer(report(1))
    async with sending(outbox):
        await until(lambda: outbox.delivered == 1)
    assert collector.received == [[1], [1]]


async def test_what_is_refused_for_good_is_dropped_and_the_rest_goes_on(
    receiver: tuple[Receiver, Collector],
) -> None:
    collector, settings = receiver
    collector.answers = [lambda _: web.Response(status=400, text="no")]
    outbox = Outbox(settings)
    outbox.offer(report(1))
    async with sending(outbox):
        await until(lambda: outbox.dropped == 1)
        outbox.offer(report(2))
        await until(lambda: outbox.delivered == 1)
    assert collector.received == [[1], [2]]


async def test_one_bad_report_does_not_take_good_ones_with_it(receiver: tuple[Receiver, Collector]) -> None:
    collector, settings = receiver

    def all_but_the_third(sequences: list[int]) -> web.Response:
        return web.Response(status=400) if 3 in sequences else taken(sequences)

    collector.answers = [all_but_the_third] * 10
    outbox = Outbox(settings)
    for sequence in range(1, 6):
        outbox.offer(report(sequence))
    async with sending(outbox):
        await until(lambda: outbox.delivered + outbox.dropped == 5)
    assert (outbox.delivered, outbox.dropped) == (4, 1)
    assert collector.received == [[1, 2, 3, 4, 5], [1], [2], [3], [4], [5]]


async def test_retry_after_is_honoured(
    receiver: tuple[Receiver, Collector], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, settings = receiver
    collector.answers = [lambda _: web.Response(status=429, headers={"Retry-After": "77"})]
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    outbox = Outbox(settings)
    outbox.offer(report(1))
    monkeypatch.setattr("agent.deliver.asyncio.sleep", sleep)
    async with sending(outbox), asyncio.timeout(10):
        await collector.came.wait()
        while len(collector.received) < 2:
            collector.came.clear()
            await collector.came.wait()
    assert waits == [77]


async def test_without_a_collector_the_newest_are_kept_within_bounds_and_the_rest_counted() -> None:
    settings = Collector(url="http://127.0.0.1:1", queue_bytes=1 << 16)
    outbox = Outbox(settings)
    size = len(encode(report(100, node="x" * 200)))
    for sequence in range(1, 1001):
        outbox.offer(report(sequence, node="x" * 200))
    assert len(outbox) * size <= settings.queue_bytes + size
    assert outbox.dropped == 1000 - len(outbox)
    assert parse_batch(b"[" + outbox._queue[-1] + b"]")[0].sequence == 1000


async def test_long_batches_are_compressed() -> None:
    bodies: list[bytes] = []
    encodings: list[str | None] = []

    async def take(request: web.Request) -> web.Response:
        encodings.append(request.headers.get("Content-Encoding"))
        bodies.append(await request.read())
        return taken([1])

    app = web.Application()
    app.router.add_post("/v1/reports", take)
    runner = web.AppRunner(app, shutdown_timeout=0.1, auto_decompress=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    outbox = Outbox(Collector(url=f"http://127.0.0.1:{runner.addresses[0][1]}"))
    for sequence in range(1, 21):
        outbox.offer(report(sequence))
    async with sending(outbox):
        await until(lambda: outbox.delivered == 20)
    await runner.cleanup()
    assert encodings == ["gzip"]
    assert len(parse_batch(gzip.decompress(bodies[0]))) == 20
