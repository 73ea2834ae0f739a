"""Analysis of a whole cluster: its duration, its effect on other requests, and the accuracy of envelopes.

A thousand nodes with fifty containers each have reported a whole day to a real collector process. It analyses
all of them repeatedly, while clients send requests and nodes continue to report at a fixed rate. Separately,
envelopes of recorded load (the Bitbrains trace, through the agent's reporter) are compared with numpy's.
"""

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil

from bench.common.bitbrains import SLOT_SECONDS, WEEK, read_machines
from bench.common.measurement import samples, total
from bench.common.progress import Progress
from bench.common.requirements import Need, dataset, is_left_out
from bench.common.results import Figure, Result
from bench.understanding.accuracy import EnvelopeErrors, measure
from bench.understanding.cluster import (
    PERIOD_SECONDS,
    Latencies,
    ReportedCluster,
    collector,
    connect,
    fill,
    send_requests,
)
from wattpack.datasets.catalogue import add_data_option
from wire.errors import UserError

MOST_PASS_SECONDS = 5.0
MOST_P99_MILLISECONDS = 50.0
MOST_BINS = 1.0

_REQUESTS_PER_SECOND = 20.0
_NEWS_PER_SECOND = 100.0
_SCRAPES_PER_SECOND = 5.0
_SETTLE_SECONDS = 10.0
_PATHS = (
    "/v1/alerts",
    "/v1/cluster",
    "/v1/nodes?limit=20",
    "/v1/services?name=service-7",
    "/v1/containers?service=service-7&limit=20",
    "/v1/groups",
)
_AT = "wattpack_collector_analysis_timestamp_seconds"
_DURATION = "wattpack_collector_analysis_duration_seconds"


_REAL_LOAD = "envelopes against real load"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--nodes", type=int, default=1000, help="number of nodes")
    parser.add_argument("--containers", type=int, default=50, help="containers per node")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="duration of the requests during analysis"
    )
    add_data_option(parser)
    parser.add_argument("--hours", type=int, default=2, help="hours of the trace to replay, at most 23")


def needs(options: argparse.Namespace) -> list[Need]:
    """The Bitbrains week, for the envelopes."""
    return [dataset(WEEK, options.data, _REAL_LOAD)]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Analyse a large cluster, then recorded load."""
    if options.nodes < 1 or options.containers < 1 or options.seconds <= 0 or not 1 <= options.hours <= 23:  # noqa: PLR2004 - a day, nearly
        raise UserError("--nodes, --containers and --seconds must be positive, and --hours between 1 and 23")
    with tempfile.TemporaryDirectory() as folder, collector(Path(folder)) as (process, address):
        analysis = asyncio.run(_analyse(address, process, options, progress))
    errors = None
    if not is_left_out(options, _REAL_LOAD):
        machines = read_machines(options.data, options.hours * 3600 // SLOT_SECONDS)
        errors = measure(machines, options.hours, progress)
    settings = {
        "nodes": options.nodes,
        "containers_per_node": options.containers,
        "asked_per_second": _REQUESTS_PER_SECOND,
        "news_per_second": _NEWS_PER_SECOND,
        "seconds": options.seconds,
        "pause_between_passes_seconds": PERIOD_SECONDS,
        "passes": "over every container, whether it was reported since the last one or not",
        "latency": "from the scheduled time of a request to its response, at the client",
        "real_load": None if errors is None else f"{options.hours} hours of Bitbrains",
    }
    return Result((*_figures(analysis), *_accuracy_figures(errors)), settings)


@dataclass(frozen=True, slots=True)
class AnalysisLoad:
    """Measurements of a collector during analysis."""

    passes: tuple[float, ...]
    """Duration of each pass."""
    latencies: Latencies
    cpu_percent: float
    resident_mb: float


async def _analyse(
    address: str, process: psutil.Popen, options: argparse.Namespace, progress: Progress
) -> AnalysisLoad:
    cluster = ReportedCluster(options.nodes, options.containers)
    now = time.time()
    async with connect(address) as http:
        await fill(http, cluster.heartbeats(now), 3 * options.nodes, progress)
        await asyncio.sleep(_SETTLE_SECONDS)
        paths = (*_PATHS, *(f"/v1/containers?node={name}" for name in cluster.names[::100]))
        progress.say(f"sending requests for {options.seconds:g} s during analysis")
        began, used = time.monotonic(), sum(process.cpu_times()[:2])
        reporting = asyncio.create_task(_report_changes(http, cluster))
        scraping = asyncio.create_task(_passes(http, options.seconds))
        latencies = await send_requests(http, paths, _REQUESTS_PER_SECOND, options.seconds)
        passes = await scraping
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
        busy = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began)
    return AnalysisLoad(tuple(passes), latencies, 100 * busy, process.memory_info().rss / 1e6)


async def _report_changes(http: aiohttp.ClientSession, cluster: ReportedCluster) -> None:
    """Report changes of nodes at a fixed rate."""
    began = time.monotonic()
    number = 0
    while True:
        number += 1
        await asyncio.sleep(began + number / _NEWS_PER_SECOND - time.monotonic())
        async with http.post("/v1/reports", data=cluster.news(time.time())) as response:
            await response.read()


async def _passes(http: aiohttp.ClientSession, seconds: float) -> list[float]:
    """Return the durations of all passes that end meanwhile."""
    until = time.monotonic() + seconds
    durations: dict[float, float] = {}
    while time.monotonic() < until:
        async with http.get("/metrics") as response:
            scraped = samples(await response.text())
        durations[total(scraped, _AT)] = total(scraped, _DURATION)
        await asyncio.sleep(1 / _SCRAPES_PER_SECOND)
    return list(durations.values())


def _figures(analysis: AnalysisLoad) -> tuple[Figure, ...]:
    latencies = analysis.latencies
    return (
        Figure(name="passes", value=len(analysis.passes), unit="passes", at_least=2),
        Figure(
            name="pass",
            value=max(analysis.passes, default=None),
            unit="s, the longest",
            at_most=MOST_PASS_SECONDS,
        ),
        Figure(name="pass_shortest", value=min(analysis.passes, default=None), unit="s"),
        Figure(name="asked", value=len(latencies.seconds), unit="requests", at_least=1),
        Figure(name="not_answered", value=latencies.failed, unit="requests", at_most=0),
        Figure(name="answer_p50", value=latencies.milliseconds(0.5), unit="ms"),
        Figure(
            name="answer_p99", value=latencies.milliseconds(0.99), unit="ms", at_most=MOST_P99_MILLISECONDS
        ),
        Figure(name="busy", value=analysis.cpu_percent, unit="% of one core"),
        Figure(name="resident_memory", value=analysis.resident_mb, unit="MB"),
    )


def _accuracy_figures(errors: EnvelopeErrors | None) -> tuple[Figure, ...]:
    if errors is None:
        return ()
    return (
        Figure(name="envelopes_off", value=errors.worst_bins, unit="bins from numpy's", at_most=MOST_BINS),
        Figure(name="envelopes_compared", value=errors.values, unit="values", at_least=1),
        Figure(name="samples_missing", value=errors.missing, unit="samples", at_most=0),
    )
