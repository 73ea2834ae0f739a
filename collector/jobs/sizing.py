"""Keeps the usage of services by day, and computes the recommended sizes from it.

Containers are collected on the event loop, a few nodes at a time; the rest runs in a thread. Usage that
reports cannot restore after a restart is stored.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import numpy as np

from collector.analysis.usage import ObservedContainer
from collector.common.arrays import Floats
from collector.common.periodic import in_background, repeat
from collector.config import CollectorConfig
from collector.core.parts import Core
from collector.history.interface import HistoryUnavailable
from collector.sizing.daily import DailyUsage, day_of
from collector.sizing.recommendations import CapacityValue, CurrentSize, Sizing, recommend
from collector.sizing.sizes import CPU, MEMORY, SizeRules
from collector.snapshot.columns import Four, four
from collector.snapshot.tables import NOWHERE, Snapshot

log = logging.getLogger(__name__)

_KIND = "sizing"
_NODES_AT_ONCE = 4


class SizingJob:
    """Keeps `core.sizing` up to date."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.usage = DailyUsage(core.config.sizing.keep_days, core.config.limits.max_bytes)
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
        core = self._core
        observed = await self._collect()
        now = core.clock()
        killed = core.registry.take_out_of_memory()
        snapshot = await core.snapshot()
        found = await asyncio.to_thread(self._compute, observed, killed, snapshot, now)
        core.sizing.latest = found
        await self._store()
        return found

    async def _collect(self) -> list[ObservedContainer]:
        """Return the running containers."""
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
        killed: Mapping[str, float],
        snapshot: Snapshot,
        now: float,
    ) -> Sizing:
        config, before = self._core.config, self._core.sizing.latest
        # They count once, with the first run, even if that fails afterwards.
        restored, self._restored = self._restored, ()
        running = {(each.node, each.id) for each in observed} if restored else set()
        if ended := [each for each in restored if (each.node, each.id) not in running]:
            self.usage.update([*ended, *observed], now)
        self.usage.update(observed, now)
        for service, memory_bytes in killed.items():
            self.usage.note_out_of_memory(service, now, memory_bytes)
        # The tunings are learned by leaving out days, so they change once a day.
        today = day_of(now)
        services, tunings = recommend(
            self.usage.services,
            current_sizes(observed, snapshot),
            cluster_of(snapshot, config),
            rules_of(config),
            before.tunings if before.learned_on == today else None,
        )
        return Sizing(now, services, tunings, today)

    async def _store(self) -> None:
        values = self.usage.pack_changes()
        if not values:
            return
        try:
            await self._core.history.put_values(_KIND, values)
        except HistoryUnavailable:
            self.usage.requeue(values)
            raise


def rules_of(config: CollectorConfig) -> SizeRules:
    """Return the rules from the settings."""
    return SizeRules(
        percentiles=(config.envelopes.cpu, config.envelopes.memory),
        reserve_ratio=config.sizing.reserve_ratio,
        oom_raise_ratio=config.sizing.oom_raise_ratio,
    )


def current_sizes(observed: Sequence[ObservedContainer], snapshot: Snapshot) -> Mapping[str, CurrentSize]:
    """Return the current requests and limits of each service; of containers that differ, the highest."""
    limits: defaultdict[str, list[Four]] = defaultdict(list)
    for each in observed:
        limits[each.service].append(four(each.limit))
    requests: defaultdict[int, list[int]] = defaultdict(list)
    for task, service in enumerate(snapshot.tasks.service.tolist()):
        if service != NOWHERE:
            requests[service].append(task)
    index = snapshot.services.index
    found = {}
    for name, rows in limits.items():
        tasks = requests[index[name]] if name in index else []
        wanted = snapshot.tasks.requested[tasks]
        has = np.array(rows)
        found[name] = CurrentSize(
            containers=len(rows),
            cpu_request=_highest(wanted[:, CPU]),
            memory_request=_highest(wanted[:, MEMORY]),
            cpu_limit=_highest(has[:, CPU]),
            memory_limit=_highest(has[:, MEMORY]),
        )
    return found


def _highest(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else None


def cluster_of(snapshot: Snapshot, config: CollectorConfig) -> CapacityValue:
    """What reserved capacity is worth in this cluster."""
    nodes = snapshot.nodes
    capacity = np.nan_to_num(nodes.capacity[:, : MEMORY + 1], nan=0.0)
    allocated = np.nan_to_num(nodes.allocated[:, : MEMORY + 1], nan=0.0).sum(axis=0)
    total = np.maximum(capacity.sum(axis=0), 1e-9)
    idle = nodes.power.idle_watts[~np.isnan(nodes.power.idle_watts)]
    count = max(1, len(nodes.names))
    return CapacityValue(
        cpu_cores_per_node=float(capacity[:, CPU].sum() / count),
        memory_bytes_per_node=float(capacity[:, MEMORY].sum() / count),
        cpu_is_scarcer=bool(allocated[CPU] / total[CPU] >= allocated[MEMORY] / total[MEMORY]),
        idle_watts_per_node=float(idle.mean()) if idle.size else None,
        cost_per_core_hour=config.sizing.cost_per_core_hour,
        cost_per_gibibyte_hour=config.sizing.cost_per_gibibyte_hour,
    )


async def restored_sizing(core: Core) -> SizingJob:
    """Create the job, with the usage from before a restart; `sizing` runs it."""
    job = SizingJob(core)
    await job.restore()
    return job


@asynccontextmanager
async def sizing(core: Core, job: SizingJob) -> AsyncIterator[None]:
    """Compute sizes periodically while the block runs."""
    async with in_background(
        repeat(
            job.run_once,
            core.config.sizing.interval_seconds,
            "sizing services",
            expected=HistoryUnavailable,
        )
    ):
        yield
