"""The load generator of the ingest benchmark: a process that sends prepared requests.

It keeps one connection per node, as agents do, at a rate that does not depend on responses: the time that a
request waits for an earlier one counts as latency.
"""

import asyncio
import sys
import time
from collections import deque
from pathlib import Path

import msgspec

from bench.ingest.requests import Plan, Request
from wire.address import Address, parse_address

_STARTED = "started"
"""The first line of output, when all nodes are connected; the outcome follows."""
_OK = b"HTTP/1.1 200 "
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_CONNECT_AT_ONCE = 50
_TIMEOUT_SECONDS = 60.0


class LoadSettings(msgspec.Struct):
    """Requests to send, and their rate."""

    plan: str
    """Path of the file with the plan."""
    address: str
    joins: bool
    """Whether to send the first request of every node, or those that follow."""
    first: int
    """Index of the first request to send."""
    requests_per_second: float
    seconds: float


class LoadOutcome(msgspec.Struct):
    """Result of a load."""

    acknowledged: list[tuple[int, int]]
    """Node and sequence of each acknowledged report."""
    rejected: int
    elapsed_seconds: float
    """From the first request to the last response."""
    latencies_seconds: list[float]
    """From the scheduled time of a request to its response."""
    disconnected: bool
    """Whether the collector closed a connection."""


class _Connection(asyncio.Protocol):
    """Connection of one node: sends one request at a time, and the next after its response."""

    def __init__(self, run: "_Run") -> None:
        self._run = run
        self._pending: deque[tuple[float, Request]] = deque()
        self._current: tuple[float, Request] | None = None
        self._response = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _why: Exception | None) -> None:
        self._transport = None
        self._run.record_disconnect()

    def send(self, due: float, request: Request) -> None:
        self._pending.append((due, request))
        if self._current is None:
            self._send_next()

    def data_received(self, data: bytes) -> None:
        self._response += data
        head, found, body = self._response.partition(_HEAD_END)
        if not found:
            return
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(_LENGTH)]
        if len(body) < int(lengths[0].partition(b":")[2]):
            return
        assert self._current is not None
        due, request = self._current
        self._run.record_response(due, request, is_ok=head.startswith(_OK))
        self._current, self._response = None, b""
        self._send_next()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _send_next(self) -> None:
        if self._pending and self._transport is not None:
            self._current = self._pending.popleft()
            self._transport.write(_as_http(self._current[1]))


def _as_http(request: Request) -> bytes:
    encoding = "Content-Encoding: gzip\r\n" if request.is_compressed else ""
    head = (
        "POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{encoding}Content-Length: {len(request.body)}\r\n\r\n"
    )
    return head.encode() + request.body


class _Run:
    """All connections and their counts."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connections: dict[int, _Connection] = {}
        self._unanswered = 0
        self._idle = asyncio.Event()
        self.acknowledged: list[tuple[int, int]] = []
        self.latencies: list[float] = []
        self.rejected = 0
        self.disconnected = False

    async def connect(self, nodes: int) -> None:
        loop = asyncio.get_running_loop()
        for start in range(0, nodes, _CONNECT_AT_ONCE):
            numbers = range(start, min(nodes, start + _CONNECT_AT_ONCE))
            opened = await asyncio.gather(
                *(
                    loop.create_connection(lambda: _Connection(self), self._address.host, self._address.port)
                    for _ in numbers
                )
            )
            self._connections |= {
                number: protocol for number, (_, protocol) in zip(numbers, opened, strict=True)
            }

    async def send_all(self, requests: list[Request], per_second: float) -> None:
        """Send each request at its scheduled time, then wait for the responses."""
        began = time.perf_counter()
        for sent, request in enumerate(requests):
            due = began + sent / per_second
            if (left := due - time.perf_counter()) > 0:
                await asyncio.sleep(left)
            if self.disconnected:
                return
            self._unanswered += 1
            self._idle.clear()
            self._connections[request.node].send(due, request)
            if not sent % _CONNECT_AT_ONCE:
                await asyncio.sleep(0)
        if self._unanswered:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await self._idle.wait()

    def record_response(self, due: float, request: Request, *, is_ok: bool) -> None:
        self.latencies.append(time.perf_counter() - due)
        if is_ok:
            self.acknowledged.append((request.node, request.sequence))
        else:
            self.rejected += 1
        self._unanswered -= 1
        if not self._unanswered:
            self._idle.set()

    def record_disconnect(self) -> None:
        self.disconnected = True
        self._idle.set()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


async def _run_load(settings: LoadSettings, plan: Plan) -> LoadOutcome:
    run = _Run(parse_address(settings.address))
    await run.connect(len(plan.joins))
    count = round(settings.requests_per_second * settings.seconds)
    requests = plan.joins if settings.joins else plan.follows[settings.first : settings.first + count]
    print(_STARTED, flush=True)
    began = time.perf_counter()
    await run.send_all(requests, settings.requests_per_second)
    outcome = LoadOutcome(
        acknowledged=run.acknowledged,
        rejected=run.rejected,
        elapsed_seconds=time.perf_counter() - began,
        latencies_seconds=run.latencies,
        disconnected=run.disconnected,
    )
    run.close()
    return outcome


if __name__ == "__main__":
    settings = msgspec.json.decode(sys.stdin.buffer.read(), type=LoadSettings)
    plan = msgspec.msgpack.decode(Path(settings.plan).read_bytes(), type=Plan)
    sys.stdout.buffer.write(msgspec.msgpack.encode(asyncio.run(_run_load(settings, plan))))
