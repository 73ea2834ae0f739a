"""Thinks the cluster through now and then, beside the event loop: what is understood is replaced as a whole.

Two rhythms: services and classes every minute, and every few seconds a look for what no node can see of
itself. What was heard since the last pass is gathered from the registry on the loop, a few nodes at a time,
since it is the loop's own; everything after that happens in a thread, in steps too short to be noticed.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from math import inf
from typing import TypeVar

import msgspec

from collector.analysis.analysis import Analysis, ServiceProfile, analyse, learnt_before, lesson
from collector.analysis.bottlenecks import Bottleneck, BottleneckTracker, Finding, findings
from collector.analysis.running import RunningServices
from collector.analysis.usage import ObservedContainer, UsageWeights
from collector.common.periodic import in_background, repeat
from collector.core.parts import Core
from collector.history.interface import HistoryUnavailable

log = logging.getLogger(__name__)
Found = TypeVar("Found")

_NODES_AT_ONCE = 4
_SERVICES, _BOTTLENECKS = "service", "bottleneck"
_RELEARN_SECONDS = 900.0
"""A known service that runs is written down again this often: it changes slowly, and disks are slow."""
_bottlenecks = msgspec.msgpack.Decoder(Bottleneck)


class AnalysisJob:
    """Keeps `core.analysis` up to date."""

    def __init__(self, core: Core, threads: ThreadPoolExecutor) -> None:
        self._core = core
        self._threads = threads
        self._settings = core.config.analysis
        self._reckoning = UsageWeights.of(core.config.envelopes)
        self._running: RunningServices | None = None
        self._began_anew_at = -inf
        self._watch = BottleneckTracker(now=core.clock())
        self._written_at: dict[str, float] = {}

    async def recollect(self) -> None:
        """Know again what was understood before a restart."""
        history, understood = self._core.history, self._core.analysis
        understood.latest = learnt_before(await history.get_values(_SERVICES))
        self._written_at = {each.name: each.seen_at for each in understood.latest.services.values()}
        told = (await history.get_values(_BOTTLENECKS)).values()
        self._watch = BottleneckTracker((_bottlenecks.decode(each) for each in told), now=self._core.clock())
        understood.bottlenecks = self._watch.listed()
        self._core.registry.tables.put_services(
            [each.facts() for each in understood.latest.services.values()]
        )

    async def think(self) -> Analysis:
        """One pass; what it found is there for everyone when this returns."""
        began_seconds = time.monotonic()
        anew, nodes = self._due()
        found = await self._beside(self._understand, await self._gather(nodes), anew)
        found = replace(found, seconds=time.monotonic() - began_seconds)
        forgotten = self._core.analysis.latest.services.keys() - found.services.keys()
        self._core.analysis.latest = found
        await self._write_services(found.services, forgotten)
        return found

    async def look(self) -> tuple[Bottleneck, ...]:
        """Look for what only the centre sees; gives what was opened or closed."""
        now = self._core.clock()
        found = await self._beside(self._find, now)
        kept = {each.id for each in self._watch.listed()}
        changed = self._watch.look(found, now)
        self._core.analysis.bottlenecks = self._watch.listed()
        for each in changed:
            log.info("%s: %s", "opened" if each.is_open else "closed", each.evidence)
        dropped = kept - {each.id for each in self._watch.listed()}
        entries = {each.id: msgspec.msgpack.encode(each) for each in changed} | dict.fromkeys(dropped)
        await self._remember(_BOTTLENECKS, entries)
        return changed

    async def _beside(self, work: Callable[..., Found], *arguments: object) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    def _due(self) -> tuple[bool, Collection[str]]:
        """Whether to begin anew, which heals whatever may have been missed, and which nodes to look at."""
        now, stirred = self._core.clock(), self._core.registry.take_changed_nodes()
        if self._running is None or not 0 <= now - self._began_anew_at < self._settings.full_pass_seconds:
            self._began_anew_at = now
            return True, self._core.registry.names()
        return False, stirred

    async def _gather(self, nodes: Collection[str]) -> dict[str, list[ObservedContainer]]:
        watched: dict[str, list[ObservedContainer]] = {}
        for number, name in enumerate(nodes, 1):
            watched[name] = self._core.registry.observed_containers(name)
            if number % _NODES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return watched

    def _understand(self, heard: Mapping[str, list[ObservedContainer]], anew: bool) -> Analysis:  # noqa: FBT001 - for a thread
        # A pass that fails could leave half of it behind: until this one is through, nothing is known.
        running, self._running = self._running, None
        if running is None or anew:
            running = RunningServices(self._reckoning)
        board = self._core.registry.tables
        before = self._core.analysis.latest
        snapshot = board.snapshot(self._core.clock())
        for node, watched in heard.items():
            running.put(node, watched)
        found = analyse(snapshot, running.learn(snapshot.at), before, self._settings)
        board.put_services([each.facts() for each in found.services.values()])
        board.put_groups(found.changed_groups)
        self._running = running
        return found

    def _find(self, now: float) -> tuple[Finding, ...]:
        return findings(self._core.registry.tables.snapshot(now))

    async def _write_services(self, services: Mapping[str, ServiceProfile], forgotten: Iterable[str]) -> None:
        now = self._core.clock()
        before = self._written_at
        due = {
            name: each
            for name, each in services.items()
            if each.profiled and each.containers and now - before.get(name, -inf) >= _RELEARN_SECONDS
        }
        entries = await self._beside(_lessons, due) | dict.fromkeys(forgotten)
        if await self._remember(_SERVICES, entries):
            self._written_at = {name: at for name, at in before.items() if name in services}
            self._written_at |= dict.fromkeys(due, now)

    async def _remember(self, kind: str, entries: Mapping[str, bytes | None]) -> bool:
        if not entries:
            return True
        try:
            await self._core.history.put_values(kind, entries)
        except HistoryUnavailable as error:
            log.warning("what was understood of %ss is not written down: %s", kind, error)
            return False
        return True


def _lessons(services: Mapping[str, ServiceProfile]) -> dict[str, bytes | None]:
    return {name: lesson(each) for name, each in services.items()}


@asynccontextmanager
async def understanding(core: Core) -> AsyncIterator[AnalysisJob]:
    """Think and look in two rhythms while the block runs."""
    settings = core.config.analysis
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="understanding") as threads:
        understander = AnalysisJob(core, threads)
        await understander.recollect()
        async with in_background(
            repeat(understander.think, settings.interval_seconds, "analysis"),
            repeat(understander.look, settings.bottleneck_seconds, "bottleneck detection"),
        ):
            yield understander
