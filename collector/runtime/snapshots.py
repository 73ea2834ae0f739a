"""The newest snapshot of the cluster, built in a thread so that requests seldom wait for it."""

import asyncio
from collections.abc import Callable

from collector.observe.live_tables import LiveTables
from collector.snapshot.tables import Snapshot

_WAIT_SECONDS = 0.003
"""The snapshot of a small cluster takes less; for a large one, the last snapshot is used meanwhile."""


class SnapshotCache:
    """Snapshots that are built in a thread, one at a time."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._building: asyncio.Task[None] | None = None
        self.warm_up: Callable[[Snapshot], object] | None = None
        """Answers the last question again on each new snapshot, to cache what the next question needs."""

    async def snapshot(
        self, tables: LiveTables, now: float, *, fresh_seconds: float, oldest_seconds: float
    ) -> Snapshot:
        """A snapshot no older than `fresh_seconds` if there is one at once, else than `oldest_seconds`."""
        while not self._is_younger(now, fresh_seconds):
            building, is_new = self._building, False
            if building is None or building.done():
                building, is_new = asyncio.create_task(self._build(tables, now)), True
                self._building = building
            is_usable = self._is_younger(now, oldest_seconds)
            await asyncio.wait({building}, timeout=_WAIT_SECONDS if is_usable else None)
            if building.done():
                building.result()
            # One that an earlier request started may be too old as well.
            if is_usable or is_new:
                break
        assert self._last is not None
        return self._last

    def _is_younger(self, now: float, seconds: float) -> bool:
        return self._last is not None and 0 <= now - self._last.at < seconds

    async def _build(self, tables: LiveTables, now: float) -> None:
        self._last = await asyncio.to_thread(self._build_in_thread, tables, now)

    def _build_in_thread(self, tables: LiveTables, now: float) -> Snapshot:
        snapshot = tables.snapshot(now)
        if self.warm_up is not None:
            self.warm_up(snapshot)
        return snapshot
