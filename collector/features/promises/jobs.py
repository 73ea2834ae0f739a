"""Updates the ledger of promises: notes silent nodes, stores changes, and restores them after a restart.

A stored state contains the keys of the reports that it includes. A restarted collector applies the other
reports of the history: none is lost, and none counts twice, even if the collector was killed.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import msgspec

from collector.common.errors import HistoryUnavailable
from collector.common.periodic import in_background, repeat
from collector.common.report_key import ReportKey
from collector.features.promises.live import PromiseTracker
from collector.runtime.applied import Progress
from collector.runtime.parts import Core

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


def running(core: Core) -> AbstractAsyncContextManager[None]:
    """Update the ledger while the block runs."""
    promises = core.registry.part(PromiseTracker)

    async def forget() -> None:
        promises.forget(core.clock() - core.config.liveness.forget_after_hours * 3600)

    async def store() -> None:
        promises.note_silence(core.registry.silent_nodes(core.clock()))
        await store_promises(core)

    return in_background(
        repeat(forget, _FORGET_SECONDS, "forgetting ended instances"),
        repeat(store, _STORE_SECONDS, "storing promises"),
    )


async def store_promises(core: Core) -> None:
    """Store the changes since the last call. Raise `HistoryUnavailable`."""
    book = core.registry.part(PromiseTracker).book
    changed, book.changed = book.changed, set()
    progress = _StoredProgress(core.applied.progress(core.clock()), book.viewed_at)
    try:
        await core.history.put_values(
            _KIND, {**book.pack(changed), _PROGRESS: msgspec.msgpack.encode(progress)}
        )
    except HistoryUnavailable:
        book.changed |= changed
        raise


@asynccontextmanager
async def restoring(core: Core) -> AsyncIterator[None]:
    """Restore the stored state, then apply the reports that it does not include.

    The reports that restore the registry in between do not change it.
    """
    now, promises = core.clock(), core.registry.part(PromiseTracker)
    values = dict(await core.history.get_values(_KIND))
    stored, progress = values.pop(_PROGRESS, None), None
    if stored is not None:
        try:
            progress = _progress.decode(stored)
        except msgspec.DecodeError as error:
            log.warning("the stored ledger of promises is invalid, and starts again: %s", error)
            values.clear()
    promises.begin_restore(values, None if progress is None else progress.viewed_at)
    yield
    if progress is not None:
        until, applied = progress.reports.until, set(progress.reports.since)
        for received in await core.history.load_reports(until):
            if ReportKey.of(received.report) in applied:
                continue
            try:
                promises.replay(received.report, min(received.received_at, now), min(until, now))
            except Exception:
                log.exception("cannot restore a report of node %r", received.report.node)
    promises.end_restore(core.registry.running_containers(core.registry.names()), now)
    # After this, a kill loses nothing.
    with suppress(HistoryUnavailable):
        await store_promises(core)
