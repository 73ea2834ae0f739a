"""The costs of one collector at one size, measured on the real command over HTTP with its default settings.

The nodes report one day of usage, then changes. CPU time is that of all processes of the collector, from the
kernel's scheduler statistics: many requests take less than a clock tick.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import aiohttp
import msgspec
import psutil

from bench.common.listening import await_url
from bench.common.measurement import family, samples, total
from bench.common.progress import Progress
from bench.understanding.cluster import ReportedCluster, connect, fill
from wire.errors import UserError

CONTAINERS = 50
"""Containers per node."""
_HEARTBEATS = 3
_REPORTS = 400
_HINTS = 30
_PLANS = 3
_PAGES = 5
_PASSES = 2
_TIMEOUT_SECONDS = 300.0
_POLL_SECONDS = 0.05
_SETTLE_SECONDS = 5.0
_QUESTION = {"service": "service-7", "reserve": {"cpu_cores": 0.5, "memory_bytes": 1 << 29}}
_OVERVIEW = (
    "/v1/cluster",
    "/v1/alerts?state=open&limit=50",
    "/v1/energy?by=day&limit=40",
    "/v1/energy?by=service&limit=10",
    "/v1/decisions?limit=5",
    "/v1/control",
    "/v1/cluster/history",
)
"""The requests of the page's overview, without that for a plan, which is measured by itself."""
_AT = "wattpack_collector_analysis_timestamp_seconds"
_DURATION = "wattpack_collector_analysis_duration_seconds"
_FULL_PASSES = (
    "from collector.config import AnalysisConfig; from wattpack.cli import main;"
    " AnalysisConfig.full_pass_seconds = 0.0; raise SystemExit(main())"
)
"""Every pass covers all containers, as the first one after a start does."""


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What a collector of one size costs."""

    heartbeat_ms: float
    """CPU time of a heartbeat with the usage of all containers of a node."""
    report_ms: float
    """CPU time of a report with the state of a node and five of its containers."""
    pass_s: float
    """Duration of an analysis pass over all containers."""
    snapshot_hint_ms: float
    """Time of the first hint after a pause, which needs a new snapshot."""
    hint_ms: float
    """CPU time of a hint on the same snapshot."""
    plan_s: float
    """Time of a plan for the whole cluster."""
    page_ms: float
    """CPU time of the requests of the page's overview."""
    restart_s: float
    """Time from the start of the process to the first answer with a container's envelope."""
    memory_mb: float
    """Resident memory of all processes after that."""
    database_mb: float


def measure(containers: int, folder: Path, progress: Progress) -> Costs:
    """Measure a cluster with this many containers."""
    cluster = ReportedCluster(max(1, containers // CONTAINERS), CONTAINERS)
    folder.mkdir()
    with _collector(folder, ("-m", "wattpack")) as (process, address):
        live = asyncio.run(_live(address, process, cluster, progress))
        memory_mb = sum(each.memory_info().rss for each in family(process.pid)) / 1e6
    database_mb = sum(each.stat().st_size for each in folder.glob("collector.db*")) / 1e6
    began = time.monotonic()
    with _collector(folder, ("-c", _FULL_PASSES), analysis_seconds=1.0) as (_, address):
        restart_s, pass_s = asyncio.run(_restarted(address, cluster.names[-1], began))
    return Costs(
        heartbeat_ms=live.heartbeat_ms,
        report_ms=live.report_ms,
        pass_s=pass_s,
        snapshot_hint_ms=live.snapshot_hint_ms,
        hint_ms=live.hint_ms,
        plan_s=live.plan_s,
        page_ms=live.page_ms,
        restart_s=restart_s,
        memory_mb=memory_mb,
        database_mb=database_mb,
    )


@dataclass(frozen=True, slots=True)
class _Live:
    heartbeat_ms: float
    report_ms: float
    snapshot_hint_ms: float
    hint_ms: float
    plan_s: float
    page_ms: float


async def _live(address: str, process: psutil.Popen, cluster: ReportedCluster, progress: Progress) -> _Live:
    async with connect(address) as http:
        now, nodes = time.time(), len(cluster.names)

        async def cpu_ms(work: Awaitable[object], count: int) -> float:
            before = _cpu_seconds(process)
            await work
            return 1000 * (_cpu_seconds(process) - before) / count

        beats = _HEARTBEATS * nodes
        heartbeat_ms = await cpu_ms(fill(http, cluster.heartbeats(now), beats, progress), beats)
        await asyncio.sleep(_SETTLE_SECONDS)
        news = (cluster.news(time.time()) for _ in range(_REPORTS))
        report_ms = await cpu_ms(fill(http, news, _REPORTS, progress), _REPORTS)
        first = [await _seconds(lambda: _hint(http), pause_seconds=2.0) for _ in range(_PLANS)]
        hint_ms = await cpu_ms(_repeat(lambda: _hint(http), _HINTS), _HINTS)
        plan_s = [
            await _seconds(lambda: _ask(http, "POST", "/v1/hints/rebalance", {})) for _ in range(_PLANS)
        ]
        page_ms = [await cpu_ms(_overview(http), 1) for _ in range(_PAGES)]
    return _Live(
        heartbeat_ms=heartbeat_ms,
        report_ms=report_ms,
        snapshot_hint_ms=1000 * statistics.median(first),
        hint_ms=hint_ms,
        plan_s=statistics.median(plan_s),
        page_ms=statistics.median(page_ms),
    )


async def _restarted(address: str, node: str, began: float) -> tuple[float, float]:
    """Wait for the first right answer about a node, then for full passes; return both durations."""
    async with connect(address) as http:
        while not await _has_envelope(http, node):
            await _pause(began)
        restart_s = time.monotonic() - began
        durations: dict[float, float] = {}
        while len(durations) < _PASSES:
            scraped = samples((await _ask(http, "GET", "/metrics")).decode())
            if at := total(scraped, _AT):
                durations[at] = total(scraped, _DURATION)
            await _pause(began)
        return restart_s, max(islice(durations.values(), _PASSES))


async def _has_envelope(http: aiohttp.ClientSession, node: str) -> bool:
    async with http.get(f"/v1/containers?node={node}&limit=1") as response:
        if response.status != 200:  # noqa: PLR2004 - what is not restored yet is refused
            return False
        rows = msgspec.json.decode(await response.read())["containers"]
    return bool(rows) and rows[0]["envelope"]["p90"].get("cpu_cores") is not None


async def _pause(began: float) -> None:
    if time.monotonic() - began > _TIMEOUT_SECONDS:
        raise UserError(f"the collector did not get there within {_TIMEOUT_SECONDS:g} s")
    await asyncio.sleep(_POLL_SECONDS)


async def _hint(http: aiohttp.ClientSession) -> bytes:
    return await _ask(http, "POST", "/v1/hints/placement", _QUESTION)


async def _plan(http: aiohttp.ClientSession) -> bytes:
    return await _ask(http, "POST", "/v1/hints/rebalance", {})


async def _overview(http: aiohttp.ClientSession) -> None:
    for path in _OVERVIEW:
        await _ask(http, "GET", path)


async def _ask(http: aiohttp.ClientSession, method: str, path: str, body: object = None) -> bytes:
    data = None if body is None else msgspec.json.encode(body)
    async with http.request(method, path, data=data) as response:
        answer = await response.read()
        if response.status != 200:  # noqa: PLR2004 - OK
            raise UserError(f"{method} {path}: status {response.status}: {answer[:300]!r}")
        return answer


async def _repeat(ask: Callable[[], Awaitable[object]], times: int) -> None:
    for _ in range(times):
        await ask()


async def _seconds(ask: Callable[[], Awaitable[object]], *, pause_seconds: float = 0.0) -> float:
    await asyncio.sleep(pause_seconds)
    began = time.monotonic()
    await ask()
    return time.monotonic() - began


def _cpu_seconds(process: psutil.Popen) -> float:
    """CPU time of all threads of the collector's processes."""
    files = (
        file for each in family(process.pid) for file in Path(f"/proc/{each.pid}/task").glob("*/schedstat")
    )
    return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files) / 1e9


@contextmanager
def _collector(
    folder: Path, program: tuple[str, str], *, analysis_seconds: float = 60.0
) -> Iterator[tuple[psutil.Popen, str]]:
    """Run the collector on the history in a folder while the block runs; yields process and address."""
    config, log = folder / "collector.toml", folder / "collector.log"
    config.write_text(
        f'[http]\nlisten = "127.0.0.1:0"\n[history]\npath = "{folder / "collector.db"}"\n'
        f'[access]\ntokens = ""\n[analysis]\ninterval_seconds = {analysis_seconds}\n'
    )
    with log.open("w") as output:
        process = psutil.Popen(
            [sys.executable, *program, "collector", "--config", str(config)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process, await_url(process, log)
    finally:
        process.terminate()
        try:
            process.wait(_TIMEOUT_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait()
