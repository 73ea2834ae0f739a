"""Keeps the usage of services by day, and computes the recommended sizes from it.

Containers are collected on the event loop, a few nodes at a time; the rest runs in a thread. Usage that
reports cannot restore after a restart is stored.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import numpy as np

from collector.analysis.usage import ObservedContainer
from collector.common.periodic import in_background, repeat
from collector.features.sizing.daily import DailyUsage, day_of
from collector.features.sizing.recommendations import AverageNode, CurrentSize, Sizing, recommend
from collector.features.sizing.settings import SizingConfig
from collector.features.sizing.sizes import PLACES, SizeRules
from collector.runtime.parts import Core
from collector.snapshot.columns import Four, four
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.resources import RESOURCES

log = logging.getLogger(__name__)

_KIND = "sizing"
_NODES_AT_ONCE = 4


class SizingJob:
    """Keeps the latest recommendations up to date; they are replaced as a whole."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.latest = Sizing()
        self._computing = asyncio.Lock()
        self.usage = DailyUsage(core.config.section(SizingConfig).keep_days, core.config.limits.max_bytes)
        self._restored: Sequence[ObservedContainer] = ()
        """Containers that ran before a restart, until the first run has counted them."""

    async def restore(self) -> None:
        """Restore the usage from before a restart from the history.

        This runs before any report arrives: the registry still contains containers that have ended since, and
        their usage counts.
        """
        for name in self.usage.restore(await self._core.history.get_values(_KIND)):
            log.warning("the stored usage of service %r is invalid, and is learned again", name)
        self._restored = await self._collect()

    async def run_once(self) -> Sizing:
        """Compute and publish all sizes, and store changed usage. Raise `HistoryUnavailable`."""
        async with self._computing:
            return await self._run()

    async def remove_node(self, node: str) -> None:
        """Take out what a node contributed."""
        async with self._computing:
            self._restored = [each for each in self._restored if each.node != node]
            self.usage.remove_node(node)
        await self.run_once()

    async def _run(self) -> Sizing:
        core = self._core
        outliers = core.analysis.latest.outliers
        observed = [each for each in await self._collect() if each.service not in outliers.get(each.node, ())]
        for node, services in outliers.items():
            self.usage.remove_node(node, services)
        now = core.clock()
        killed = {
            (service, node): most
            for (service, node), most in core.registry.take_out_of_memory().items()
            if service not in outliers.get(node, ())
        }
        snapshot = await core.snapshot()
        found = await asyncio.to_thread(self._compute, observed, killed, snapshot, now)
        self.latest = found
        if values := self.usage.pack_changes():
            await core.history.put_values(_KIND, values)
            self.usage.changed.clear()
        return found

    async def _collect(self) -> list[ObservedContainer]:
        registry = self._core.registry
        observed: list[ObservedContainer] = []
        for number, name in enumerate(list(registry.names()), 1):
            observed += registry.usage.observed_containers(name)
            if number % _NODES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return observed

    def _compute(
        self,
        observed: Sequence[ObservedContainer],
        killed: Mapping[tuple[str, str], float],
        snapshot: Snapshot,
        now: float,
    ) -> Sizing:
        config, before = self._core.config, self.latest
        # They count once, with the first run, even if that fails afterwards.
        restored, self._restored = self._restored, ()
        running = {(each.node, each.id) for each in observed} if restored else set()
        if ended := [each for each in restored if (each.node, each.id) not in running]:
            self.usage.update([*ended, *observed], now)
        self.usage.update(observed, now)
        for (service, node), memory_bytes in killed.items():
            self.usage.note_out_of_memory(service, node, now, memory_bytes)
        # The tunings are learned by leaving out days, so they change once a day.
        today = day_of(now)
        services, tunings = recommend(
            self.usage.services,
            current_sizes(observed, snapshot, self._core.analysis.latest.outliers),
            average_node(snapshot),
            SizeRules(config.envelopes, config.section(SizingConfig).reserve_ratio),
            before.tunings if before.learned_on == today else None,
        )
        return Sizing(now, services, tunings, today)


def current_sizes(
    observed: Sequence[ObservedContainer], snapshot: Snapshot, outliers: Mapping[str, Sequence[str]]
) -> Mapping[str, CurrentSize]:
    """Return the current requests and limits of each service; of containers that differ, the highest.

    `outliers` are the services for which a node does not count, by node; none of `observed` is among them.
    """
    limits: defaultdict[str, list[Four]] = defaultdict(list)
    for each in observed:
        limits[each.service].append(four(each.limit))
    tasks, index, nodes = snapshot.tasks, snapshot.services.index, snapshot.nodes.index
    requests = np.full((len(index) + 1, len(RESOURCES)), np.nan)
    counts = np.ones(len(tasks.ids), dtype=np.bool_)
    for node, services in outliers.items():
        outlying = [index[each] for each in services if each in index]
        counts &= (tasks.node != nodes.get(node, NOWHERE)) | ~np.isin(tasks.service, outlying)
    # Tasks without a service, whose row is -1, and services without tasks share the last row.
    np.fmax.at(requests, tasks.service[counts], tasks.requested[counts])
    requests[-1] = np.nan
    found = {}
    for name, rows in limits.items():
        cpu, memory, *_ = requests[index.get(name, NOWHERE)].tolist()
        cpu_limit, memory_limit, *_ = np.fmax.reduce(rows).tolist()
        found[name] = CurrentSize(len(rows), (cpu, memory), (cpu_limit, memory_limit))
    return found


def average_node(snapshot: Snapshot) -> AverageNode:
    """Return what an average node has of the resource of which the larger share is reserved."""
    nodes = snapshot.nodes
    capacity, allocated = (np.nansum(each[:, PLACES], axis=0) for each in (nodes.capacity, nodes.allocated))
    scarce = int((allocated / np.maximum(capacity, 1e-9)).argmax())
    idle = nodes.power.idle_watts[~np.isnan(nodes.power.idle_watts)]
    return AverageNode(
        scarce=scarce,
        capacity=float(capacity[scarce]) / max(1, len(nodes.names)),
        idle_watts=float(idle.mean()) if idle.size else None,
    )


async def remove_node(core: Core, node: str) -> None:
    """Take out what a node contributed."""
    await core.part(SizingJob).remove_node(node)


async def restore(core: Core) -> None:
    """Restore the usage from before a restart."""
    await core.part(SizingJob).restore()


def running(core: Core) -> AbstractAsyncContextManager[None]:
    """Compute sizes periodically while the block runs."""
    return in_background(
        repeat(
            core.part(SizingJob).run_once,
            core.config.section(SizingConfig).interval_seconds,
            "sizing services",
        )
    )
