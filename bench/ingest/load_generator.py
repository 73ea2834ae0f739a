"""The load generator of the ingest benchmark: a process that sends the requests of agents.

It keeps one connection per node, as agents do, at a rate that does not depend on responses: the time that a
request waits for an earlier one counts as latency. Requests are prepared, or made from templates just before
they are sent. A connection that the collector closed is opened again for the next request, as agents do; the
load ends when that fails.
"""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Iterable
from heapq import heappush, heappushpop
from itertools import islice
from pathlib import Path

import msgspec

from bench.ingest.requests import Plan, Request, Templates
from wire.address import Address, parse_address

_STARTED = "started"
"""The first line of output, when all nodes are connected; the outcome follows."""
_OK = b"HTTP/1.1 200 "
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_CONNECT_AT_ONCE = 50
_TIMEOUT_SECONDS = 60.0
_WORST = 5


class LoadSettings(msgspec.Struct):
    """Requests to send, and their rate."""

    plan: str
    """Path of the file with the plan, or with templates."""
    address: str
    joins: bool
    """Whether to send the first request of every node, or those that follow."""
    first: int
    """Index of the first request to send."""
    requests_per_second: float
    seconds: float
    from_templates: bool = False
    """Whether the requests are made from templates."""
    only_beacons: bool = False
    """Whether reports from templates have no content."""


class SlowReport(msgspec.Struct, array_like=True, order=True):
    """One of the slowest requests."""

    seconds: float
    due_at: float
    """Unix time."""
    node: int
    sequence: int


class LoadOutcome(msgspec.Struct):
    """Result of a load."""

    acknowledged: list[tuple[int, int]]
    """Node and sequence of each acknowledged report."""
    rejected: int
    refusal: str
    """The first answer to a rejected request."""
    elapsed_seconds: float
    """From the first request to the last response."""
    latencies_seconds: list[float]
    """From the scheduled time of a request to its response."""
    disconnected: bool
    """Whether the collector refused a connection."""
    sent: int
    """Number of requests that were sent."""
    closed: int
    """Number of connections that the collector closed."""
    worst: list[SlowReport]


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
        self._transport, self._response = transport, b""
        if self._current is None:
            self._send_next()
        else:
            transport.write(_as_http(self._current[1]))

    def connection_lost(self, _why: Exception | None) -> None:
        self._transport = None
        self._run.closed += 1
        if self._current is not None:
            self._run.open_soon(self)

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
        if not head.startswith(_OK):
            self._run.refusal = self._run.refusal or body.decode(errors="replace")
        self._run.record_response(due, request, is_ok=head.startswith(_OK))
        self._current, self._response = None, b""
        self._send_next()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _send_next(self) -> None:
        if not self._pending:
            return
        self._current = self._pending.popleft()
        if self._transport is None:
            self._run.open_soon(self)
        else:
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
        self._connecting: set[asyncio.Task[None]] = set()
        self._began = time.perf_counter()
        self._began_at = time.time()
        self._unanswered = 0
        self._idle = asyncio.Event()
        self.acknowledged: list[tuple[int, int]] = []
        self.latencies: list[float] = []
        self.worst: list[SlowReport] = []
        self.rejected = 0
        self.refusal = ""
        self.sent = 0
        self.closed = 0
        self.disconnected = False

    async def connect(self, nodes: int) -> None:
        for start in range(0, nodes, _CONNECT_AT_ONCE):
            numbers = range(start, min(nodes, start + _CONNECT_AT_ONCE))
            self._connections |= {number: _Connection(self) for number in numbers}
            await asyncio.gather(*(self._open(self._connections[number]) for number in numbers))

    def open_soon(self, connection: _Connection) -> None:
        """Open a connection that is needed, in the background."""
        task = asyncio.create_task(self._open_or_end(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _open(self, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: connection, self._address.host, self._address.port)

    async def _open_or_end(self, connection: _Connection) -> None:
        try:
            await self._open(connection)
        except OSError:
            self.disconnected = True
            self._idle.set()

    async def send_all(self, requests: Iterable[Request], per_second: float) -> None:
        """Send each request at its scheduled time, then wait for the responses."""
        began = time.perf_counter()
        for request in requests:
            due = began + self.sent / per_second
            if (left := due - time.perf_counter()) > 0:
                await asyncio.sleep(left)
            if self.disconnected:
                return
            self._unanswered += 1
            self._idle.clear()
            if request.node not in self._connections:
                self._connections[request.node] = _Connection(self)
            self._connections[request.node].send(due, request)
            self.sent += 1
            if not self.sent % _CONNECT_AT_ONCE:
                await asyncio.sleep(0)
        if self._unanswered:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await self._idle.wait()

    def record_response(self, due: float, request: Request, *, is_ok: bool) -> None:
        seconds = time.perf_counter() - due
        self.latencies.append(seconds)
        slow = SlowReport(seconds, self._began_at + due - self._began, request.node, request.sequence)
        (heappush if len(self.worst) < _WORST else heappushpop)(self.worst, slow)
        if is_ok:
            self.acknowledged.append((request.node, request.sequence))
        else:
            self.rejected += 1
        self._unanswered -= 1
        if not self._unanswered:
            self._idle.set()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


async def _run_load(settings: LoadSettings) -> LoadOutcome:
    run = _Run(parse_address(settings.address))
    nodes, requests = _requests(settings)
    # Agents of a cluster that is simulated from templates connect when they report for the first time.
    await run.connect(0 if settings.from_templates else nodes)
    print(_STARTED, flush=True)
    began = time.perf_counter()
    await run.send_all(requests, settings.requests_per_second)
    outcome = LoadOutcome(
        acknowledged=run.acknowledged,
        rejected=run.rejected,
        refusal=run.refusal,
        elapsed_seconds=time.perf_counter() - began,
        latencies_seconds=run.latencies,
        disconnected=run.disconnected,
        sent=run.sent,
        closed=run.closed,
        worst=sorted(run.worst, reverse=True),
    )
    run.close()
    return outcome


def _requests(settings: LoadSettings) -> tuple[int, Iterable[Request]]:
    """The number of nodes, and the requests to send."""
    content = Path(settings.plan).read_bytes()
    count = round(settings.requests_per_second * settings.seconds)
    if not settings.from_templates:
        plan = msgspec.msgpack.decode(content, type=Plan)
        sent = plan.joins if settings.joins else plan.follows[settings.first : settings.first + count]
        return len(plan.joins), sent
    templates = msgspec.msgpack.decode(content, type=Templates)
    follows = templates.follows(settings.first, time.time, only_beacons=settings.only_beacons)
    return templates.nodes, templates.joins(time.time) if settings.joins else islice(follows, count)


if __name__ == "__main__":
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=LoadSettings)
    sys.stdout.buffer.write(msgspec.msgpack.encode(asyncio.run(_run_load(given))))
