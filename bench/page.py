"""The page in a real browser: first useful paint, sort and search, memory, and what it costs the collector.

Against the demo as it is, and with 1,000 nodes and 50,000 containers. The collector's CPU for one page is the
difference between stretches of time without and with it: the demo simulates agents in the same process. A
difference that is smaller than that of two stretches without a page says nothing.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from bench.frame import Figure, Progress, Result
from bench.page_demo import Demo, running_demo
from bench.parts import choose_parts, run_parts
from bench.requirements import Need, lab_part
from tests.lab.browser import Tab, browsing

SIZES: Mapping[str, tuple[int, int]] = {"demo": (20, 200), "large": (1000, 50_000)}
_PAINT_SECONDS, _CHANGE_MILLISECONDS, _MEMORY_MB, _CPU_PERCENT = 1.5, 200.0, 200.0, 2.0
"""The bounds, for both sizes."""
_PAINTS = 3
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
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"sizes: {', '.join(SIZES)}")
    parser.add_argument(
        "--minutes", type=float, default=10.0, metavar="N", help="how long a page stays open (default: 10)"
    )


def needs(_options: argparse.Namespace) -> list[Need]:
    """A browser."""
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
    with running_demo(nodes, containers) as demo:
        progress.wait(f"{size}: the collector without a page", seconds / 2)
        stretches = [_without_page(size, demo, seconds / 2, progress) for _ in range(2)]
        yield Figure(
            name=f"{size}: difference of two stretches without a page",
            value=100 * abs(stretches[1] - stretches[0]),
            unit="% of a core",
        )
        yield from asyncio.run(_look(size, demo, seconds, statistics.mean(stretches), progress))


def _without_page(size: str, demo: Demo, seconds: float, progress: Progress) -> float:
    """The share of a core that the collector and the simulated agents use."""
    before, began = demo.cpu_seconds(), time.monotonic()
    progress.wait(f"{size}: its CPU without a page", seconds)
    return (demo.cpu_seconds() - before) / (time.monotonic() - began)


async def _look(size: str, demo: Demo, seconds: float, without: float, progress: Progress) -> list[Figure]:
    async with _tab() as tab:
        paints = [await _paint(tab, demo.url) for _ in range(_PAINTS)]
        # Before its ten minutes, so that the memory that a table leaves behind counts.
        sorts, searches = await _change(tab, demo.url)
        await _paint(tab, demo.url)
        memory_mb: list[float] = []
        before, began = demo.cpu_seconds(), time.monotonic()
        with progress.track(f"{size}: one page is open", seconds, " s") as show:
            while (elapsed := time.monotonic() - began) < seconds:
                await asyncio.sleep(min(5.0, seconds - elapsed))
                memory_mb.append(_renderer_bytes() / _MB)
                show(elapsed)
        with_page = (demo.cpu_seconds() - before) / (time.monotonic() - began)
        problems = tab.problems
    return [
        Figure(
            name=f"{size}: first useful paint, median of {_PAINTS}",
            value=statistics.median(paints),
            unit="s",
            at_most=_PAINT_SECONDS,
        ),
        Figure(name=f"{size}: sort, median", value=_median(sorts), unit="ms", at_most=_CHANGE_MILLISECONDS),
        Figure(
            name=f"{size}: search, median",
            value=_median(searches),
            unit="ms",
            at_most=_CHANGE_MILLISECONDS,
        ),
        Figure(
            name=f"{size}: memory of the page, highest", value=max(memory_mb), unit="MB", at_most=_MEMORY_MB
        ),
        Figure(name=f"{size}: memory of the page at its end", value=memory_mb[-1], unit="MB"),
        Figure(
            name=f"{size}: collector CPU for one open page",
            value=100 * (with_page - without),
            unit="% of a core",
            at_most=_CPU_PERCENT,
        ),
        Figure(name=f"{size}: collector and simulated agents without a page", value=100 * without, unit="%"),
        Figure(name=f"{size}: errors of the page", value=float(len(problems)), unit="errors", at_most=0.0),
    ]


def _median(found: list[float | None]) -> float | None:
    known = [each for each in found if each is not None]
    return statistics.median(known) if len(known) == len(found) else None


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
    """How long sorts and searches of all containers take, until their rows are on the screen."""
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
    """Memory that the page's own process shares with no other; of several, the largest."""
    found = [
        process.memory_full_info().uss
        for process in psutil.Process().children(recursive=True)
        if "--type=renderer" in " ".join(process.cmdline())
    ]
    return max(found)
