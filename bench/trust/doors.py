"""Attacks at the doors of a collector: joining, revocation, and floods of connections.

Machines join a real collector. An attacker with the same join token tries to take their names while they are
down; hosts whose tokens are revoked try to come back, also after the collector was killed; and connections
without any credential are opened far beyond its descriptors, while honest nodes report.
"""

import asyncio
import contextlib
import io
import random
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import aiohttp
import msgspec
import psutil

from bench.common.progress import Progress
from bench.common.results import Figure
from bench.trust.cluster import JSON, honest_report
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import edit_tokens, make_token
from wattpack.cli import main
from wire.http.authorization import secret_hash
from wire.messages import encode

NODES, CONNECTIONS, DESCRIPTORS = 12, 4000, 1024
_REVOKED = 4
_ODD_NAMES = ("web\n0", "web\x1b[2J", "web\u202e0", "web\t")
_MOST_LOG_BYTES = 4000
"""A start, an end, and a line or two about the floods."""
_FLOOD_ADDRESS = "127.0.0.2"
_RELOAD_SECONDS = 1.5
"""Tokens take effect within a second."""

RunCollector = Callable[[Path], AbstractContextManager[tuple[psutil.Process, str]]]


@dataclass(slots=True)
class Doors:
    """What came of the attacks."""

    attempts: int = 0
    names_taken: int = 0
    revoked_accepted: int = 0
    odd_names: int = 0
    honest_refused: int = 0
    tracebacks: int = 0
    log_bytes: int = 0

    def figures(self) -> Iterator[Figure]:
        yield Figure(name="door_attempts", value=self.attempts, unit="requests", at_least=1)
        yield Figure(name="names_taken", value=self.names_taken, unit="names", at_most=0)
        yield Figure(name="revoked_accepted", value=self.revoked_accepted, unit="requests", at_most=0)
        yield Figure(name="odd_names_accepted", value=self.odd_names, unit="names", at_most=0)
        yield Figure(name="doors_honest_refused", value=self.honest_refused, unit="requests", at_most=0)
        yield Figure(name="flood_tracebacks", value=self.tracebacks, unit="tracebacks", at_most=0)
        yield Figure(name="flood_log", value=self.log_bytes, unit="bytes", at_most=_MOST_LOG_BYTES)


@dataclass(slots=True)
class _Attack:
    http: aiohttp.ClientSession
    chance: random.Random
    tokens: Path
    join_token: str
    doors: Doors = field(default_factory=Doors)
    url: str = ""

    async def join(self, node: str, machine: str, own: str) -> int:
        body = {"node": node, "machine": machine, "sha256": secret_hash(own.encode())}
        return await self._post("/v1/join", encode(body), self.join_token)

    async def report(self, number: int, own: str) -> int:
        sent = honest_report(number, time.monotonic_ns(), time.time(), 1.0)
        assert sent.heartbeat is not None
        heartbeat = msgspec.structs.replace(sent.heartbeat, machine=_machine(number))
        sent = msgspec.structs.replace(sent, node=_node(number), heartbeat=heartbeat)
        return await self._post("/v1/reports", encode([sent]), own)

    async def _post(self, path: str, body: bytes, secret: str) -> int:
        headers = {**JSON, "Authorization": f"Bearer {secret}"}
        async with self.http.post(self.url + path, data=body, headers=headers) as response:
            await response.read()
            return response.status

    async def let_join(self) -> None:
        """Let all honest machines join, twice, and report."""
        for number in range(NODES):
            for _ in range(2):
                self._must(await self.join(_node(number), _machine(number), _own(number)))
        await asyncio.sleep(_RELOAD_SECONDS)
        await self.report_as_honest(range(NODES))

    async def report_as_honest(self, numbers: range) -> None:
        for number in numbers:
            self._must(await self.report(number, _own(number)))

    def _must(self, status: int) -> None:
        self.doors.honest_refused += status != HTTPStatus.OK

    async def take_names(self, numbers: range) -> int:
        """Try to join under the names of others, in every form; return how many tries succeeded."""
        taken = 0
        for number in self.chance.sample(numbers, len(numbers)):
            forms = [(_machine(number), "other"), (_machine(99), _own(number)), (_machine(99), "other")]
            for machine, own in self.chance.sample(forms, len(forms)):
                self.doors.attempts += 1
                taken += await self.join(_node(number), machine, f"{own}{number}") == HTTPStatus.OK
        return taken

    async def come_back(self) -> None:
        """Try to report and to join as hosts whose tokens were revoked."""
        revoked = range(_REVOKED)
        for number in revoked:
            self.doors.attempts += 3
            for status in (
                await self.report(number, _own(number)),
                await self.join(_node(number), _machine(number), _own(number)),
                await self.join(f"new-{number}", _machine(number), f"new-{number}"),
            ):
                self.doors.revoked_accepted += status == HTTPStatus.OK
        self.doors.revoked_accepted += await self.take_names(revoked)

    async def join_with_odd_names(self) -> None:
        for name in _ODD_NAMES:
            self.doors.attempts += 1
            self.doors.odd_names += await self.join(name, _machine(50), name) == HTTPStatus.OK


async def run_doors(run: RunCollector, folder: Path, progress: Progress, seed: int) -> Doors:
    """Attack a collector of its own; the same seed attacks in the same order."""
    tokens = folder / "tokens.jsonl"
    with edit_tokens(tokens) as listed:
        token, secret = make_token(Scope.JOIN, "*", time.time())
        listed.append(token)
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as http:
        attack = _Attack(http, random.Random(seed), tokens, secret)  # noqa: S311 - reproducible, not a secret
        with run(folder) as (process, attack.url):
            await attack.let_join()
            attack.doors.names_taken += await attack.take_names(range(NODES))
            await attack.join_with_odd_names()
            for number in range(_REVOKED):
                await asyncio.to_thread(_revoke, tokens, _node(number))
            await asyncio.sleep(_RELOAD_SECONDS)
            await attack.come_back()
            process.kill()
            process.wait(60)
        # Nobody has reported since: to the collector, all nodes are down.
        with _few_descriptors(), run(folder) as (_, attack.url):
            attack.doors.names_taken += await attack.take_names(range(_REVOKED, NODES))
            await attack.come_back()
            with _flood(attack.url):
                for _ in range(3):
                    await attack.report_as_honest(range(_REVOKED, NODES))
    log = _read_logs(folder)
    attack.doors.tracebacks, attack.doors.log_bytes = log.count("Traceback"), len(log)
    progress.say(f"doors: {attack.doors}")
    return attack.doors


def _read_logs(folder: Path) -> str:
    return "".join(each.read_text() for each in folder.glob("log-*"))


def _node(number: int) -> str:
    return f"web-{number}"


def _machine(number: int) -> str:
    return f"{number:032x}"


def _own(number: int) -> str:
    return f"token-{number}"


def _revoke(tokens: Path, node: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        main(["token", "revoke", node, "--file", str(tokens)])


@contextmanager
def _few_descriptors() -> Iterator[None]:
    """Let processes that start in the block have few descriptors; this one gets all that it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def _flood(url: str) -> Iterator[None]:
    """Hold connections from another address, as many as this process may have."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        for _ in range(min(CONNECTIONS, hard - DESCRIPTORS)):
            connection = stack.enter_context(socket.socket())
            connection.setblocking(False)  # noqa: FBT003 - the standard library's own
            connection.bind((_FLOOD_ADDRESS, 0))
            connection.connect_ex((host, int(port)))
        yield
