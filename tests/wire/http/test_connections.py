"""A server under floods of connections: what it holds, whom it closes, and what it logs."""

import asyncio
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.waiting import until
from wire.address import Address, parse_address
from wire.http.connections import ConnectionLimits
from wire.http.serving import serving


async def answer(_: web.Request) -> web.Response:
    return web.Response(text="here")


@asynccontextmanager
async def served(limits: ConnectionLimits) -> AsyncIterator[Address]:
    app = web.Application()
    app.router.add_get("/", answer)
    async with serving(app, parse_address("127.0.0.1:0"), "http.listen", limits=limits) as address:
        yield address


@contextmanager
def connected(address: Address, count: int, source: str) -> Iterator[list[socket.socket]]:
    """Connections that are open before the server has accepted one."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                socket.create_connection((address.host, address.port), source_address=(source, 0))
            )
            for _ in range(count)
        ]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - faster


async def ask(address: Address, source: str) -> int:
    connector = aiohttp.TCPConnector(local_addr=(source, 0), force_close=True)
    async with aiohttp.ClientSession(connector=connector) as http, http.get(f"{address.url}/") as answered:
        return answered.status


async def test_a_connection_counts_until_its_descriptor_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits, most = ConnectionLimits(max_unauthenticated=8, max_total=12), 0
    add = ConnectionLimits.add

    def counting(self: ConnectionLimits, *given: object) -> bool:
        nonlocal most
        most = max(most, descriptors())
        return add(self, *given)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(ConnectionLimits, "add", counting)
    async with served(limits) as address:
        with connected(address, 300, "127.0.0.2"):
            before = descriptors()
            async with asyncio.timeout(10):
                assert await ask(address, "127.0.0.1") == 200
                await until(lambda: limits.closed >= 300 - 8 and limits.open <= 8)
            # Those of the client of this test are in between.
            assert most - before <= 12 + 4
    [line] = [each for each in caplog.messages if "connections" in each]
    assert line.startswith("too many connections: closing the oldest, now of 127.0.0.2")
    assert [each for each in caplog.records if each.levelno > logging.WARNING or each.exc_info] == []


async def test_a_flood_from_one_address_closes_no_connection_of_another_one() -> None:
    limits = ConnectionLimits(max_unauthenticated=8, max_total=12)
    async with served(limits) as address:
        with connected(address, 2, "127.0.0.1") as quiet, connected(address, 100, "127.0.0.2"):
            await until(lambda: limits.closed == 102 - 8 and limits.open == 8)
            for each in quiet:
                each.setblocking(False)  # noqa: FBT003 - the standard library's own
                with pytest.raises(BlockingIOError):  # open, and without an answer
                    each.recv(1)


@pytest.mark.slow
async def test_without_a_descriptor_the_server_waits_and_says_so_once(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    limits = ConnectionLimits(max_unauthenticated=100, max_total=100)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with served(limits) as address:
        with connected(address, 30, "127.0.0.1"):
            with ExitStack() as held:
                held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
                highest = max(int(each) for each in os.listdir("/proc/self/fd"))  # noqa: PTH208 - as above
                resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 3, hard))
                with suppress(OSError):
                    while True:
                        held.callback(os.close, os.open(tmp_path, os.O_RDONLY))
                await until(lambda: caplog.records)
                await asyncio.sleep(0.1)
            async with asyncio.timeout(10):
                assert await ask(address, "127.0.0.1") == 200
    [line] = [each for each in caplog.messages if "accept" in each]
    assert line.startswith("cannot accept connections (too many open files)")
    assert [each for each in caplog.records if each.exc_info] == []
