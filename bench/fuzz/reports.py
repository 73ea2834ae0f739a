"""A million invalid request bodies: the collector must accept or reject each one, and nothing else.

First, the functions that read a body run in this process: any exception except a rejection is a bug, and
memory must not grow after a warm-up. Then some thousands go over real HTTP to a collector with a history on
disk, where a missing or undocumented response is a bug. It requires tokens, so that a report with another
node's name is rejected and the collector stores one node only.
"""

import argparse
import asyncio
import ctypes
import gc
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import aiohttp
import psutil

from bench.common.listening import await_url
from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.fuzz.mutations import NODE, Body, Mutator, describe
from collector.common.errors import ApiError
from collector.config import HttpConfig
from collector.serve.api.table import ROUTES
from collector.serve.ingest import parse_reports
from collector.serve.web.bodies import decompress
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import edit_tokens, make_token
from wire.errors import UserError

MOST_GROWTH_MB = 8.0
MOST_SERVER_GROWTH_MB = 24.0

_WARM_UP_RATIO = 0.1
_SHOW_EVERY = 1000
_CONNECTIONS = 4
"""Concurrent requests that the collector accepts from one node."""
_MAX_PRINTED = 3
_ANY_PORT = "127.0.0.1:0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--bodies", type=int, default=1_000_000, help="bodies to parse in this process")
    parser.add_argument("--requests", type=int, default=30_000, help="bodies to send over HTTP")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same bodies")


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Parse and send the bodies, and count the outcomes."""
    mutator = Mutator(random.Random(options.seed))  # noqa: S311 - reproducible, not a secret
    outcomes, growth_mb, cpu_seconds = _parse_all(mutator, options.bodies, progress)
    statuses, server_growth_mb = asyncio.run(_send_all(mutator, options.requests, progress))
    documented = {
        int(status) for route in ROUTES if route.path == "/v1/reports" for status in route.responses
    }
    undocumented = sum(count for status, count in statuses.items() if status not in documented)
    return Result(
        settings={"bodies": options.bodies, "requests": options.requests, "seed": options.seed},
        figures=(
            Figure(name="bodies", value=sum(outcomes.values()), unit="bodies", at_least=options.bodies),
            Figure(name="taken", value=outcomes["taken"], unit="bodies", at_least=1),
            Figure(name="refused", value=outcomes["refused"], unit="bodies", at_least=1),
            Figure(name="crashes", value=outcomes["crashed"], unit="bodies", at_most=0),
            Figure(name="growth", value=growth_mb, unit="MB", at_most=MOST_GROWTH_MB),
            Figure(name="cpu_per_body", value=1e6 * cpu_seconds / max(1, options.bodies), unit="us"),
            Figure(name="requests", value=sum(statuses.values()), unit="requests", at_least=options.requests),
            *(
                Figure(name=f"status_{status}", value=count, unit="requests")
                for status, count in sorted(statuses.items())
            ),
            Figure(name="undocumented", value=undocumented, unit="requests", at_most=0),
            Figure(name="server_growth", value=server_growth_mb, unit="MB", at_most=MOST_SERVER_GROWTH_MB),
        ),
    )


def parse_outcome(body: Body) -> str:
    """Parse a body; returns `taken` or `refused`, and raises in case of a bug."""
    try:
        parse_reports(decompress(body.data, body.encoding, HttpConfig().max_body_bytes))
    except ApiError:
        return "refused"
    return "taken"


def _parse_all(mutator: Mutator, bodies: int, progress: Progress) -> tuple[Counter[str], float, float]:
    """Return the outcomes, the growth of memory after the warm-up, and the CPU time."""
    outcomes: Counter[str] = Counter()
    warm_mb = 0.0
    began = time.process_time()
    with progress.track("parsing", bodies, " bodies") as show:
        for number in range(bodies):
            if number == int(bodies * _WARM_UP_RATIO):
                warm_mb = _resident_mb()
            if number % _SHOW_EVERY == 0:
                show(number)
            body = mutator.next()
            try:
                outcomes[parse_outcome(body)] += 1
            except Exception as error:  # noqa: BLE001 - any exception is a finding
                outcomes["crashed"] += 1
                if outcomes["crashed"] <= _MAX_PRINTED:
                    progress.say(f"{error!r} on {describe(body)}")
    return outcomes, _resident_mb() - warm_mb, time.process_time() - began


def _resident_mb() -> float:
    """Memory of this process, without memory that the allocator keeps in reserve."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return psutil.Process().memory_info().rss / 1e6


async def _send_all(mutator: Mutator, requests: int, progress: Progress) -> tuple[Counter[int], float]:
    """Return the number of responses per status, and the collector's growth of memory after the warm-up."""
    statuses: Counter[int] = Counter()
    warm_mb, sent = 0.0, 0
    with tempfile.TemporaryDirectory() as folder, _collector(Path(folder)) as (process, url, secret):
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {secret}"}) as http:

            async def send(show: Callable[[float], None]) -> None:
                nonlocal warm_mb, sent
                while sent < requests:
                    sent += 1
                    if sent == int(requests * _WARM_UP_RATIO):
                        warm_mb = process.memory_info().rss / 1e6
                    show(sent)
                    body = mutator.next()
                    status = await _post(http, url, body)
                    statuses[status] += 1
                    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                        progress.say(f"{status} on {describe(body)}")

            with progress.track("sending", requests, " requests") as show:
                await asyncio.gather(*(send(show) for _ in range(_CONNECTIONS)))
            async with http.get(url + "/readyz") as response:
                if not response.ok:
                    raise UserError(
                        f"the collector is not ready afterwards: /readyz returns {response.status}"
                    )
        return statuses, process.memory_info().rss / 1e6 - warm_mb


async def _post(http: aiohttp.ClientSession, url: str, body: Body) -> int:
    headers = {"Content-Type": body.content_type, "Content-Encoding": body.encoding}
    async with http.post(f"{url}/v1/reports", data=body.data, headers=headers) as response:
        await response.read()
        return response.status


@contextmanager
def _collector(folder: Path) -> Iterator[tuple[psutil.Process, str, str]]:
    """Run a collector; yields its process, its address, and the secret of the node that reports."""
    token, secret = make_token(Scope.NODE, NODE, time.time())
    with edit_tokens(folder / "tokens.jsonl") as tokens:
        tokens.append(token)
    (folder / "empty.toml").touch()
    settings = (
        f"http.listen={_ANY_PORT}",
        f"access.tokens={folder / 'tokens.jsonl'}",
        f"history.path={folder / 'history.db'}",
    )
    command = [sys.executable, "-m", "wattpack", "collector", "--config", str(folder / "empty.toml")]
    for setting in settings:
        command += ["--set", setting]
    log = folder / "log"
    with log.open("w") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            yield psutil.Process(process.pid), await_url(process, log), secret
        finally:
            process.terminate()
