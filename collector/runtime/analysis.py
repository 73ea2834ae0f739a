"""Runs the analysis periodically: services and groups every minute, bottlenecks every few seconds.

Changes since the last pass are collected from the registry on the event loop, a few nodes at a time, as the
registry belongs to the loop. The worker computes. Each result replaces the whole previous one.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from math import inf
from typing import TypeVar

import msgspec

from collector.analysis.analysis import (
    Analysis,
    AnalysisChanges,
    AnalysisPass,
    in_parts,
    merged,
    pack_profile,
    restore_analysis,
    without_node,
)
from collector.analysis.bottlenecks import Bottleneck, BottleneckKind, BottleneckTracker, Finding, findings
from collector.analysis.services import ServiceProfile, service_table
from collector.analysis.usage import ObservedContainer
from collector.common.errors import HistoryUnavailable
from collector.common.extensions import extensions
from collector.common.outages import Dependency
from collector.common.periodic import in_background, repeat
from collector.common.text import counted
from collector.config import CollectorConfig
from collector.history.interface import decode_values
from collector.observe.registry import Registry
from collector.runtime.parts import Core

log = logging.getLogger(__name__)
Result = TypeVar("Result")

_NODES_AT_ONCE = 4
_CONTAINERS_AT_ONCE = 200
"""More would hold the interpreter lock for longer when they are handed over."""
_SERVICES, _BOTTLENECKS = "service", "bottleneck"
_DUPLICATE_SECONDS = 300.0
_SERVICES_SHOWN = 3
_STORE_SECONDS = 900.0
"""Interval at which the profile of a running service is stored: it changes slowly."""
_bottlenecks = msgspec.msgpack.Decoder(Bottleneck)


class PassSchedule:
    """Which nodes a pass analyses: those that changed since the last one, and from time to time all."""

    def __init__(self, registry: Registry, config: CollectorConfig) -> None:
        self._registry, self._settings = registry, config.analysis
        self._full_pass_at = -inf

    def due(self, now: float, *, is_first: bool = False) -> tuple[bool, Collection[str]]:
        """Return whether a full pass is due, which corrects missed changes, and the nodes to analyse."""
        changed = self._registry.usage.take_changed_nodes()
        if is_first or not 0 <= now - self._full_pass_at < self._settings.full_pass_seconds:
            self._full_pass_at = now
            return True, self._registry.names()
        return False, changed


class AnalysisJob:
    """Keeps `core.analysis` up to date."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._schedule = PassSchedule(core.registry, core.config)
        self._passing = asyncio.Lock()
        """Held during a pass, which consists of several calls of the worker."""
        self._starts: int | None = None
        """The start of the worker that has the state of the last pass."""
        self._tracker = BottleneckTracker(now=core.clock())
        self._stored_at: dict[str, float] = {}

    async def restore(self) -> None:
        """Restore the results from before a restart from the history."""
        history, results = self._core.history, self._core.analysis
        results.latest = restore_analysis((await history.get_values(_SERVICES)).values())
        self._stored_at = {each.name: each.last_seen_at for each in results.latest.services.values()}
        stored = await history.get_values(_BOTTLENECKS)
        found = decode_values(stored, _bottlenecks.decode, "the stored bottleneck")
        self._tracker = BottleneckTracker(found.values(), now=self._core.clock())
        results.bottlenecks = self._tracker.list()
        self._core.registry.tables.put_services(service_table(results.latest.services))

    async def analyse(self) -> Analysis:
        """Run one pass and publish its result; `/readyz` shows if it fails."""
        outages = self._core.outages
        try:
            async with self._passing:
                found = await self._analyse()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            outages.begin(Dependency.ANALYSIS, f"the analysis failed ({why}): its last results stay in use")
            raise
        outages.end(Dependency.ANALYSIS, "the analysis of services works again")
        return found

    async def _analyse(self) -> Analysis:
        started_at, core, before = time.monotonic(), self._core, self._core.analysis.latest
        starts, config = core.worker.starts, core.config

        async def run(method: Callable[..., Iterator[Result]], *arguments: object) -> list[Result]:
            return await core.worker.run_kept(AnalysisPass, starts, method, *arguments)

        full, nodes = self._schedule.due(core.clock(), is_first=starts != self._starts)
        if starts != self._starts:
            await run(AnalysisPass.restart, replace(before, services={}))
            for services in in_parts(before.services):
                await run(AnalysisPass.restore, services)
        # After a failure, what the worker keeps may be incomplete.
        self._starts = None
        if full:
            await run(AnalysisPass.begin, config.analysis, config.envelopes)
        # Sent in order without waiting for each: a plan between two of them would hold up all.
        sent = [asyncio.create_task(run(AnalysisPass.put, each)) async for each in self._collect(nodes)]
        await asyncio.gather(*sent)
        snapshot = await asyncio.to_thread(core.registry.tables.snapshot, core.clock())
        changes = await run(AnalysisPass.run, snapshot)
        for each in changes:
            await asyncio.to_thread(apply, core.registry, each)
        found = replace(merged(before, changes), seconds=time.monotonic() - started_at)
        core.analysis.latest, self._starts = found, starts
        await self._store_services(found.services, before.services.keys() - found.services.keys())
        return found

    async def remove_node(self, node: str, since: float | None, services: Collection[str]) -> None:
        """Take out what a node contributed to these services since a time; the next pass is without it."""
        async with self._passing:
            latest = self._core.analysis.latest
            self._core.analysis.latest = without_node(latest, node, since, services)
            self._starts = None
            forgotten = latest.services.keys() - self._core.analysis.latest.services.keys()
            await self._store(_SERVICES, dict.fromkeys(forgotten))
            self._stored_at = {}

    async def detect(self) -> tuple[Bottleneck, ...]:
        """Detect bottlenecks, and return those that opened or closed."""
        now = self._core.clock()
        refused = tuple(self._refused(now))
        await self._count_energy(now)
        added = [each for module in extensions("findings") for each in await module.findings(self._core)]
        snapshot = await asyncio.to_thread(self._core.registry.tables.snapshot, now)
        of_nodes = await self._core.worker.run(findings, snapshot)
        found = (*of_nodes, *refused, *self._outlying(), *added)
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

    async def _collect(self, nodes: Collection[str]) -> AsyncIterator[dict[str, list[ObservedContainer]]]:
        """Yield the containers of nodes in parts."""
        observed: dict[str, list[ObservedContainer]] = {}
        containers = 0
        for number, name in enumerate(nodes, 1):
            observed[name] = self._core.registry.usage.observed_containers(name)
            containers += len(observed[name])
            if containers >= _CONTAINERS_AT_ONCE:
                yield observed
                observed, containers = {}, 0
            elif number % _NODES_AT_ONCE == 0:
                await asyncio.sleep(0)
        yield observed

    async def _count_energy(self, now: float) -> None:
        """Count the energy of services."""
        registry = self._core.registry
        watts = await asyncio.to_thread(registry.tables.service_watts, now)
        registry.service_energy.update(watts, self._core.clock())

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

    def _outlying(self) -> Iterator[Finding]:
        """Return findings about nodes that do not count for a service."""
        for node, services in self._core.analysis.latest.outliers.items():
            some = ", ".join(services[:_SERVICES_SHOWN])
            yield Finding(
                kind=BottleneckKind.OUTLIER,
                subject=node,
                evidence=(
                    f"{node} reports far more use of {counted(len(services), 'service')} than others do, and"
                    f" does not count there: {some}. If it is compromised, revoke its token"
                ),
            )

    async def _store_services(self, services: Mapping[str, ServiceProfile], forgotten: Iterable[str]) -> None:
        now = self._core.clock()
        before = self._stored_at
        due = {
            name: each
            for name, each in services.items()
            if each.profiled and each.containers and now - before.get(name, -inf) >= _STORE_SECONDS
        }
        packed = await asyncio.to_thread(lambda: {name: pack_profile(each) for name, each in due.items()})
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


async def restored_analysis(core: Core) -> AnalysisJob:
    """Create the analysis, with the results from before a restart; `analysing` runs it."""
    job = AnalysisJob(core)
    await job.restore()
    return job


def apply(registry: Registry, changes: AnalysisChanges) -> None:
    """Write services and groups into the live tables."""
    if changes.table is not None:
        registry.tables.put_services(changes.table)
    registry.tables.put_groups(changes.groups)


def analysing(core: Core, job: AnalysisJob) -> AbstractAsyncContextManager[None]:
    """Run the analysis periodically while the block runs."""
    settings = core.config.analysis
    return in_background(
        repeat(job.analyse, settings.interval_seconds, "analysis"),
        repeat(job.detect, settings.bottleneck_seconds, "bottleneck detection"),
    )
