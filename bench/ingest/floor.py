"""The least that a collector has to do for a report: receive, decompress, decode and commit it, nothing else.

It shows how much of the cost of a report is the server's, JSON's and SQLite's, and how much the collector
adds.
"""

import asyncio
import logging
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from aiohttp import web

from collector.history.sqlite.files.connection import open_for_writing
from collector.serve.web.bodies import decompress
from wire.address import Address
from wire.http.serving import serving
from wire.messages import Receipt, encode, parse_batch

_COMMIT_SECONDS = 0.01
"""As in the collector: requests that arrive meanwhile share a commit."""
_TABLE = "CREATE TABLE bodies (node TEXT, boot TEXT, sequence INTEGER, body BLOB)"
_ADD = "INSERT INTO bodies VALUES (?, ?, ?, ?)"
_RECEIPT = encode(Receipt(accepted=1, duplicates=0, rejected=0, server_time=0.0))

Row = tuple[str, str, int, bytes]


class _Store:
    """Commits bodies in groups, in a thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[list[Row], asyncio.Future[None]]] = []

    async def add(self, rows: list[Row]) -> None:
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, done))
        await done

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_COMMIT_SECONDS)
            group, self._waiting = self._waiting, []
            if group:
                rows = [row for some, _ in group for row in some]
                await loop.run_in_executor(self._thread, self._commit, rows)
            for _, done in group:
                done.set_result(None)

    def _commit(self, rows: list[Row]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_ADD, rows)
        self._connection.execute("COMMIT")


async def _serve(path: str) -> None:
    with closing(open_for_writing(path)) as connection:
        connection.execute(_TABLE)
        store = _Store(connection)

        async def receive(request: web.Request) -> web.Response:
            encoding = request.headers.get("Content-Encoding", "identity")
            body = decompress(await request.read(), encoding, request.app._client_max_size)  # noqa: SLF001 - aiohttp has no other name for it
            reports = parse_batch(body)
            await store.add([(each.node, each.boot, each.sequence, body) for each in reports])
            return web.Response(body=_RECEIPT, content_type="application/json")

        app = web.Application()
        app.router.add_post("/v1/reports", receive)
        async with serving(app, Address("127.0.0.1", 0), "listen") as address:
            logging.getLogger(__name__).info("listening on %s", address.url)
            await store.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(_serve(sys.argv[1]))
