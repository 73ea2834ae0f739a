"""A store that fails on request, for faults that a real one seldom has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web
from aiohttp.test_utils import TestServer

from collector.features.prometheus.encoding import decompress
from tests.collector.features.prometheus.decoding import Written, decode


@dataclass
class FakeStore:
    """Accepts or rejects remote write, as configured."""

    url: str = ""
    status: HTTPStatus = HTTPStatus.NO_CONTENT
    unwanted: str = ""
    """A request with a series of this name is refused for good."""
    answer: str = '{"status":"success","data":{"resultType":"vector","result":[]}}'
    series: list[Written] = field(default_factory=list)
    requests: int = 0
    authorization: str | None = None

    async def write(self, request: web.Request) -> web.Response:
        self.requests += 1
        self.authorization = request.headers.get("Authorization")
        assert request.headers["Content-Type"] == "application/x-protobuf"
        assert request.headers["Content-Encoding"] == "snappy"
        body = await request.read()
        if self.status != HTTPStatus.NO_CONTENT:
            return web.Response(status=self.status, text="not now")
        series = decode(decompress(body))
        if any(("instance", self.unwanted) in each.labels for each in series):
            return web.Response(status=HTTPStatus.BAD_REQUEST, text="out of order")
        self.series += series
        return web.Response(status=self.status)

    async def query(self, request: web.Request) -> web.Response:
        self.requests += 1
        self.authorization = request.headers.get("Authorization")
        return web.Response(status=HTTPStatus.OK, text=self.answer)

    def sequences(self, node: str = "alpha") -> list[float]:
        """The times of the reports that came, as the store has them."""
        return [
            value
            for each in self.series
            if each.name == "wattpack_agent_sample_timestamp_seconds" and ("instance", node) in each.labels
            for _, value in each.samples
        ]


@asynccontextmanager
async def fake_store() -> AsyncIterator[FakeStore]:
    store = FakeStore()
    # Bodies are packed as Prometheus packs them, which the server knows nothing of.
    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/api/v1/write", store.write)
    app.router.add_post("/api/v1/query", store.query)
    async with TestServer(app, skip_url_asserts=True) as server:
        store.url = str(server.make_url("/")).rstrip("/")
        yield store
