"""Memory of a collector over many reports, while containers come and go: is what grows a leak, or a window?

The nodes and the number of containers stay the same, and every few reports a container is replaced by a new
one. What is kept of containers that ended must not add up: the memory after all reports is compared with that
after the first tenth.
"""

import argparse
import asyncio
import tempfile
import time
from http import HTTPStatus
from pathlib import Path

import aiohttp
import psutil
from msgspec.structs import replace

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.ingest.processes import history_mb, resident_mb, run_collector, worker_of
from bench.trust.cluster import CONTAINERS, JSON, honest_report
from wire.errors import UserError
from wire.messages import Report, encode

REPORTS = 500_000
MOST_GROWTH_RATIO = 1.1
_FIRST_RATIO = 0.1
_NODES, _BATCH = 100, 20
_HEARTBEAT_EVERY = 10
"""Reports of a node per heartbeat."""
_REPLACED_EVERY = 5
"""Reports of a node per container that is replaced."""
_RETRY_SECONDS = 0.5
_MEASURED = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--reports", type=int, default=REPORTS, help="reports to send")


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Send the reports, and measure the memory meanwhile."""
    if options.reports < _NODES * _BATCH * _MEASURED:
        raise UserError(f"choose at least {_NODES * _BATCH * _MEASURED} --reports")
    with tempfile.TemporaryDirectory() as folder, run_collector(Path(folder)) as (process, address):
        measured = asyncio.run(_soak(process, f"http://{address}", options.reports, progress))
        size_mb = history_mb(Path(folder))
    first = next(mb for sent, mb, _ in measured if sent >= _FIRST_RATIO * options.reports)
    _, last, worker_mb = measured[-1]
    return Result(
        settings={
            "reports": options.reports,
            "nodes": _NODES,
            "containers": _NODES * CONTAINERS,
            "replaced": options.reports // _REPLACED_EVERY,
            "resident_mb": [f"{mb:.1f} after {sent}" for sent, mb, _ in measured],
        },
        figures=(
            Figure(name="first", value=first, unit=f"MB resident, after {_FIRST_RATIO:.0%} of the reports"),
            Figure(name="last", value=last, unit="MB resident, after all"),
            Figure(name="growth", value=last / first, unit="times", at_most=MOST_GROWTH_RATIO),
            Figure(name="worker", value=worker_mb, unit="MB resident, of the worker after all"),
            Figure(name="history", value=size_mb, unit="MB"),
        ),
    )


async def _soak(
    process: psutil.Popen, url: str, reports: int, progress: Progress
) -> list[tuple[int, float, float]]:
    """The memory of both processes after numbers of reports."""
    measured: list[tuple[int, float, float]] = []
    sent, sequence, due = 0, 1, 0.0
    async with aiohttp.ClientSession(url, headers=JSON) as http:
        while sent < reports:
            await asyncio.gather(*(_send(http, node, sequence) for node in range(_NODES)))
            sequence += _BATCH
            sent += _NODES * _BATCH
            if sent >= due:
                due += reports / _MEASURED
                measured.append((sent, resident_mb(process), resident_mb(worker_of(process))))
                progress.say(f"{measured[-1][1]:.1f} MB after {sent} reports")
    return measured


async def _send(http: aiohttp.ClientSession, node: int, first: int) -> None:
    body = encode([report_of(node, first + number, time.time()) for number in range(_BATCH)])
    while True:
        async with http.post("/v1/reports", data=body) as response:
            answer = await response.text()
        if response.status == HTTPStatus.OK:
            return
        if response.status not in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
            raise UserError(f"the collector refuses a report: {answer}")
        await asyncio.sleep(_RETRY_SECONDS)


def report_of(node: int, sequence: int, at: float) -> Report:
    """A report of one container, of those that are new and that ended; or a heartbeat with all."""
    whole = honest_report(node, sequence, at, 2.0 * sequence)
    now, before = _generations(sequence), _generations(sequence - 1)
    containers, usage, gone = [], [], []
    assert whole.heartbeat is not None
    is_heartbeat = sequence % _HEARTBEAT_EVERY == 1
    for place, (state, used) in enumerate(zip(whole.containers, whole.heartbeat.usage, strict=True)):
        identity, last = (f"{number:08x}{state.id[:-8]}" for number in (now[place], before[place]))
        if identity != last and sequence > 1:
            gone.append(last)
        if is_heartbeat or identity != last or place == sequence % CONTAINERS:
            containers.append(replace(state, id=identity, name=f"{state.name}-{now[place]}"))
        usage.append(replace(used, id=identity))
    heartbeat = replace(whole.heartbeat, usage=tuple(usage)) if is_heartbeat else None
    return replace(whole, containers=tuple(containers), gone=tuple(gone), heartbeat=heartbeat)


def _generations(sequence: int) -> list[int]:
    """How often the container in each place was replaced by then."""
    every = _REPLACED_EVERY * CONTAINERS
    return [(sequence + _REPLACED_EVERY * place) // every for place in range(CONTAINERS)]
