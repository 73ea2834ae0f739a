"""The newest picture of the cluster: who asks seldom waits for one to be taken."""

import asyncio
from collections.abc import Callable

from collector.live.live_tables import LiveTables
from collector.snapshot.tables import Snapshot

_PATIENCE_SECONDS = 0.003
"""A small cluster is pictured within this; of a large one, the last picture will do meanwhile."""


class SnapshotCache:
    """Pictures that are taken beside the event loop, one at a time."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._taking: asyncio.Task[None] | None = None
        self.rehearse: Callable[[Snapshot], object] | None = None
        """What was asked last: it is tried on each new picture, where nobody waits for it, so that who asks
        the like next finds most of it worked out."""

    async def snapshot(
        self, board: LiveTables, now: float, *, fresh_seconds: float, oldest_seconds: float
    ) -> Snapshot:
        """One no older than `fresh_seconds` if it can be had at once, else than `oldest_seconds`."""
        while not self._is_younger(now, fresh_seconds):
            taking, is_new = self._taking, False
            if taking is None or taking.done():
                taking, is_new = asyncio.create_task(self._take(board, now)), True
                self._taking = taking
            will_do = self._is_younger(now, oldest_seconds)
            await asyncio.wait({taking}, timeout=_PATIENCE_SECONDS if will_do else None)
            if taking.done():
                taking.result()
            # One that others began may be too old as well by the time it is there.
            if will_do or is_new:
                break
        assert self._last is not None
        return self._last

    def _is_younger(self, now: float, seconds: float) -> bool:
        return self._last is not None and 0 <= now - self._last.at < seconds

    async def _take(self, board: LiveTables, now: float) -> None:
        self._last = await asyncio.to_thread(self._look, board, now)

    def _look(self, board: LiveTables, now: float) -> Snapshot:
        snapshot = board.snapshot(now)
        if self.rehearse is not None:
            self.rehearse(snapshot)
        return snapshot
