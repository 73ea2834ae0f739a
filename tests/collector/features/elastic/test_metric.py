"""The metric of an elastic service: what a store answers, and what it does not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from collector.config import EndpointConfig
from collector.features.elastic.observation import Metric, query_metric
from collector.history.promql import Client, connect
from wire.address import Address
from wire.http.serving import serving


@asynccontextmanager
async def store(*values: str, status: int = 200, body: bytes | None = None) -> AsyncIterator[Client]:
    """A store that answers every query with these values."""
    result = [{"metric": {"replica": str(place)}, "value": [1.0, each]} for place, each in enumerate(values)]
    answer: dict[str, Any] = {"status": "success", "data": {"resultType": "vector", "result": result}}

    async def query(_: web.Request) -> web.Response:
        return web.json_response(answer, status=status) if body is None else web.Response(body=body)

    app = web.Application()
    app.router.add_post("/api/v1/query", query)
    async with (
        serving(app, Address("127.0.0.1", 0), "store") as address,
        connect(EndpointConfig(url=address.url), "store") as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (("0.25",), Metric(0.25)),
        (("0.25", "0.75", "NaN"), Metric(0.75)),
        (("+Inf",), Metric(problem="the query has no result")),
        ((), Metric(problem="the query has no result")),
    ],
)
async def test_the_highest_finite_value_counts(values: tuple[str, ...], found: Metric) -> None:
    async with store(*values) as client:
        assert await query_metric(client, "up", 1.0) == found


@pytest.mark.parametrize(
    "body",
    [
        b'{"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "many"]}]}}',
        b'{"data": {"resultType": "vector", "result": [{"metric": {"a": "\xff"}, "value": [1, "2"]}]}}',
        b'{"data": ' + b"[" * 100_000,
        b'{"more": ' + b"[" * 100_000,
        b"<html>",
        b"",
    ],
)
async def test_an_invalid_response_of_a_store_is_a_problem(body: bytes) -> None:
    async with store(body=body) as client:
        found = await query_metric(client, "up", 1.0)
    assert (found.value, (found.problem or "").partition(" (")[0]) == (
        None,
        "the store does not answer the query: its answer is not that of a Prometheus API",
    )


async def test_a_store_that_refuses_is_a_problem_and_not_a_value() -> None:
    async with store(status=500) as client:
        found = await query_metric(client, "up", 1.0)
    assert found.value is None
    assert (found.problem or "").startswith("the store does not answer the query: it answers 500")
    assert await query_metric(None, "up", 1.0) == Metric(problem="store.url is not set")
