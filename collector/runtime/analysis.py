"""Runs the analysis periodically: services and groups every minute, bottlenecks every few seconds.

Changes since the last pass are collected from the registry on the event loop, a few nodes at a time, as the
registry belongs to the loop. Everything else runs in a thread. Each result replaces the whole previous one.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from typing import TypeVar

import msgspec

from collector.analysis.analysis import Analysis, analyse, pack_profile, restore_analysis
from collector.analysis.bottlenecks import (
    Bottleneck,
    BottleneckKind,
    BottleneckTracker,
    Finding,
    findings,
)
from collector.analysis.services import RunningServices, ServiceProfile, service_table
from collector.analysis.usage import ObservedContainer, UsageWeights
from collector.common.extensions import extensions
from collector.common.outages import Dependency
from collector.common.periodic import in_background, repeat
from collector.config import CollectorConfig
from collector.history.interface import HistoryUnavailable
from collector.observe.registry import Registry
from collector.runtime.parts import Core

log = logging.getLogger(__name__)
Result = TypeVar("Result")

_NODES_AT_ONCE = 4
_SERVICES, _BOTTLENECKS = "service", "bottleneck"
_DUPLICATE_SECONDS = 300.0
_STORE_SECONDS = 900.0
"""Interval at which the profile of a running service is stored: it changes slowly."""
_bottlenecks = msgspec.msgpack.Decoder(Bottleneck)


class AnalysisPass:
    """Analyses the nodes that changed since the last pass, and from time to time all of them; also in replay.

    `due` belongs to the thread of the registry; `run` may run in another one.
    """

    def __init__(self, registry: Registry, config: CollectorConfig) -> None:
        self._registry, self._settings = registry, config.analysis
        self._weights = UsageWeights.of(config.envelopes)
        self._running: RunningServices | None = None
        self._full_pass_at = -inf

    def due(self, now: float) -> tuple[bool, Collection[str]]:
        """Return whether a full pass is due, which corrects missed changes, and the nodes to analyse."""
        changed = self._registry.usage.take_changed_nodes()
        if self._running is None or not 0 <= now - self._full_pass_at < self._settings.full_pass_seconds:
            self._full_pass_at = now
            return True, self._registry.names()
        return False, changed

    def run(
        self, observed: Mapping[str, Sequence[ObservedContainer]], before: Analysis, now: float, *, full: bool
    ) -> Analysis:
        """Analyse, and write services and groups into the live tables."""
        # A pass that fails could leave half of its changes, so its state is kept only once it is done.
        running, self._running = self._running, None
        if running is None or full:
            running = RunningServices(self._weights)
        tables = self._registry.tables
        snapshot = tables.snapshot(now)
        for node, containers in observed.items():
            running.put(node, containers)
        found = analyse(snapshot, running.pool(snapshot.at), before, self._settings)
        # Profiles that did not change are the same objects.
        if found.services != before.services:
            tables.put_services(service_table(found.services))
        tables.put_groups(found.changed_groups)
        self._running = running
        return found


class AnalysisJob:
    """Keeps `core.analysis` up to date."""

    def __init__(self, core: Core, threads: ThreadPoolExecutor) -> None:
        self._core = core
        self._threads = threads
        self._pass = AnalysisPass(core.registry, core.config)
        self._tracker = BottleneckTracker(now=core.clock())
        self._stored_at: dict[str, float] = {}

    async def restore(self) -> None:
        """Restore the results from before a restart from the history."""
        history, results = self._core.history, self._core.analysis
        results.latest = restore_analysis((await history.get_values(_SERVICES)).values())
        self._stored_at = {each.name: each.last_seen_at for each in results.latest.services.values()}
        stored = (await history.get_values(_BOTTLENECKS)).values()
        self._tracker = BottleneckTracker(_decode_bottlenecks(stored), now=self._core.clock())
        results.bottlenecks = self._tracker.list()
        self._core.registry.tables.put_services(service_table(results.latest.services))

    async def analyse(self) -> Analysis:
        """Run one pass and publish its result; `/readyz` shows if it fails."""
        outages = self._core.outages
        try:
            found = await self._analyse()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            outages.begin(Dependency.ANALYSIS, f"the analysis failed ({why}): its last results stay in use")
            raise
        outages.end(Dependency.ANALYSIS, "the analysis of services works again")
        return found

    async def _analyse(self) -> Analysis:
        started_at = time.monotonic()
        full, nodes = self._pass.due(self._core.clock())
        observed, before = await self._collect(nodes), self._core.analysis.latest
        found = await self._in_thread(lambda: self._pass.run(observed, before, self._core.clock(), full=full))
        found = replace(found, seconds=time.monotonic() - started_at)
        forgotten = self._core.analysis.latest.services.keys() - found.services.keys()
        self._core.analysis.latest = found
        await self._store_services(found.services, forgotten)
        return found

    async def detect(self) -> tuple[Bottleneck, ...]:
        """Detect bottlenecks, and return those that opened or closed."""
        now = self._core.clock()
        refused = tuple(self._refused(now))
        await self._count_energy(now)
        added = [each for module in extensions("findings") for each in await module.findings(self._core)]
        of_nodes = await self._in_thread(lambda: findings(self._core.registry.tables.snapshot(now)))
        found = (*of_nodes, *refused, *added)
        kept = {each.id for each in self._tracker.list()}
        changed = self._tracker.update(found, now)
        self._core.analysis.bottlenecks = self._tracker.list()
        for each in changed:
            state = "opened" if each.is_open else "closed"
            log.info("alert of kind %s %s: %s", each.finding.kind, state, each.finding.evidence)
        dropped = kept - {each.id for each in self._tracker.list()}
        entries = {each.id: msgspec.msgpack.encode(each) for each in changed} | dict.fromkeys(dropped)
        await self._store(_BOTTLENECKS, entries)
        return changed

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _collect(self, nodes: Collection[str]) -> dict[str, list[ObservedContainer]]:
        observed: dict[str, list[ObservedContainer]] = {}
        for number, name in enumerate(nodes, 1):
            observed[name] = self._core.registry.usage.observed_containers(name)
            if number % _NODES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return observed

    async def _count_energy(self, now: float) -> None:
        """Count the energy of services, a few nodes at a time, since this reads all containers."""
        registry = self._core.registry
        watts: defaultdict[str, float] = defaultdict(float)
        names = registry.names()
        for start in range(0, len(names), _NODES_AT_ONCE):
            for service, more in registry.service_watts(now, names[start : start + _NODES_AT_ONCE]).items():
                watts[service] += more
            await asyncio.sleep(0)
        registry.count_energy(watts, self._core.clock())

    def _refused(self, now: float) -> Iterator[Finding]:
        """Return findings about nodes that exceeded a limit, or whose name two agents use."""
        since = now - 2 * self._core.config.analysis.bottleneck_seconds
        for node, refused in self._core.registry.limits.refused(since).items():
            limits = ", ".join(f"{limit} ({count})" for limit, count in sorted(refused.items()))
            yield Finding(
                kind=BottleneckKind.LIMIT,
                subject=node,
                evidence=f"{node} reports more than its limits allow; refused since the start: {limits}",
            )
        # An agent whose name is in use retries at growing intervals.
        for node in self._core.registry.duplicates(now - _DUPLICATE_SECONDS):
            yield Finding(
                kind=BottleneckKind.DUPLICATE,
                subject=node,
                evidence=f"two agents report under the name {node}: give one of them another name",
            )

    async def _store_services(self, services: Mapping[str, ServiceProfile], forgotten: Iterable[str]) -> None:
        now = self._core.clock()
        before = self._stored_at
        due = {
            name: each
            for name, each in services.items()
            if each.profiled and each.containers and now - before.get(name, -inf) >= _STORE_SECONDS
        }
        packed = await self._in_thread(lambda: {name: pack_profile(each) for name, each in due.items()})
        if await self._store(_SERVICES, packed | dict.fromkeys(forgotten)):
            self._stored_at = {name: at for name, at in before.items() if name in services}
            self._stored_at |= dict.fromkeys(due, now)

    async def _store(self, kind: str, entries: Mapping[str, bytes | None]) -> bool:
        if not entries:
            return True
        try:
            await self._core.history.put_values(kind, entries)
        except HistoryUnavailable as error:
            log.warning("cannot store %s results: %s", kind, error)
            return False
        return True


def _decode_bottlenecks(stored: Iterable[bytes]) -> Iterator[Bottleneck]:
    for each in stored:
        try:
            yield _bottlenecks.decode(each)
        except (msgspec.DecodeError, ValueError) as error:
            log.warning("a stored bottleneck is invalid, and is ignored: %s", error)


@asynccontextmanager
async def restored_analysis(core: Core) -> AsyncIterator[AnalysisJob]:
    """Create the analysis, with the results from before a restart; `analysing` runs it."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="analysis") as threads:
        job = AnalysisJob(core, threads)
        await job.restore()
        yield job


@asynccontextmanager
async def analysing(core: Core, job: AnalysisJob) -> AsyncIterator[None]:
    """Run the analysis periodically while the block runs."""
    settings = core.config.analysis
    async with in_background(
        repeat(job.analyse, settings.interval_seconds, "analysis"),
        repeat(job.detect, settings.bottleneck_seconds, "bottleneck detection"),
    ):
        yield
