"""Updates the ledger of promises: notes silent nodes, stores changes, and restores them after a restart.

A stored state contains the keys of the reports that it includes. A restarted collector applies the other
reports of the history: none is lost, and none counts twice, even if the collector was killed.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from collector.common.periodic import in_background, repeat
from collector.core.applied import Progress, ReportKey
from collector.core.parts import Core
from collector.history.interface import HistoryUnavailable
from collector.live.promises.tracker import PromiseTracker

log = logging.getLogger(__name__)

_KIND, _PROGRESS = "slo", "progress"
_STORE_SECONDS = 5.0
_FORGET_SECONDS = 300.0


class _StoredProgress(msgspec.Struct, frozen=True):
    """The reports that the stored state includes."""

    reports: Progress
    viewed_at: float | None
    """When the orchestrator last reported its state."""


_progress = msgspec.msgpack.Decoder(_StoredProgress)


@asynccontextmanager
async def keeping_promises(core: Core) -> AsyncIterator[None]:
    """Update the ledger while the block runs."""
    promises = core.registry.part(PromiseTracker)

    async def forget() -> None:
        promises.forget(core.clock() - core.config.liveness.forget_after_hours * 3600)

    async def store() -> None:
        promises.note_silence(core.registry.silent_nodes(core.clock()))
        await store_promises(core)

    async with in_background(
        repeat(forget, _FORGET_SECONDS, "forgetting ended instances"),
        repeat(store, _STORE_SECONDS, "storing promises", expected=HistoryUnavailable),
    ):
        yield


async def store_promises(core: Core) -> None:
    """Store the changes since the last call. Raise `HistoryUnavailable`."""
    promises = core.registry.part(PromiseTracker)
    values = promises.pack_changes()
    progress = _StoredProgress(core.applied.progress(core.clock()), promises.viewed_at)
    try:
        await core.history.put_values(_KIND, {**values, _PROGRESS: msgspec.msgpack.encode(progress)})
    except HistoryUnavailable:
        promises.requeue(values)
        raise


class PromiseRestore:
    """Restores the ledger, around the restore of the registry."""

    def __init__(self, core: Core, progress: _StoredProgress | None) -> None:
        self._core, self._progress = core, progress

    @classmethod
    async def begin(cls, core: Core) -> "PromiseRestore":
        """Restore the stored state. The reports that restore the registry next do not change it."""
        values = dict(await core.history.get_values(_KIND))
        stored = values.pop(_PROGRESS, None)
        progress = None
        if stored is not None:
            try:
                progress = _progress.decode(stored)
            except msgspec.DecodeError as error:
                log.warning("the stored ledger of promises is invalid, and starts again: %s", error)
                values.clear()
        promises = core.registry.part(PromiseTracker)
        promises.begin_restore(values, None if progress is None else progress.viewed_at)
        return cls(core, progress)

    async def finish(self, now: float) -> None:
        """Apply the reports that the stored state does not include."""
        core, promises = self._core, self._core.registry.part(PromiseTracker)
        if self._progress is not None:
            until, applied = self._progress.reports.until, set(self._progress.reports.since)
            for received in await core.history.load_reports(until):
                if ReportKey.of(received.report) in applied:
                    continue
                try:
                    promises.replay(received.report, min(received.received_at, now), min(until, now))
                except Exception:
                    log.exception("cannot restore a report of node %r", received.report.node)
        promises.end_restore(core.registry.running_containers(), now)
        # After this, a kill loses nothing.
        with suppress(HistoryUnavailable):
            await store_promises(core)
