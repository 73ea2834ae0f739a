"""A collector with configurable answers, for faults that a real one does not have."""

import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from agent.config import DeliveryConfig
from wire.messages import Receipt, Report, encode, parse_batch

Answer = Callable[[list[int]], web.Response]


def accept(sequences: list[int]) -> web.Response:
    return web.Response(
        body=encode(Receipt(accepted=len(sequences), duplicates=0, rejected=0, server_time=1.0))
    )


def status(code: int, **headers: str) -> Answer:
    return lambda _: web.Response(status=code, headers=headers)


class FakeCollector:
    """What came in, batch by batch, and what to answer next."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.otherwise: Answer = accept
        self.batches: list[list[int]] = []
        self.requests: list[web.Request] = []
        self.body_bytes: list[int] = []
        self.reports: dict[tuple[str, str, int], Report] = {}
        """By key, in the order in which they were first taken."""
        self.times_taken: dict[tuple[str, str, int], int] = {}

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append(request)
        self.body_bytes.append(len(body))
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        reports = parse_batch(body)
        sequences = [report.sequence for report in reports]
        self.batches.append(sequences)
        answer = (self.answers.pop(0) if self.answers else self.otherwise)(sequences)
        if answer.status == 200:
            for report in reports:
                key = (report.node, report.boot, report.sequence)
                self.reports.setdefault(key, report)
                self.times_taken[key] = self.times_taken.get(key, 0) + 1
        return answer

    def sequences(self, boot: str) -> list[int]:
        """What was taken of one boot, in order, without what came again."""
        return [sequence for _, of, sequence in self.reports if of == boot]


@asynccontextmanager
async def serving_reports(receiver: FakeCollector, port: int = 0) -> AsyncIterator[DeliveryConfig]:
    """Serve on a loopback port while the block runs; yields the settings that lead an agent there."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/reports", receiver.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1, auto_decompress=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield DeliveryConfig(url=f"http://127.0.0.1:{runner.addresses[0][1]}/")
    finally:
        await runner.cleanup()
