"""The load generator of the ingest benchmark: a process of its own, which sends what was made beforehand.

It keeps one connection per node, as agents do, and a pace that does not wait for answers: a request that
is late because an earlier one was not answered is late from the collector's fault, and counted as such.
"""

import asyncio
import sys
import time
from collections import deque
from pathlib import Path

import msgspec

from bench.ingest.requests import Plan, Request
from wire.address import Address, parse_address

_SPEAKING = "speaking"
"""Its first line of output, when all are connected; its findings follow."""
_OK = b"HTTP/1.1 200 "
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_CONNECT_AT_ONCE = 50
_PATIENCE_SECONDS = 60.0


class Orders(msgspec.Struct):
    """What to send, where to, how fast."""

    plan: str
    """The file with the plan."""
    address: str
    joins: bool
    """Whether to send the nodes' first words, or what comes then."""
    first: int
    """The requests to send are those from here on."""
    requests_per_second: float
    seconds: float


class Findings(msgspec.Struct):
    """What came of it."""

    acknowledged: list[tuple[int, int]]
    """Node and sequence of each report that was."""
    refused: int
    elapsed_seconds: float
    """From the first request to the last answer."""
    latencies_seconds: list[float]
    """From the time that a request was due to its answer."""
    broke_off: bool
    """The collector went away."""


class _Connection(asyncio.Protocol):
    """One node's: a request at a time, the next one when the answer is there."""

    def __init__(self, run: "_Run") -> None:
        self._run = run
        self._waiting: deque[tuple[float, Request]] = deque()
        self._asked: tuple[float, Request] | None = None
        self._answer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _why: Exception | None) -> None:
        self._transport = None
        self._run.lost()

    def send(self, due: float, request: Request) -> None:
        self._waiting.append((due, request))
        if self._asked is None:
            self._next()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, found, body = self._answer.partition(_HEAD_END)
        if not found:
            return
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(_LENGTH)]
        if len(body) < int(lengths[0].partition(b":")[2]):
            return
        assert self._asked is not None
        due, request = self._asked
        self._run.answered(due, request, is_ok=head.startswith(_OK))
        self._asked, self._answer = None, b""
        self._next()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _next(self) -> None:
        if self._waiting and self._transport is not None:
            self._asked = self._waiting.popleft()
            self._transport.write(_as_http(self._asked[1]))


def _as_http(request: Request) -> bytes:
    packed = "Content-Encoding: gzip\r\n" if request.is_packed else ""
    head = (
        "POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{packed}Content-Length: {len(request.body)}\r\n\r\n"
    )
    return head.encode() + request.body


class _Run:
    """All connections, and what is counted."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connections: dict[int, _Connection] = {}
        self._open = 0
        self._all_answered = asyncio.Event()
        self.acknowledged: list[tuple[int, int]] = []
        self.latencies: list[float] = []
        self.refused = 0
        self.broke_off = False

    async def connect(self, nodes: int) -> None:
        loop = asyncio.get_running_loop()
        for start in range(0, nodes, _CONNECT_AT_ONCE):
            numbers = range(start, min(nodes, start + _CONNECT_AT_ONCE))
            made = await asyncio.gather(
                *(
                    loop.create_connection(lambda: _Connection(self), self._address.host, self._address.port)
                    for _ in numbers
                )
            )
            self._connections |= {number: made[1] for number, made in zip(numbers, made, strict=True)}

    async def pace(self, requests: list[Request], per_second: float) -> None:
        """Send each when it is due, then wait for the answers."""
        begun = time.perf_counter()
        for sent, request in enumerate(requests):
            due = begun + sent / per_second
            if (left := due - time.perf_counter()) > 0:
                await asyncio.sleep(left)
            if self.broke_off:
                return
            self._open += 1
            self._all_answered.clear()
            self._connections[request.node].send(due, request)
            if not sent % _CONNECT_AT_ONCE:
                await asyncio.sleep(0)
        if self._open:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._all_answered.wait()

    def answered(self, due: float, request: Request, *, is_ok: bool) -> None:
        self.latencies.append(time.perf_counter() - due)
        if is_ok:
            self.acknowledged.append((request.node, request.sequence))
        else:
            self.refused += 1
        self._open -= 1
        if not self._open:
            self._all_answered.set()

    def lost(self) -> None:
        self.broke_off = True
        self._all_answered.set()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


async def _carry_out(orders: Orders, plan: Plan) -> Findings:
    run = _Run(parse_address(orders.address))
    await run.connect(len(plan.joins))
    count = round(orders.requests_per_second * orders.seconds)
    requests = plan.joins if orders.joins else plan.follows[orders.first : orders.first + count]
    print(_SPEAKING, flush=True)
    begun = time.perf_counter()
    await run.pace(requests, orders.requests_per_second)
    findings = Findings(
        acknowledged=run.acknowledged,
        refused=run.refused,
        elapsed_seconds=time.perf_counter() - begun,
        latencies_seconds=run.latencies,
        broke_off=run.broke_off,
    )
    run.close()
    return findings


if __name__ == "__main__":
    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=Orders)
    made = msgspec.msgpack.decode(Path(orders.plan).read_bytes(), type=Plan)
    sys.stdout.buffer.write(msgspec.msgpack.encode(asyncio.run(_carry_out(orders, made))))
