"""Compares predicted with actual shortages of nodes, window by window, and stores the record."""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext

from collector.common.periodic import in_background, repeat
from collector.runtime.parts import Core

_KIND, _RECORD = "admission", "shortages"
_CHECK_SECONDS = 15.0
"""Short, because a prediction is for a window that has just begun."""


def recording_shortages(core: Core) -> AbstractAsyncContextManager[None]:
    """Update the record while the block runs, unless all containers are admitted."""
    if core.admission is None:
        return nullcontext()
    return in_background(repeat(lambda: record_shortages(core), _CHECK_SECONDS, "recording shortages"))


async def record_shortages(core: Core) -> None:
    """If a window has begun, predict and score, and store the record. Raise `HistoryUnavailable`."""
    snapshot = await core.snapshot()
    # In a thread, because a large cluster takes longer than requests can wait.
    if await asyncio.to_thread(core.shortages.observe, snapshot):
        await core.history.put_values(_KIND, {_RECORD: core.shortages.pack()})


async def restore_shortages(core: Core) -> None:
    """Restore the stored record."""
    stored = (await core.history.get_values(_KIND)).get(_RECORD)
    if stored is not None:
        core.shortages.restore(stored)
