"""The page in a real browser: first useful paint, sort and search, memory, and its cost for the collector.

It is measured with a cluster of the size of the demo, and with 1,000 nodes and 50,000 containers. The
collector has its own process. The CPU cost of a page is that of the requests that it sends while it is open:
each kind of request is repeated, and its median CPU time counts. The difference between periods with and
without the page is also reported, but the collector's own work varies by more than a page costs.
"""

import argparse
import asyncio
import json
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import aiohttp
import psutil

from bench.common.parts import choose_parts, run_parts
from bench.common.progress import Progress
from bench.common.requirements import Need, lab_part
from bench.common.results import Figure, Result
from bench.page.demo import CollectorProcess, running_cluster
from tests.lab.browser import Tab, browsing

SIZES: Mapping[str, tuple[int, int]] = {"demo": (20, 200), "large": (1000, 50_000)}
_PAINT_SECONDS, _CHANGE_MILLISECONDS, _MEMORY_MB, _CPU_PERCENT = 1.5, 200.0, 200.0, 2.0
"""The bounds, for both sizes."""
_PAINTS = 3
_SHORT_PERIODS = 2
"""Short periods with the page, after the long one in which its memory is measured. Periods without it are as
short."""
_SHORT_SHARE = 0.25
_REPEATS = 9
"""Number of times that each request is repeated."""
_SETTLE_SECONDS = 20.0
"""Time until the first requests of a page are done."""
_ORDERS = ("name", "cpu", "node", "memory", "watts")
_SEARCHES = ("ledger", "edge-0", "postgres")
_MB = 1e6
_WATCH = """
window.usefulAt = null;
new MutationObserver(() => {
  const shown = document.querySelector('[data-testid="cluster-watts"]');
  if (window.usefulAt !== null || !shown || !/[0-9]/.test(shown.textContent)) return;
  window.usefulAt = 0;
  requestAnimationFrame(() => setTimeout(() => { window.usefulAt = performance.now(); }));
}).observe(document, {subtree: true, childList: true, characterData: true});
"""
_CHANGE = """
(async () => {
  const rows = document.querySelector('[data-testid="containers-rows"]');
  const before = rows.firstElementChild?.textContent;
  const began = performance.now();
  %s
  while (rows.firstElementChild?.textContent === before || rows.firstElementChild === null) {
    if (performance.now() - began > 20000) return null;
    await new Promise((done) => requestAnimationFrame(done));
  }
  await new Promise((done) => requestAnimationFrame(done));
  return performance.now() - began;
})()
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"run only these sizes: {', '.join(SIZES)}")
    parser.add_argument(
        "--minutes", type=float, default=10.0, metavar="N", help="minutes that a page stays open"
    )


def needs(_options: argparse.Namespace) -> list[Need]:
    """A browser of the lab."""
    return [lab_part("browser")]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Measure the page at each size."""
    return run_parts(
        options,
        choose_parts(options.only, SIZES),
        lambda size: _measure(size, 60 * options.minutes, progress),
        progress,
    )


def _measure(size: str, seconds: float, progress: Progress) -> Iterator[Figure]:
    nodes, containers = SIZES[size]
    progress.say(f"{size}: starting {nodes} nodes, {containers} containers")
    with running_cluster(nodes, containers) as collector:
        yield from asyncio.run(_measure_page(size, collector, seconds, progress))


async def _measure_page(
    size: str, collector: CollectorProcess, seconds: float, progress: Progress
) -> list[Figure]:
    short = _SHORT_SHARE * seconds
    progress.wait(f"{size}: the collector settles", short)
    async with _tab() as tab:
        paints = [await _paint(tab, collector.url) for _ in range(_PAINTS)]
        # Measured before the long period, so that memory that a table does not free counts.
        sorts, searches = await _change(tab, collector.url)
        memory_mb: list[float] = []
        end_mb = 0.0

        async def period(label: str, length: float) -> float:
            """Wait, and return the share of a core that the collector uses."""
            before, began = collector.cpu_seconds(), time.monotonic()
            with progress.track(f"{size}: {label}", length, " s") as show:
                while (elapsed := time.monotonic() - began) < length:
                    await asyncio.sleep(min(5.0, length - elapsed))
                    memory_mb.append(_renderer_bytes() / _MB)
                    show(elapsed)
            return (collector.cpu_seconds() - before) / (time.monotonic() - began)

        async def without_page() -> float:
            await tab.open("about:blank")
            await asyncio.sleep(_SETTLE_SECONDS)
            return await period("without a page", short)

        without, with_page, sent = [await without_page()], [], list[str]()
        for length in (seconds, *[short] * _SHORT_PERIODS):
            await _paint(tab, collector.url)
            await asyncio.sleep(_SETTLE_SECONDS)
            before = len(tab.requests)
            with_page.append(await period("one page is open", length))
            if length == seconds:
                end_mb, sent = memory_mb[-1], tab.requests[before:]
            without.append(await without_page())
        problems = tab.problems
        costs = await _request_costs(collector, sent, progress)
    return [
        Figure(
            name=f"{size}: first useful paint, median of {_PAINTS}",
            value=statistics.median(paints),
            unit="s",
            at_most=_PAINT_SECONDS,
        ),
        *_changes(size, "sort", sorts),
        *_changes(size, "search", searches),
        Figure(
            name=f"{size}: memory of the page, highest", value=max(memory_mb), unit="MB", at_most=_MEMORY_MB
        ),
        Figure(name=f"{size}: memory of the page at its end", value=end_mb, unit="MB"),
        Figure(
            name=f"{size}: collector CPU for the requests of one open page",
            value=100 * sum(costs) / seconds,
            unit="% of a core",
            at_most=_CPU_PERCENT,
        ),
        *_cpu(size, without, with_page),
        Figure(name=f"{size}: errors of the page", value=float(len(problems)), unit="errors", at_most=0.0),
    ]


def _changes(size: str, what: str, found: list[float | None]) -> Iterator[Figure]:
    known = [each for each in found if each is not None]
    is_whole = len(known) == len(found)
    yield Figure(
        name=f"{size}: {what}, median",
        value=statistics.median(known) if is_whole else None,
        unit="ms",
        at_most=_CHANGE_MILLISECONDS,
    )
    yield Figure(name=f"{size}: {what}, slowest", value=max(known) if is_whole else None, unit="ms")


def _cpu(size: str, without: Sequence[float], with_page: Sequence[float]) -> Iterator[Figure]:
    """CPU of the collector: there is a period without the page before and after each one with it."""
    between = [statistics.mean(pair) for pair in pairwise(without)]
    added = [100 * (mine - other) for mine, other in zip(with_page, between, strict=True)]
    for name, value in (
        ("with a page minus without", statistics.mean(added)),
        ("with a page minus without, lowest difference", min(added)),
        ("with a page minus without, highest difference", max(added)),
        ("without a page", 100 * statistics.mean(without)),
        ("without a page, highest minus lowest", 100 * (max(without) - min(without))),
        ("with a page", 100 * statistics.mean(with_page)),
    ):
        yield Figure(name=f"{size}: collector CPU {name}", value=value, unit="% of a core")


async def _request_costs(collector: CollectorProcess, sent: Sequence[str], progress: Progress) -> list[float]:
    """CPU seconds of requests, by kind. They include the collector's other work meanwhile."""
    kinds = Counter(map(_kind, sent))
    latest = {_kind(address): address for address in sent}
    costs = []
    async with aiohttp.ClientSession() as session:
        for kind, count in kinds.items():
            if "/v1/" not in kind or kind.endswith("/stream"):
                continue
            found = []
            for _ in range(_REPEATS):
                before = collector.cpu_seconds()
                await _send(session, latest[kind])
                found.append(collector.cpu_seconds() - before)
            cost = statistics.median(found)
            progress.say(f"{count} requests like {latest[kind]}: {1000 * cost:.1f} ms of CPU each")
            costs.append(count * cost)
    return costs


def _kind(address: str) -> str:
    """Return a request without its period, which differs each time."""
    return re.sub(r"(?<=[?&])(start|end)=[^&]*&?", "", address)


async def _send(session: aiohttp.ClientSession, address: str) -> None:
    """Send a request as the page does: only those for hints have a body."""
    request = session.post(address, json={}) if "/v1/hints/" in address else session.get(address)
    async with request as response:
        response.raise_for_status()
        await response.read()


@asynccontextmanager
async def _tab() -> AsyncIterator[Tab]:
    with tempfile.TemporaryDirectory() as folder:
        async with browsing(Path(folder)) as tab:
            await tab.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
            yield tab


async def _paint(tab: Tab, url: str) -> float:
    """Time from the navigation until the power of the cluster is on the screen."""
    await tab.open("about:blank")
    await tab.open(f"{url}/")
    await tab.until("window.usefulAt > 0", 60)
    return float(await tab.run("window.usefulAt")) / 1000


async def _change(tab: Tab, url: str) -> tuple[list[float | None], list[float | None]]:
    """Milliseconds until the rows of sorts and searches of all containers are on the screen."""
    await tab.open("about:blank")
    await tab.open(f"{url}/#/containers")
    await tab.until("document.querySelector('[data-testid=\"containers-rows\"]')?.firstElementChild", 60)
    sorts = [
        await tab.run(
            _CHANGE % f"document.querySelector('[data-testid=\"containers-sort-{order}\"]').click();"
        )
        for order in _ORDERS
    ]
    searches = [
        await tab.run(
            _CHANGE % "const input = document.querySelector('[data-testid=\"containers-search\"]');"
            f" input.value = {json.dumps(text)}; input.dispatchEvent(new Event('input', {{bubbles: true}}));"
        )
        for text in _SEARCHES
    ]
    return sorts, searches


def _renderer_bytes() -> int:
    """Unshared memory of the page's renderer process; of several, the largest."""
    found = [
        process.memory_full_info().uss
        for process in psutil.Process().children(recursive=True)
        if "--type=renderer" in " ".join(process.cmdline())
    ]
    return max(found)
