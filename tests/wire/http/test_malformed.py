"""Requests that are no HTTP: they are answered, and anyone can send them."""

import asyncio

import pytest
from aiohttp import web

from wire.address import parse_address
from wire.http.serving import serving


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
async def test_a_malformed_request_is_refused_without_a_line_in_the_log(
    request_head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(web.Application(), parse_address("127.0.0.1:0"), "http.listen") as address:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(request_head)
        assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.0 400")
        writer.close()
    assert not [each for each in caplog.records if each.levelname != "DEBUG"]
