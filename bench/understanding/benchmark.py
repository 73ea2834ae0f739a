"""How long it takes to think a whole cluster through, who notices meanwhile, and whether the result is true.

A thousand nodes with fifty containers each have reported a whole day to a real collector process. It analyses
everything through from the start, again and again and without a pause, while others ask it questions and
nodes go on reporting at a fixed pace. Apart from that, envelopes of real load (the Bitbrains trace, through
the agent's own push logic) are held against numpy's.
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
from bench.understanding.accuracy import Truth, measure
from bench.understanding.cluster import (
    PERIOD_SECONDS,
    Cluster,
    Latencies,
    collector,
    fill,
    pace,
    talking,
)
from wattpack.datasets.options import add_data_option
from wire.errors import UserError

MOST_PASS_SECONDS = 5.0
MOST_P99_MILLISECONDS = 50.0
MOST_BINS = 1.0

_ASKED_PER_SECOND = 20.0
_NEWS_PER_SECOND = 100.0
_LOOKS_PER_SECOND = 5.0
_SETTLE_SECONDS = 10.0
_PATHS = (
    "/v1/alerts",
    "/v1/cluster",
    "/v1/nodes?limit=20",
    "/v1/services/service-7",
    "/v1/containers?service=service-7&limit=20",
    "/v1/groups",
)
_AT = "wattpack_collector_analysis_timestamp_seconds"
_DURATION = "wattpack_collector_analysis_duration_seconds"


_REAL_LOAD = "envelopes against real load"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--nodes", type=int, default=1000, help="nodes to think about")
    parser.add_argument("--containers", type=int, default=50, help="containers on each")
    parser.add_argument("--seconds", type=float, default=30.0, help="for how long it is asked meanwhile")
    add_data_option(parser)
    parser.add_argument("--hours", type=int, default=2, help="how much of the trace, up to 23")


def needs(options: argparse.Namespace) -> list[Need]:
    """A week of real load, for the envelopes."""
    return [dataset(WEEK, options.data, _REAL_LOAD)]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Think about a large cluster, then about real load."""
    if options.nodes < 1 or options.containers < 1 or options.seconds <= 0 or not 1 <= options.hours <= 23:  # noqa: PLR2004 - a day, nearly
        raise UserError("choose one node, container and second or more, and 1 to 23 hours")
    with tempfile.TemporaryDirectory() as folder, collector(Path(folder)) as (process, address):
        thought = asyncio.run(_think(address, process, options, progress))
    truth = None
    if not is_left_out(options, _REAL_LOAD):
        machines = read_machines(options.data, options.hours * 3600 // SLOT_SECONDS)
        truth = measure(machines, options.hours, progress)
    settings = {
        "nodes": options.nodes,
        "containers_per_node": options.containers,
        "asked_per_second": _ASKED_PER_SECOND,
        "news_per_second": _NEWS_PER_SECOND,
        "seconds": options.seconds,
        "pause_between_passes_seconds": PERIOD_SECONDS,
        "passes": "over every container, whether it was reported since the last one or not",
        "latency": "from the time a question was due to its answer, at the client",
        "real_load": None if truth is None else f"{options.hours} hours of Bitbrains",
    }
    return Result((*_figures(thought), *_true_figures(truth)), settings)


@dataclass(frozen=True, slots=True)
class Thought:
    """The figures of a collector that analyses."""

    passes: tuple[float, ...]
    """How long each took."""
    answers: Latencies
    cpu_percent: float
    resident_mb: float


async def _think(
    address: str, process: psutil.Popen, options: argparse.Namespace, progress: Progress
) -> Thought:
    cluster = Cluster(options.nodes, options.containers)
    now = time.time()
    async with talking(address) as http:
        await fill(http, cluster.heartbeats(now), 3 * options.nodes, progress)
        await asyncio.sleep(_SETTLE_SECONDS)
        paths = (*_PATHS, *(f"/v1/containers?node={name}" for name in cluster.names[::100]))
        progress.say(f"asking for {options.seconds:g} s while it analyses")
        began, used = time.monotonic(), sum(process.cpu_times()[:2])
        reporting = asyncio.create_task(_go_on(http, cluster))
        looking = asyncio.create_task(_passes(http, options.seconds))
        answers = await pace(http, paths, _ASKED_PER_SECOND, options.seconds)
        passes = await looking
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
        busy = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began)
    return Thought(tuple(passes), answers, 100 * busy, process.memory_info().rss / 1e6)


async def _go_on(http: aiohttp.ClientSession, cluster: Cluster) -> None:
    """Nodes report changes at their rate."""
    began = time.monotonic()
    number = 0
    while True:
        number += 1
        await asyncio.sleep(began + number / _NEWS_PER_SECOND - time.monotonic())
        async with http.post("/v1/reports", data=cluster.news(time.time())) as answer:
            await answer.read()


async def _passes(http: aiohttp.ClientSession, seconds: float) -> list[float]:
    """How long every pass took that ended meanwhile."""
    until = time.monotonic() + seconds
    took: dict[float, float] = {}
    while time.monotonic() < until:
        async with http.get("/metrics") as answer:
            scraped = samples(await answer.text())
        took[total(scraped, _AT)] = total(scraped, _DURATION)
        await asyncio.sleep(1 / _LOOKS_PER_SECOND)
    return list(took.values())


def _figures(thought: Thought) -> tuple[Figure, ...]:
    answers = thought.answers
    return (
        Figure(name="passes", value=len(thought.passes), unit="passes", at_least=2),
        Figure(
            name="pass",
            value=max(thought.passes, default=None),
            unit="s, the longest",
            at_most=MOST_PASS_SECONDS,
        ),
        Figure(name="pass_shortest", value=min(thought.passes, default=None), unit="s"),
        Figure(name="asked", value=len(answers.seconds), unit="questions", at_least=1),
        Figure(name="not_answered", value=answers.failed, unit="questions", at_most=0),
        Figure(name="answer_p50", value=answers.milliseconds(0.5), unit="ms"),
        Figure(name="answer_p99", value=answers.milliseconds(0.99), unit="ms", at_most=MOST_P99_MILLISECONDS),
        Figure(name="busy", value=thought.cpu_percent, unit="% of one core"),
        Figure(name="resident_memory", value=thought.resident_mb, unit="MB"),
    )


def _true_figures(truth: Truth | None) -> tuple[Figure, ...]:
    if truth is None:
        return ()
    return (
        Figure(name="envelopes_off", value=truth.worst_bins, unit="bins from numpy's", at_most=MOST_BINS),
        Figure(name="envelopes_compared", value=truth.values, unit="values", at_least=1),
        Figure(name="samples_missing", value=truth.missing, unit="samples", at_most=0),
    )
